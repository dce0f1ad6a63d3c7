"""G0, up to 5.4: every object is a callback of its own on the CPU's callback list.

``kfree_rcu()`` is ``call_rcu()`` with the offset of the head in the object as its function; the object
itself is the list node, so nothing can fail. RCU's softirq frees object by object, within the limits of
``rcu_do_batch()``. The lazy flag of those kernels, which only changed idle entry, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from rcusim._jit import IntArray
from rcusim.abc import Hold
from rcusim.rcu.config import TIME_CHECK_CALLBACKS
from rcusim.reclaim.base import Surroundings
from rcusim.reclaim.books import Part
from rcusim.reclaim.chains import Chain
from rcusim.reclaim.freeing import free_oldest

FREE_NS_MOST = 2_000
"""More than a free ever costs: with so much time left for each there is no need to look."""


@attrs.define(eq=False)
class KfreeRun:
    """Consecutive ``kfree_rcu()`` callbacks of a CPU: one entry of the callback list."""

    around: Surroundings
    chain: Chain
    owner: CallRcuEach
    serial: int
    part: Part = Part.WAITING_GP
    held: list[tuple[Hold, int]] = attrs.field(factory=list)

    @property
    def count(self) -> int:
        """Number of callbacks not yet invoked."""
        return self.chain.objects

    def ready(self) -> None:
        """Note that the run has reached the DONE segment."""
        self.part = Part.WAITING_WORKER
        self.around.books.move(
            Part.WAITING_GP, Part.WAITING_WORKER, self.chain.objects, self.chain.size_bytes
        )

    def invoke(self, cpu: int, limit: int, budget_ns: int) -> tuple[int, int]:
        """Free up to `limit` objects from the front."""
        freed = price_ns = 0
        while freed < limit and self.chain.objects:
            left = limit - freed
            watched = budget_ns and budget_ns - price_ns < left * FREE_NS_MOST
            most = (
                min(left, TIME_CHECK_CALLBACKS - freed % TIME_CHECK_CALLBACKS) if watched else left
            )
            n, cost_ns = free_oldest(self.around, cpu, self.chain, self.part, most)
            self.held.extend(self.around.allocator.held)
            freed += n
            price_ns += cost_ns
            if budget_ns and price_ns >= budget_ns and freed % TIME_CHECK_CALLBACKS == 0:
                break
        if not self.chain.objects:
            self.owner.forget(self)
        return freed, price_ns


@attrs.define(eq=False)
class CallRcuEach:
    """The generation."""

    around: Surroundings
    held: list[tuple[Hold, int]] = attrs.field(factory=list)
    _runs: dict[int, KfreeRun] = attrs.field(factory=dict)
    _serial: int = 0

    def queue(self, cpu: int, addresses: IntArray, first: int, n: int, object_bytes: int) -> int:
        """Append `n` callbacks to the list of `cpu`."""
        around = self.around
        around.pool.stamp += 1
        around.books.queue(Part.WAITING_GP, n, n * object_bytes)
        run = around.rcu.next_tail(cpu)
        now_ns = around.now_ns()
        if isinstance(run, KfreeRun):
            run.chain.extend(now_ns, addresses, first, n, object_bytes)
            around.rcu.extend(cpu, n)
        else:
            self._serial += 1
            run = self._runs[self._serial] = KfreeRun(
                around, Chain(around.pool), self, self._serial
            )
            run.chain.extend(now_ns, addresses, first, n, object_bytes)
            around.rcu.call(cpu, run)
        return n * around.prices.callback_enqueue_ps // 1000

    def forget(self, run: KfreeRun) -> None:
        """Drop a run whose objects are all freed."""
        del self._runs[run.serial]

    def block_pages(self) -> int:
        """Return 0: there are no blocks."""
        return 0

    def recount_block_pages(self) -> int:
        """Return 0 as well."""
        return 0

    def chains(self) -> Iterator[tuple[Part, Chain]]:
        """Yield the chains of all runs."""
        for run in self._runs.values():
            yield run.part, run.chain
