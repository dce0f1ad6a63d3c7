"""G2, 5.7 and 5.8: page-sized blocks of pointers, and an emergency list when no page can be had.

A call that finds the newest block missing or full takes the CPU's spare page, else asks the page
allocator with GFP_NOWAIT; if that fails the object goes on the list through its ``rcu_head``, and the
next call tries again (commit 34c881745549). A worker frees block by block, newest first, then the list
object by object. The shrinker of 5.8 is left out.
"""

from __future__ import annotations

import attrs

from rcusim._jit import IntArray
from rcusim.reclaim.batching import NO_PAGE, Batching, Krc
from rcusim.reclaim.books import Part


@attrs.define(eq=False)
class BulkBlocks(Batching):
    """The generation."""

    def queue(self, cpu: int, addresses: IntArray, first: int, n: int, object_bytes: int) -> int:
        """Store `n` objects in blocks of `cpu`, or on its emergency list."""
        krc = self.krcs[cpu]
        self.around.pool.stamp += 1
        price_ns = 0
        while n > 0:
            room, cost_ns = self._room(krc)
            price_ns += cost_ns
            stored = min(n, room) if room else n
            if room:
                price_ns += self._store(krc, addresses, first, stored, object_bytes)
            else:  # within a turn no page comes free: every further call would fail as well
                price_ns += self._link(krc, addresses, first, stored, object_bytes)
                price_ns += (stored - 1) * cost_ns
                self.around.pages.refuse(stored - 1)
            first += stored
            n -= stored
        krc.arm_monitor()
        self.held.append((krc.lock, price_ns))
        return price_ns

    def _room(self, krc: Krc) -> tuple[int, int]:
        """Return the free entries of the newest block, a new one if need be, and what that cost."""
        around = self.around
        pool, prices, entries = around.pool, around.prices, around.features.block_entries
        chunks = krc.blocks.chunks
        if chunks and pool.count[chunks[-1]] < entries:
            return entries - pool.count[chunks[-1]], 0
        frame, price_ns = krc.cached_frame, 0
        krc.cached_frame = NO_PAGE
        if frame == NO_PAGE:
            price_ns = prices.page_attempt_ns
            frame = around.pages.take_nowait()
            if frame == NO_PAGE:
                return 0, price_ns
            krc.held_pages[0] += 1
        chunks.append(pool.new(around.now_ns(), frame))
        return entries, price_ns + prices.block_new_ns

    def _store(self, krc: Krc, addresses: IntArray, first: int, n: int, object_bytes: int) -> int:
        around, blocks = self.around, krc.blocks
        around.books.queue(Part.COLLECTING_BLOCKS, n, n * object_bytes)
        around.pool.append(blocks.chunks[-1], addresses, first, n, object_bytes, around.now_ns())
        blocks.objects += n
        blocks.size_bytes += n * object_bytes
        return n * around.prices.block_enqueue_ps // 1000

    def _link(self, krc: Krc, addresses: IntArray, first: int, n: int, object_bytes: int) -> int:
        around = self.around
        around.books.queue(Part.COLLECTING_LIST, n, n * object_bytes)
        around.books.emergency += n
        if around.probes.block_missed:
            around.probes.block_missed(krc.cpu, n)
        krc.head.extend(around.now_ns(), addresses, first, n, object_bytes)
        return n * around.prices.list_enqueue_ps // 1000
