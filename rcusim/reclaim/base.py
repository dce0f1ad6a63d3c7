"""What every generation needs of its world, and what it promises.

A generation takes objects from workloads on the calling CPU, keeps them until a grace period has passed
and gives them back to the allocator. Each is a short file; which one runs is a word in the scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from rcusim._jit import IntArray
from rcusim.abc import Allocator, Hold
from rcusim.engine.steps import Machine, Price, Timer
from rcusim.machine.pages import PageAllocator
from rcusim.machine.workqueue import Kworker
from rcusim.probes import Probes
from rcusim.rcu.rcu import Rcu
from rcusim.reclaim.books import Books, Part
from rcusim.reclaim.chains import Chain, ChunkPool


@attrs.frozen
class ReclaimPrices:
    """Prices of deferred freeing, on top of what the allocator asks for each free.

    Attributes
    ----------
    callback_enqueue_ps, list_enqueue_ps, block_enqueue_ps : int
        Queueing one object on the callback list, on the list through the objects, in a block.
    callback_invoke_ps : int
        Invoking one callback of G0: the walk to a cold object and the call.
    list_walk_ps : int
        The walk to the next, cold, object of a list in a worker.
    block_record_ps : int
        The read of one pointer from a block in a worker.
    block_new_ns : int
        Setting up a block.
    page_attempt_ns : int
        A GFP_NOWAIT request, granted or not.
    page_free_ns : int
        Giving a block's page back.
    bulk_call_ns : int
        One ``kfree_bulk()``: the call, the interrupts, the trace point.
    rcu_work_ns : int
        The callback of an ``rcu_work``, which queues the work.
    """

    callback_enqueue_ps: int
    list_enqueue_ps: int
    block_enqueue_ps: int
    callback_invoke_ps: int
    list_walk_ps: int
    block_record_ps: int
    block_new_ns: int
    page_attempt_ns: int
    page_free_ns: int
    bulk_call_ns: int
    rcu_work_ns: int


@attrs.frozen
class Features:
    """What distinguishes one configuration of a generation from another.

    Attributes
    ----------
    drain_jiffies : int
        Delay of the monitor (``KFREE_DRAIN_JIFFIES``).
    slots : int
        Batches that may wait for a grace period at a time on a CPU (``KFREE_N_BATCHES``).
    block_entries : int
        Pointers per block (``KFREE_BULK_MAX_ENTR``).
    cached_pages : int
        Spare pages a CPU keeps (``bcached``): 0 or 1.
    objects_per_step : int
        How many objects of a list a worker frees between two points where others may run.
    """

    drain_jiffies: int
    slots: int
    block_entries: int
    cached_pages: int
    objects_per_step: int


@attrs.frozen(eq=False)
class Surroundings:
    """The world as a generation sees it."""

    cpus: int
    features: Features
    prices: ReclaimPrices
    step_prices: Mapping[str, Mapping[str, Price]]
    rcu: Rcu
    kworkers: Sequence[Kworker]
    allocator: Allocator
    pages: PageAllocator
    pool: ChunkPool
    books: Books
    probes: Probes
    outbox: list[Machine]
    armed: list[Timer]
    now_ns: Callable[[], int]


class Generation(Protocol):
    """A way to implement ``kfree_rcu()``.

    After :meth:`queue`, `held` names the locks that were held, with ns.
    """

    around: Surroundings
    held: list[tuple[Hold, int]]

    def queue(self, cpu: int, addresses: IntArray, first: int, n: int, object_bytes: int) -> int:
        """Take `n` objects of one size on `cpu`; return the price in ns."""
        ...

    def block_pages(self) -> int:
        """Return the pages of blocks, cached ones included, as counted when they come and go."""
        ...

    def recount_block_pages(self) -> int:
        """Return the same by looking at every chain and cache: slow and independent."""
        ...

    def chains(self) -> Iterator[tuple[Part, Chain]]:
        """Yield every chain of objects with the part it belongs to: for recounts."""
        ...
