"""Classic SLAB once more, from the numbered rules alone: a second opinion on the compiled text.

Models the array caches, shared arrays and slab lists of one node: allocation, freeing, growing,
destroying and the periodic reap, by the rules of 3.12 (struct slab, page overlay, byte index) and
of 5.4 (objfreelist), with counts of what was done. Slow on purpose: one Python object for each
slab, one list for each list, one step for each object, addresses as plain integers. Leaves out
prices, colouring (an address names a slab and an index), and alien arrays (one node).

Written by another hand than the allocator and :mod:`tests.specification.slab`; shares with them the
geometry of caches and the page allocator only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from rcusim.machine.pages import PageAllocator
from rcusim.slab.kmalloc import class_of
from rcusim.slab.layout import (
    LAYOUTS,
    CacheGeometry,
    SlabLayout,
    geometry,
    is_early,
    kmalloc_request,
    management_class,
)

IDLE_REFILL_OBJECTS = 16
REAP_NODE_NS = 4_000_000_000
NOBODY = -1


@attrs.define(eq=False)
class SpecSlab:
    """2**order pages and the indices of the objects in them.

    The linked list of 3.12 and the stacks of later releases both give out what was put back last,
    and begin in ascending order. One list stands for both: the next index to give out is its first.
    """

    frame: int
    objects: int
    free_indices: list[int] = attrs.field(init=False)
    management: int = NOBODY

    def __attrs_post_init__(self) -> None:
        self.free_indices = list(range(self.objects))

    @property
    def used(self) -> int:
        return self.objects - len(self.free_indices)

    def get(self) -> int:
        return self.free_indices.pop(0)

    def put(self, index: int) -> None:
        assert 0 <= index < self.objects, (self.frame, index)
        assert index not in self.free_indices, (self.frame, index)
        self.free_indices.insert(0, index)


@attrs.define(eq=False)
class SpecArray:
    """The array cache of a CPU, or the shared one of the node: the last entry is the newest."""

    limit: int
    touched: int = 0
    entries: list[int] = attrs.field(factory=list)


@attrs.define(eq=False)
class SpecCache:
    """A kmalloc cache with its node."""

    slab: SpecSlabAllocator
    shape: CacheGeometry
    cpus: int
    late_rules: bool
    management_cache: SpecCache | None = None
    arrays: list[SpecArray] = attrs.field(init=False)
    shared: SpecArray = attrs.field(init=False)
    partial: list[SpecSlab] = attrs.field(factory=list)
    full: list[SpecSlab] = attrs.field(factory=list)
    free: list[SpecSlab] = attrs.field(factory=list)
    free_objects: int = 0
    free_touched: int = 0
    next_reap_ns: int = 0
    out: set[int] = attrs.field(factory=set)
    managing: set[int] = attrs.field(factory=set)
    counts: Counter[str] = attrs.field(factory=Counter)

    def __attrs_post_init__(self) -> None:
        self.arrays = [SpecArray(self.shape.limit) for _ in range(self.cpus)]
        self.shared = SpecArray(self.shape.shared_limit)

    @property
    def slabs(self) -> list[SpecSlab]:
        return self.partial + self.full + self.free

    @property
    def room(self) -> int:
        """Objects that the shared array still has room for."""
        return self.shared.limit - len(self.shared.entries)

    # allocation: cache_alloc_refill, cache_grow

    def get(self, cpu: int) -> int:
        """Take an object from the array of a CPU, filling the array first if need be."""
        array = self.arrays[cpu]
        if not array.entries:
            self.refill(cpu)
        if not array.entries:
            return NOBODY
        array.touched = 1
        return array.entries.pop()

    def refill(self, cpu: int) -> None:
        self.counts["refills"] += 1
        array = self.arrays[cpu]
        batch = self.shape.batchcount
        if not array.touched:
            batch = min(batch, IDLE_REFILL_OBJECTS)
        if not self.late_rules:
            self.refill_from_node(array, batch)
            if not array.entries and self.grow(cpu):
                self.refill_from_node(array, batch)
        else:
            if self.free_objects > 0 or self.shared.entries:
                self.refill_from_node(array, batch)
            if not array.entries:
                self.refill_from_new_slab(cpu, batch)

    def refill_from_node(self, array: SpecArray, batch: int) -> None:
        self.counts["list_locks"] += 1
        shared = self.shared
        if shared.entries:
            first = max(0, len(shared.entries) - batch)
            array.entries += shared.entries[first:]
            self.counts["shared_taken"] += len(shared.entries) - first
            del shared.entries[first:]
            shared.touched = 1
            return
        while batch > 0:
            if not self.partial:
                self.free_touched = 1  # whether or not there is a free slab
            source = self.partial or self.free
            if not source:
                return
            slab = source.pop(0)
            moved = self.move_from_slab(slab, array, batch)
            batch -= moved
            self.counts["slab_visits"] += 1
            self.counts["slab_taken"] += moved
            (self.partial if slab.free_indices else self.full).insert(0, slab)

    def move_from_slab(self, slab: SpecSlab, array: SpecArray, most: int) -> int:
        moved = 0
        while moved < most and slab.free_indices:
            array.entries.append(self.slab.address(slab.frame, slab.get()))
            self.free_objects -= 1
            moved += 1
        return moved

    def refill_from_new_slab(self, cpu: int, batch: int) -> None:
        """Fill the array from a slab that is on no list yet (5.4)."""
        slab = self.new_slab(cpu)
        if slab is None:
            return
        self.free_objects += slab.objects
        self.counts["list_locks"] += 1
        array = self.arrays[cpu]
        if not array.entries:  # the management object came from another cache, so it is
            self.counts["fresh_taken"] += self.move_from_slab(slab, array, batch)
        if slab.used == 0:
            self.free.append(slab)
        else:
            (self.partial if slab.free_indices else self.full).insert(0, slab)

    def grow(self, cpu: int) -> bool:
        """Put a new slab on the tail of the free list (3.12); return whether that worked."""
        self.counts["list_locks"] += 1  # for the colour
        slab = self.new_slab(cpu)
        if slab is None:
            return False
        self.counts["list_locks"] += 1
        self.free.append(slab)
        self.free_objects += slab.objects
        return True

    def new_slab(self, cpu: int) -> SpecSlab | None:
        """Take pages, then the management object, or neither."""
        pages = self.slab.pages
        frame = pages.take(self.shape.order, pages.watermarks.min_pages)
        self.counts["page_takes"] += 1
        if frame < 0:
            self.counts["page_refusals"] += 1
            return None
        slab = SpecSlab(frame, self.shape.objects_per_slab)
        if self.management_cache is not None:
            slab.management = self.management_cache.get(cpu)
            if slab.management == NOBODY:
                pages.give(frame, self.shape.order)
                self.counts["page_gives"] += 1
                return None
            self.management_cache.managing.add(slab.management)
            self.management_cache.counts["managers_taken"] += 1
        self.counts["slabs_new"] += 1
        self.slab.owners[frame] = self, slab
        return slab

    # freeing: cache_flusharray, free_block, slab_destroy

    def put(self, cpu: int, address: int) -> None:
        """Put an object on the array of a CPU, making room first if need be."""
        array = self.arrays[cpu]
        if len(array.entries) == array.limit:
            self.flush(cpu)
        array.entries.append(address)

    def flush(self, cpu: int) -> None:
        self.counts["flushes"] += 1
        self.counts["list_locks"] += 1
        array = self.arrays[cpu]
        batch = self.shape.batchcount
        if self.room > 0:
            batch = min(batch, self.room)
            self.shared.entries += array.entries[:batch]
            self.counts["shared_given"] += batch
        else:
            self.free_block(cpu, array.entries[:batch])
        del array.entries[:batch]

    def free_block(self, cpu: int, addresses: Iterable[int]) -> None:
        """Return objects to their slabs."""
        for address in addresses:
            self.put_to_slab(cpu, address)
        if not self.late_rules:
            return
        surplus: list[SpecSlab] = []
        while self.free_objects > self.shape.free_limit_objects and self.free:
            self.free_objects -= self.shape.objects_per_slab
            surplus.insert(0, self.free.pop())  # to the head of a list that is walked afterwards
        for slab in surplus:
            self.destroy(cpu, slab)

    def put_to_slab(self, cpu: int, address: int) -> None:
        cache, slab = self.slab.owner(address)
        assert cache is self
        (self.partial if slab in self.partial else self.full).remove(slab)
        slab.put(self.slab.index(address))
        self.free_objects += 1
        self.counts["slab_given"] += 1
        if slab.used > 0:
            self.partial.append(slab)
        elif not self.late_rules and self.free_objects > self.shape.free_limit_objects:
            self.free_objects -= slab.objects
            self.counts["slabs_destroyed_locked"] += 1
            self.destroy(cpu, slab)
        else:
            self.free.insert(0, slab)

    def destroy(self, cpu: int, slab: SpecSlab) -> None:
        """Give the pages back, then free the management object."""
        assert slab.used == 0
        del self.slab.owners[slab.frame]
        self.slab.pages.give(slab.frame, self.shape.order)
        self.counts["slabs_destroyed"] += 1
        self.counts["page_gives"] += 1
        if self.management_cache is not None:
            self.management_cache.managing.remove(slab.management)
            self.management_cache.counts["managers_given"] += 1
            self.management_cache.put(cpu, slab.management)

    # the periodic work: cache_reap, drain_array, drain_freelist

    def reap(self, cpu: int, now_ns: int) -> None:
        self.counts["reaps"] += 1
        self.drain(cpu, self.arrays[cpu])
        if now_ns < self.next_reap_ns:
            return
        self.next_reap_ns = now_ns + REAP_NODE_NS
        self.drain(cpu, self.shared)
        if self.free_touched:
            self.free_touched = 0
        else:
            self.drain_free(cpu)

    def drain(self, cpu: int, array: SpecArray) -> None:
        """Return a fifth of an idle array's capacity, or half of what is in it, to the slabs."""
        if not array.entries:
            return  # and it keeps its flag
        if array.touched:
            array.touched = 0
            return
        self.counts["drains"] += 1
        self.counts["list_locks"] += 1
        count = (array.limit + 4) // 5
        if count > len(array.entries):
            count = (len(array.entries) + 1) // 2
        self.free_block(cpu, array.entries[:count])
        del array.entries[:count]

    def drain_free(self, cpu: int) -> None:
        objects = self.shape.objects_per_slab
        for _ in range((self.shape.free_limit_objects + 5 * objects - 1) // (5 * objects)):
            if not self.free:
                return
            self.counts["list_locks"] += 1
            self.free_objects -= objects
            self.destroy(cpu, self.free.pop())


@attrs.define(eq=False, kw_only=True)
class SpecSlabAllocator:
    """The kmalloc caches of a machine with one node.

    Parameters
    ----------
    pages : PageAllocator
        Where slabs come from.
    cpus : int
        CPUs, all online.
    layout : str
        Name of a layout.
    minimum_bytes : int
        Smallest kmalloc class.
    sizes_bytes : sequence of int
        Requests that are going to be made; there are caches for these and for the management of
        their slabs.
    """

    pages: PageAllocator
    cpus: int
    layout: str
    minimum_bytes: int
    sizes_bytes: Sequence[int]
    caches: list[SpecCache] = attrs.field(init=False)
    classes: list[int] = attrs.field(init=False)
    shift: int = attrs.field(init=False)
    owners: dict[int, tuple[SpecCache, SpecSlab]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        layout = LAYOUTS[self.layout]
        wanted = {class_of(size_bytes, self.minimum_bytes) for size_bytes in self.sizes_bytes}
        managers = {class_bytes: self.manager(layout, class_bytes) for class_bytes in wanted}
        classes = sorted(wanted | {manager for manager in managers.values() if manager})
        # in the order of creation: those that boot the allocator come first
        early = [size for size in classes if is_early(size, self.minimum_bytes)]
        self.classes = early + [size for size in classes if size not in early]
        shapes = {class_bytes: self.shape(layout, class_bytes) for class_bytes in self.classes}
        caches = {
            class_bytes: SpecCache(self, shape, self.cpus, layout.late_rules)
            for class_bytes, shape in shapes.items()
        }
        for class_bytes, manager in managers.items():
            if manager:
                assert not shapes[manager].off_slab, "management of management"
                caches[class_bytes].management_cache = caches[manager]
        self.caches = [caches[class_bytes] for class_bytes in self.classes]
        for place, cache in enumerate(self.caches):
            # the kernel spreads its caches by their addresses
            phase_ns = REAP_NODE_NS * place // len(self.caches)
            cache.next_reap_ns = REAP_NODE_NS + phase_ns
        self.shift = (max(shape.objects_per_slab for shape in shapes.values()) - 1).bit_length()

    def shape(self, layout: SlabLayout, class_bytes: int) -> CacheGeometry:
        request = kmalloc_request(
            class_bytes, self.minimum_bytes, self.cpus, large_memory=self.pages.memory_mib > 32
        )
        return geometry(layout, request)

    def manager(self, layout: SlabLayout, class_bytes: int) -> int:
        """Return the class that holds the management of a class's slabs, 0: on-slab."""
        shape = self.shape(layout, class_bytes)
        if not shape.off_slab:
            return 0
        return management_class(layout, shape.objects_per_slab, self.minimum_bytes)

    # addresses

    def address(self, frame: int, index: int) -> int:
        return frame << self.shift | index

    def index(self, address: int) -> int:
        return address & (1 << self.shift) - 1

    def owner(self, address: int) -> tuple[SpecCache, SpecSlab]:
        return self.owners[address >> self.shift]

    def cache_of(self, size_bytes: int) -> int:
        return self.classes.index(class_of(size_bytes, self.minimum_bytes))

    def cache_of_object(self, address: int) -> int:
        return self.caches.index(self.owner(address)[0])

    # operations

    def allocate(self, cpu: int, cache: int, n: int) -> list[int]:
        """Allocate up to `n` objects; return their addresses."""
        chosen = self.caches[cache]
        addresses: list[int] = []
        while len(addresses) < n:
            address = chosen.get(cpu)
            if address == NOBODY:
                break
            assert address not in chosen.out
            chosen.out.add(address)
            chosen.counts["allocated"] += 1
            addresses.append(address)
        return addresses

    def release(self, cpu: int, addresses: Iterable[int], *, bulk: bool = False) -> None:
        """Free objects one by one; ``kfree_bulk()`` does just the same, only cheaper."""
        for address in addresses:
            cache = self.owner(address)[0]
            cache.out.remove(address)
            cache.counts["bulk_freed" if bulk else "freed"] += 1
            cache.put(cpu, address)

    def reap(self, cpu: int, now_ns: int) -> None:
        """Do the periodic work of a CPU, the youngest cache first: it is at the head of the list."""
        for cache in reversed(self.caches):
            cache.reap(cpu, now_ns)

    # what is there

    def handed_out_objects(self) -> int:
        return sum(len(cache.out) for cache in self.caches)

    def handed_out_bytes(self) -> int:
        return sum(len(cache.out) * cache.shape.object_bytes for cache in self.caches)

    def slab_pages(self) -> int:
        return sum(len(cache.slabs) << cache.shape.order for cache in self.caches)

    def dump(self, cache: int) -> dict[str, object]:
        """Return all state of a cache, as plain values."""
        of = self.caches[cache]
        return {
            "partial": [slab.frame for slab in of.partial],
            "full": [slab.frame for slab in of.full],
            "free": [slab.frame for slab in of.free],
            "slabs": {
                slab.frame: {"used": slab.used, "free_indices": list(slab.free_indices)}
                for slab in of.slabs
            },
            "arrays": [
                {"touched": array.touched, "entries": list(array.entries)} for array in of.arrays
            ],
            "shared": {"touched": of.shared.touched, "entries": list(of.shared.entries)},
            "free_objects": of.free_objects,
            "free_touched": of.free_touched,
            "next_reap_ns": of.next_reap_ns,
            "out": len(of.out),
            "management": {slab.frame: slab.management for slab in of.slabs},
            "counts": {name: count for name, count in of.counts.items() if count},
        }

    def check(self) -> None:
        """Assert what must hold between operations, whatever the operations were."""
        held = 0
        for cache in self.caches:
            for slab in cache.full:
                assert not slab.free_indices
            for slab in cache.partial:
                assert 0 < slab.used < slab.objects
            for slab in cache.free:
                assert slab.used == 0
            assert cache.free_objects == sum(len(slab.free_indices) for slab in cache.slabs)
            assert all(len(a.entries) <= a.limit for a in [*cache.arrays, cache.shared])
            self.check_places(cache)
            held += len(cache.slabs)
        assert held == len(self.owners)

    def check_places(self, cache: SpecCache) -> None:
        """Assert that each object of a cache is in exactly one place."""
        arrays = [*cache.arrays, cache.shared]
        parked = [address for array in arrays for address in array.entries]
        places = parked + list(cache.out) + list(cache.managing)
        used = {
            self.address(slab.frame, index)
            for slab in cache.slabs
            for index in set(range(slab.objects)) - set(slab.free_indices)
        }
        assert len(places) == len(set(places))
        assert set(places) == used
        managed = [user for user in self.caches if user.management_cache is cache]
        assert cache.managing == {slab.management for user in managed for slab in user.slabs}
