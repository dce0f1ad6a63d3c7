"""What the operations of SLUB cost."""

from __future__ import annotations

import attrs

from rcusim.slab import slub_kernel as kernel

PS_PER_NS = 1000


def _price() -> int:
    price: int = attrs.field(validator=[attrs.validators.instance_of(int), attrs.validators.ge(0)])
    return price


@attrs.frozen(kw_only=True)
class SlubPrices:
    """Prices of a core of full speed; per-object ones in picoseconds, all others in nanoseconds.

    An operation costs the sum of what it did, rounded down to a nanosecond once. That objects of
    slabs of several pages are colder is not priced.

    Attributes
    ----------
    alloc_fast_ps : int
        An object from the CPU's freelist: the whole of ``kmalloc()`` when nothing else happens.
    bulk_alloc_ps : int
        The same inside ``kmem_cache_alloc_bulk()``, interrupts already off.
    free_fast_ps : int
        An object to the CPU's freelist: the whole of ``kfree()``.
    free_slow_ps : int
        An object to the freelist of a slab, with a locked exchange.
    bulk_free_ps : int
        Chaining an object to a detached freelist inside ``kfree_bulk()``.
    bulk_miss_ps : int
        Looking at an object of another slab meanwhile.
    group_fast_ps : int
        A detached freelist to the CPU's freelist.
    group_slow_ps : int
        The same to the freelist of a slab, with a locked exchange.
    refill_ns : int
        Entering the slow path of an allocation and, unless it fails, taking over a slab.
    slab_move_ns : int
        A slab to or from a CPU's partial list.
    list_lock_ns : int
        Taking and dropping the list lock, uncontended; counts as time for which it is held.
    node_move_ns : int
        A slab to or from the node's list; the lock is held.
    new_slab_ns : int
        Making a slab, its pages included.
    new_line_ps : int
        First touch of a cache line while chaining the objects of a new slab.
    discard_ns : int
        Unmaking a slab, its pages included.
    page_refusal_ns : int
        A request to the page allocator that is refused.
    large_alloc_ns, large_free_ns : int
        A request above the largest cache, and giving it back.
    """

    alloc_fast_ps: int = _price()
    bulk_alloc_ps: int = _price()
    free_fast_ps: int = _price()
    free_slow_ps: int = _price()
    bulk_free_ps: int = _price()
    bulk_miss_ps: int = _price()
    group_fast_ps: int = _price()
    group_slow_ps: int = _price()
    refill_ns: int = _price()
    slab_move_ns: int = _price()
    list_lock_ns: int = _price()
    node_move_ns: int = _price()
    new_slab_ns: int = _price()
    new_line_ps: int = _price()
    discard_ns: int = _price()
    page_refusal_ns: int = _price()
    large_alloc_ns: int = _price()
    large_free_ns: int = _price()

    def weights(self) -> dict[int, tuple[int, int]]:
        """Return for each count of the kernel its price, and its part under the lock, in ps."""
        ps = PS_PER_NS
        lock_ps, node_ps = self.list_lock_ns * ps, self.node_move_ns * ps
        return {
            kernel.ALLOCATED_FAST: (self.alloc_fast_ps, 0),
            kernel.ALLOCATED_SLOW: (self.alloc_fast_ps, 0),
            kernel.BULK_ALLOCATED: (self.bulk_alloc_ps, 0),
            kernel.FREED_FAST: (self.free_fast_ps, 0),
            kernel.FREED_SLOW: (self.free_slow_ps, 0),
            kernel.BULK_FREED: (self.bulk_free_ps, 0),
            kernel.GROUPS_FAST: (self.group_fast_ps, 0),
            kernel.GROUPS_SLOW: (self.group_slow_ps, 0),
            kernel.GROUP_MISSES: (self.bulk_miss_ps, 0),
            kernel.REFILLS: (self.refill_ns * ps, 0),
            kernel.SLABS_RELOADED: (0, 0),
            kernel.SLABS_FORGOTTEN: (0, 0),
            kernel.CPU_PARTIAL_TAKEN: (self.slab_move_ns * ps, 0),
            kernel.CPU_PARTIAL_GIVEN: (self.slab_move_ns * ps, 0),
            kernel.NODE_REFILLS: (0, 0),
            kernel.NODE_TAKEN: (node_ps, node_ps),
            kernel.DRAINS: (0, 0),
            kernel.DRAINED: (node_ps, node_ps),
            kernel.LIST_LOCKS: (lock_ps, lock_ps),
            kernel.SLABS_NEW: (self.new_slab_ns * ps, 0),
            kernel.LINES_NEW: (self.new_line_ps, 0),
            kernel.SLABS_DISCARDED: (self.discard_ns * ps, 0),
            kernel.FALLBACKS: (0, 0),
            kernel.PAGE_TAKES: (0, 0),
            kernel.PAGE_REFUSALS: (self.page_refusal_ns * ps, 0),
            kernel.LARGE_TAKEN: (self.large_alloc_ns * ps, 0),
            kernel.LARGE_GIVEN: (self.large_free_ns * ps, 0),
        }
