"""What workloads share: their view of the world, allocation with patience, and queueing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from rcusim._jit import IntArray
from rcusim.abc import Allocator
from rcusim.engine.choices import Choices
from rcusim.engine.clock import Engine
from rcusim.engine.steps import Machine, Price, Timer
from rcusim.machine.cpu import Scheduler
from rcusim.machine.pages import PageAllocator
from rcusim.probes import Probes
from rcusim.rcu.rcu import Rcu
from rcusim.reclaim.base import Generation
from rcusim.reclaim.books import Books
from rcusim.units import S_NS

PATIENCE_NS = 10 * S_NS
"""A GFP_KERNEL allocation fails when no page was freed for so long."""


@attrs.frozen(eq=False)
class Field:
    """The world as workloads see it."""

    cpus: int
    engine: Engine
    scheduler: Scheduler
    choices: Choices
    rcu: Rcu
    allocator: Allocator
    generation: Generation
    pages: PageAllocator
    books: Books
    probes: Probes
    step_prices: Mapping[str, Mapping[str, Price]]
    outbox: list[Machine]
    armed: list[Timer]
    now_ns: Callable[[], int]

    def allocate(
        self, machine: Machine, cache: int, n: int, out: IntArray, first: int
    ) -> tuple[int, int]:
        """Allocate up to `n` objects on the CPU of `machine`.

        Returns
        -------
        got : int
            How many were had; fewer when no page could be.
        price_ns : int
            What it cost.
        """
        allocator = self.allocator
        got = allocator.allocate(machine.cpu, cache, n, out, first)
        machine.held.extend(allocator.held)
        self.books.allocate(got, got * allocator.object_bytes(cache))
        if self.probes.allocated:
            self.probes.allocated(machine.cpu, out, first, got)
        return got, allocator.price_ns

    def queue(self, machine: Machine, cache: int, addresses: IntArray, first: int, n: int) -> int:
        """Give `n` objects of one cache to ``kfree_rcu()``; return the price in ns."""
        generation = self.generation
        if self.probes.queued:
            self.probes.queued(machine.cpu, addresses, first, n)
        price_ns = generation.queue(
            machine.cpu, addresses, first, n, self.allocator.object_bytes(cache)
        )
        machine.held.extend(generation.held)
        generation.held.clear()
        return price_ns


@attrs.define(eq=False)
class Patience:
    """How long an allocation that may sleep goes on without success.

    It sleeps a jiffy and tries again; when no page at all was given back for :data:`PATIENCE_NS` it fails.
    """

    pages: PageAllocator
    now_ns: Callable[[], int]
    _since_ns: int = -1
    _returned_pages: int = -1

    def succeeded(self) -> None:
        """End the episode: something was had."""
        self._since_ns = -1

    def exhausted(self) -> bool:
        """Note another failure; return whether to give up."""
        now_ns = self.now_ns()
        if self._since_ns < 0 or self.pages.returned_pages != self._returned_pages:
            self._returned_pages = self.pages.returned_pages
            self._since_ns = now_ns
        return now_ns - self._since_ns >= PATIENCE_NS


@attrs.define(eq=False)
class Outcome:
    """How a workload stands.

    Attributes
    ----------
    running : int
        Threads that have not ended.
    failed : list of str
        Threads that ended because no memory could be had (-ENOMEM).
    first_start_ns : int
        When the first thread began, -1 before.
    """

    running: int = 0
    failed: list[str] = attrs.field(factory=list)
    first_start_ns: int = -1

    def started(self, now_ns: int) -> None:
        """Note the start of a thread's measured part."""
        if self.first_start_ns < 0:
            self.first_start_ns = now_ns

    def ended(self) -> None:
        """Note the end of a thread."""
        self.running -= 1
