"""G1, 5.6: basic batching. Objects collect on a list through their ``rcu_head``.

The list is last-in first-out and unbounded; after the grace period a kworker walks it and frees object
by object (commit a35d16905efc and "multiple in-flight batches").
"""

from __future__ import annotations

import attrs

from rcusim._jit import IntArray
from rcusim.reclaim.batching import Batching
from rcusim.reclaim.books import Part


@attrs.define(eq=False)
class BasicBatching(Batching):
    """The generation."""

    def queue(self, cpu: int, addresses: IntArray, first: int, n: int, object_bytes: int) -> int:
        """Push `n` objects on the list of `cpu`."""
        around, krc = self.around, self.krcs[cpu]
        around.pool.stamp += 1
        around.books.queue(Part.COLLECTING_LIST, n, n * object_bytes)
        krc.head.extend(around.now_ns(), addresses, first, n, object_bytes)
        krc.arm_monitor()
        price_ns = n * around.prices.list_enqueue_ps // 1000
        self.held.append((krc.lock, price_ns))
        return price_ns
