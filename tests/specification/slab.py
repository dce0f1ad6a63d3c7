"""Classic SLAB, one object at a time: slow, obvious, and written without a look at the kernel text.

What the arrays of :mod:`rcusim.slab.kernel` mean in Python objects and lists. The head of a list
is index 0. Geometry is taken as given (it has its own tests); pages come from a page allocator of
its own.
"""

from __future__ import annotations

from collections import Counter

import attrs

from rcusim.machine.pages import PageAllocator
from rcusim.slab.caches import KmemCache
from rcusim.slab.layout import BATCH_REFILL_LIMIT_OBJECTS, SlabLayout
from rcusim.slab.prices import SlabPrices

REAP_NODE_NS = 4_000_000_000


@attrs.define(eq=False)
class Page:
    """A slab: `free` holds indices, the next to be handed out is the last."""

    frame: int
    free: list[int]
    manager: Thing | None


@attrs.define(eq=False)
class Thing:
    """An object."""

    cache: Cache
    page: Page
    index: int


@attrs.define(eq=False)
class Array:
    """Objects that wait for reuse, the oldest first."""

    limit: int
    things: list[Thing] = attrs.field(factory=list)
    touched: bool = False


@attrs.define(eq=False)
class Cache:
    """A cache, its node and its arrays."""

    shape: KmemCache
    arrays: list[Array]
    shared: Array
    next_reap_ns: int
    partial: list[Page] = attrs.field(factory=list)
    full: list[Page] = attrs.field(factory=list)
    free: list[Page] = attrs.field(factory=list)
    free_touched: bool = False
    held_ps: int = 0
    counts: Counter[str] = attrs.field(factory=Counter)

    @property
    def objects_per_slab(self) -> int:
        return self.shape.geometry.objects_per_slab

    def free_objects(self) -> int:
        return sum(len(page.free) for page in self.partial + self.full + self.free)

    def unlink(self, page: Page) -> None:
        for pages in (self.partial, self.full, self.free):
            if page in pages:
                pages.remove(page)

    def batch(self, array: Array) -> int:
        batch = self.shape.geometry.batchcount
        return batch if array.touched else min(batch, BATCH_REFILL_LIMIT_OBJECTS)


@attrs.define(eq=False)
class SlabSpecification:
    """The allocator."""

    pages: PageAllocator
    layout: SlabLayout
    shapes: tuple[KmemCache, ...]
    cpus: int
    prices: SlabPrices
    caches: list[Cache] = attrs.field(init=False)
    price_ps: int = 0

    def __attrs_post_init__(self) -> None:
        self.caches = [
            Cache(
                shape=shape,
                arrays=[Array(shape.geometry.limit) for _ in range(self.cpus)],
                shared=Array(shape.geometry.shared_limit),
                next_reap_ns=REAP_NODE_NS + REAP_NODE_NS * number // len(self.shapes),
            )
            for number, shape in enumerate(self.shapes)
        ]

    # -- what is counted and paid ------------------------------------------------------------------

    def begin(self) -> None:
        self.price_ps = 0
        for cache in self.caches:
            cache.held_ps = 0

    def note(self, cache: Cache, what: str, price_ps: int, *, locked: bool = False) -> None:
        cache.counts[what] += 1
        self.price_ps += price_ps
        if locked:
            cache.held_ps += price_ps

    def lock(self, cache: Cache) -> None:
        self.note(cache, "list_locks", 1000 * self.prices.list_lock_ns, locked=True)

    # -- allocation --------------------------------------------------------------------------------

    def allocate(self, cpu: int, number: int) -> Thing | None:
        """``kmalloc()``."""
        return self._take(cpu, self.caches[number], "allocated")

    def _take(self, cpu: int, cache: Cache, what: str) -> Thing | None:
        array = cache.arrays[cpu]
        if not array.things:
            self.note(cache, "refills", 1000 * self.prices.refill_ns)
            refilled = (
                self._refill_5_4(cpu, cache, array)
                if self.layout.late_rules
                else self._refill_3_12(cpu, cache, array)
            )
            if not refilled:
                return None
        array.touched = True
        self.note(cache, what, self.prices.alloc_hit_ps)
        return array.things.pop()

    def _refill_3_12(self, cpu: int, cache: Cache, array: Array) -> bool:
        while True:
            self._refill_from_node(cache, array)
            if array.things:
                return True
            self.lock(cache)  # for the colour
            page = self._grow(cpu, cache)
            if page is None:
                return False
            self.lock(cache)
            cache.free.append(page)

    def _refill_5_4(self, cpu: int, cache: Cache, array: Array) -> bool:
        if cache.free_objects() or cache.shared.things:
            self._refill_from_node(cache, array)
        if array.things:
            return True
        page = self._grow(cpu, cache)
        if page is None:
            return False
        for _ in range(min(cache.batch(array), cache.objects_per_slab)):
            array.things.append(Thing(cache, page, page.free.pop()))
            self.note(cache, "fresh_taken", self.prices.refill_object_ps)
        self.lock(cache)
        (cache.partial if page.free else cache.full).insert(0, page)
        return True

    def _refill_from_node(self, cache: Cache, array: Array) -> None:
        self.lock(cache)
        batch = cache.batch(array)
        if cache.shared.things:
            moved = cache.shared.things[-batch:]
            del cache.shared.things[-batch:]
            for _ in moved:
                self.note(cache, "shared_taken", self.prices.shared_object_ps, locked=True)
            array.things.extend(moved)
            cache.shared.touched = True
            return
        while len(array.things) < batch:
            if not cache.partial:
                cache.free_touched = True
            if not cache.partial and not cache.free:
                return
            self.note(cache, "slab_visits", 1000 * self.prices.slab_visit_ns, locked=True)
            page = (cache.partial or cache.free).pop(0)
            while page.free and len(array.things) < batch:
                array.things.append(Thing(cache, page, page.free.pop()))
                self.note(cache, "slab_taken", self.prices.refill_object_ps, locked=True)
            (cache.partial if page.free else cache.full).insert(0, page)

    def _grow(self, cpu: int, cache: Cache) -> Page | None:
        order = cache.shape.geometry.order
        self.note(cache, "page_takes", 1000 * self.prices.page_take_ns)
        frame = self.pages.take(order, self.pages.watermarks.min_pages)
        if frame < 0:
            self.note(cache, "page_refusals", 0)
            return None
        manager = None
        if cache.shape.management >= 0:
            manager = self._take(cpu, self.caches[cache.shape.management], "managers_taken")
            if manager is None:
                self.pages.give(frame, order)
                self.note(cache, "page_gives", 1000 * self.prices.page_give_ns)
                return None
        self.note(cache, "slabs_new", 1000 * self.prices.new_slab_ns)
        return Page(frame, list(reversed(range(cache.objects_per_slab))), manager)

    # -- freeing -----------------------------------------------------------------------------------

    def free(self, cpu: int, thing: Thing, *, bulk: bool) -> None:
        """``kfree()``, or one object of a ``kfree_bulk()``."""
        if bulk:
            self._give(cpu, thing, "bulk_freed", self.prices.bulk_free_hit_ps)
        else:
            self._give(cpu, thing, "freed", self.prices.free_hit_ps)

    def _give(self, cpu: int, thing: Thing, what: str, price_ps: int) -> None:
        cache = thing.cache
        array = cache.arrays[cpu]
        if len(array.things) == array.limit:
            self._flush(cpu, cache, array)
        array.things.append(thing)
        self.note(cache, what, price_ps)

    def _flush(self, cpu: int, cache: Cache, array: Array) -> None:
        self.note(cache, "flushes", 1000 * self.prices.flush_ns)
        self.lock(cache)
        n = cache.shape.geometry.batchcount
        room = cache.shared.limit - len(cache.shared.things)
        if not room:
            self._free_block(cpu, cache, self._oldest(array, n))
            return
        for thing in self._oldest(array, min(n, room)):
            cache.shared.things.append(thing)
            self.note(cache, "shared_given", self.prices.shared_object_ps, locked=True)

    def _oldest(self, array: Array, n: int) -> list[Thing]:
        oldest = array.things[:n]
        del array.things[:n]
        return oldest

    def _free_block(self, cpu: int, cache: Cache, things: list[Thing]) -> None:
        limit = cache.shape.geometry.free_limit_objects
        for thing in things:
            page = thing.page
            page.free.append(thing.index)
            self.note(cache, "slab_given", self.prices.flush_object_ps, locked=True)
            if len(page.free) < cache.objects_per_slab:
                cache.unlink(page)
                cache.partial.append(page)
            elif self.layout.late_rules or cache.free_objects() <= limit:
                cache.unlink(page)
                cache.free.insert(0, page)
            else:
                cache.unlink(page)
                self._destroy(cpu, cache, page, locked=True)
        if self.layout.late_rules:
            doomed: list[Page] = []
            while cache.free and cache.free_objects() > limit:
                doomed.insert(0, cache.free.pop())
            for page in doomed:
                self._destroy(cpu, cache, page, locked=False)

    def _destroy(self, cpu: int, cache: Cache, page: Page, *, locked: bool) -> None:
        self.pages.give(page.frame, cache.shape.geometry.order)
        self.note(cache, "page_gives", 1000 * self.prices.page_give_ns, locked=locked)
        self.note(cache, "slabs_destroyed", 1000 * self.prices.destroy_slab_ns, locked=locked)
        if locked:
            self.note(cache, "slabs_destroyed_locked", 0)
        if page.manager is not None:
            self._give(cpu, page.manager, "managers_given", self.prices.free_hit_ps)

    # -- reaping -----------------------------------------------------------------------------------

    def reap(self, cpu: int, now_ns: int) -> None:
        """``cache_reap()``."""
        for cache in reversed(self.caches):
            self.note(cache, "reaps", 1000 * self.prices.reap_ns)
            self._drain(cpu, cache, cache.arrays[cpu])
            if cache.next_reap_ns > now_ns:
                continue
            cache.next_reap_ns = now_ns + REAP_NODE_NS
            self._drain(cpu, cache, cache.shared)
            if cache.free_touched:
                cache.free_touched = False
                continue
            fifth = 5 * cache.objects_per_slab
            for _ in range((cache.shape.geometry.free_limit_objects + fifth - 1) // fifth):
                if cache.free:
                    self.lock(cache)
                    self._destroy(cpu, cache, cache.free.pop(), locked=False)

    def _drain(self, cpu: int, cache: Cache, array: Array) -> None:
        if not array.things:
            return
        if array.touched:
            array.touched = False
            return
        self.note(cache, "drains", 1000 * self.prices.flush_ns)
        self.lock(cache)
        n = (array.limit + 4) // 5
        if n > len(array.things):
            n = (len(array.things) + 1) // 2
        self._free_block(cpu, cache, self._oldest(array, n))
