"""What the operations of SLAB cost."""

from __future__ import annotations

import attrs

from rcusim.slab import kernel

PS_PER_NS = 1000


def _price() -> int:
    price: int = attrs.field(validator=[attrs.validators.instance_of(int), attrs.validators.ge(0)])
    return price


@attrs.frozen(kw_only=True)
class SlabPrices:
    """Prices of a core of full speed; per-object ones in picoseconds, all others in nanoseconds.

    An operation costs the sum of what it did, rounded down to a nanosecond once.

    Attributes
    ----------
    alloc_hit_ps : int
        An object from the CPU's array: the whole of ``kmalloc()`` when nothing else happens.
    free_hit_ps : int
        An object to the CPU's array: the whole of ``kfree()``.
    bulk_free_hit_ps : int
        The same inside ``kfree_bulk()``, interrupts already off.
    shared_object_ps : int
        A pointer copied between a CPU's array and the shared one; the list lock is held.
    refill_object_ps : int
        An object from a slab to a CPU's array; the lock is held unless the slab is new (5.4).
    flush_object_ps : int
        An object from an array to its slab, moving the slab between lists; the lock is held.
    refill_ns : int
        Entering the slow path of an allocation.
    flush_ns : int
        Entering the slow path of a free, or of reaping an array, and moving down what stays.
    list_lock_ns : int
        Taking and dropping the list lock, uncontended; counts as time for which it is held.
    slab_visit_ns : int
        Choosing a slab for a refill and putting it on its new list; the lock is held.
    new_slab_ns : int
        Making a slab of pages: descriptor and freelist.
    destroy_slab_ns : int
        Unmaking it; the lock is held where 3.12 frees objects, not in 5.4 and not when the reaper
        takes free slabs.
    page_take_ns : int
        A request to the page allocator for the pages of a slab, granted or refused.
    page_give_ns : int
        Giving these pages back; the lock is held where `destroy_slab_ns` says so.
    reap_ns : int
        Looking at one cache in the periodic work of a CPU.
    """

    alloc_hit_ps: int = _price()
    free_hit_ps: int = _price()
    bulk_free_hit_ps: int = _price()
    shared_object_ps: int = _price()
    refill_object_ps: int = _price()
    flush_object_ps: int = _price()
    refill_ns: int = _price()
    flush_ns: int = _price()
    list_lock_ns: int = _price()
    slab_visit_ns: int = _price()
    new_slab_ns: int = _price()
    destroy_slab_ns: int = _price()
    page_take_ns: int = _price()
    page_give_ns: int = _price()
    reap_ns: int = _price()

    def weights(self) -> dict[int, tuple[int, int]]:
        """Return for each count of the kernel its price, and its part under the lock, in ps."""
        ps = PS_PER_NS
        lock_ps, visit_ps = self.list_lock_ns * ps, self.slab_visit_ns * ps
        destroy_ps, give_ps = self.destroy_slab_ns * ps, self.page_give_ns * ps
        return {
            kernel.ALLOCATED: (self.alloc_hit_ps, 0),
            kernel.FREED: (self.free_hit_ps, 0),
            kernel.BULK_FREED: (self.bulk_free_hit_ps, 0),
            kernel.MANAGERS_TAKEN: (self.alloc_hit_ps, 0),
            kernel.MANAGERS_GIVEN: (self.free_hit_ps, 0),
            kernel.REFILLS: (self.refill_ns * ps, 0),
            kernel.FLUSHES: (self.flush_ns * ps, 0),
            kernel.LIST_LOCKS: (lock_ps, lock_ps),
            kernel.SHARED_TAKEN: (self.shared_object_ps, self.shared_object_ps),
            kernel.SHARED_GIVEN: (self.shared_object_ps, self.shared_object_ps),
            kernel.SLAB_TAKEN: (self.refill_object_ps, self.refill_object_ps),
            kernel.FRESH_TAKEN: (self.refill_object_ps, 0),
            kernel.SLAB_GIVEN: (self.flush_object_ps, self.flush_object_ps),
            kernel.SLAB_VISITS: (visit_ps, visit_ps),
            kernel.SLABS_NEW: (self.new_slab_ns * ps, 0),
            kernel.SLABS_DESTROYED: (destroy_ps, 0),
            kernel.SLABS_DESTROYED_LOCKED: (0, destroy_ps + give_ps),
            kernel.PAGE_TAKES: (self.page_take_ns * ps, 0),
            kernel.PAGE_REFUSALS: (0, 0),
            kernel.PAGE_GIVES: (give_ps, 0),
            kernel.DRAINS: (self.flush_ns * ps, 0),
            kernel.REAPS: (self.reap_ns * ps, 0),
        }
