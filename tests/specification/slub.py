"""SLUB, one object at a time: slow, obvious, and written without a look at the kernel text.

What the arrays of :mod:`rcusim.slab.slub_kernel` mean in Python objects and lists. The head of a
list of slabs is index 0; the next free object is the last of a list. Geometry is taken as given (it
has its own tests); pages come from a page allocator of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from rcusim.machine.pages import PageAllocator
from rcusim.slab.slub import FreelistOrder, SlubCache
from rcusim.slab.slub_prices import SlubPrices

PAGE_BYTES = 4096


@attrs.define(eq=False)
class Page:
    """A slab; `share` is what it counted for when it was put on a CPU's partial list."""

    frame: int
    order: int
    objects: int
    free: list[int]
    frozen: bool = False
    share: int = 0

    @property
    def inuse(self) -> int:
        return self.objects - len(self.free)


@attrs.define(eq=False)
class Thing:
    """An object."""

    cache: Cache
    page: Page
    index: int


@attrs.define(eq=False)
class Cpu:
    """What a CPU has of a cache."""

    page: Page | None = None
    free: list[int] = attrs.field(factory=list)
    partial: list[Page] = attrs.field(factory=list)

    def load(self, page: Page) -> None:
        self.page, self.free = page, page.free
        page.free = []
        page.frozen = True


@attrs.define(eq=False)
class Cache:
    """A cache with its CPUs and its node."""

    shape: SlubCache
    cpus: list[Cpu]
    order: FreelistOrder | None
    slabs: list[Page] = attrs.field(factory=list)
    partial: list[Page] = attrs.field(factory=list)
    begun: int = 0
    held_ps: int = 0
    counts: Counter[str] = attrs.field(factory=Counter)


@attrs.define(eq=False)
class SlubSpecification:
    """The allocator."""

    pages: PageAllocator
    late: bool
    shapes: tuple[SlubCache, ...]
    cpus: int
    prices: SlubPrices
    predicate: str = "page"
    end_tokens: bool = False
    orders: dict[str, FreelistOrder] = attrs.field(factory=dict)
    caches: list[Cache] = attrs.field(init=False)
    price_ps: int = 0

    def __attrs_post_init__(self) -> None:
        self.caches = [
            Cache(shape, [Cpu() for _ in range(self.cpus)], self.orders.get(shape.name))
            for shape in self.shapes
        ]

    # -- what is counted and paid ------------------------------------------------------------------

    def begin(self) -> None:
        self.price_ps = 0
        for cache in self.caches:
            cache.held_ps = 0

    def note(self, cache: Cache, what: str, price_ps: int = 0, *, locked: bool = False) -> None:
        cache.counts[what] += 1
        self.price_ps += price_ps
        if locked:
            cache.held_ps += price_ps

    def lock(self, cache: Cache) -> None:
        self.note(cache, "list_locks", 1000 * self.prices.list_lock_ns, locked=True)

    def take_pages(self, cache: Cache, order: int) -> int:
        self.note(cache, "page_takes")
        frame = self.pages.take(order, self.pages.watermarks.min_pages)
        if frame < 0:
            self.note(cache, "page_refusals", 1000 * self.prices.page_refusal_ns)
        return frame

    # -- allocation --------------------------------------------------------------------------------

    def allocate(self, number: int, cpu: int, *, bulk: bool = False) -> Thing | None:
        cache = self.caches[number]
        shape = cache.shape.geometry
        if shape is None:
            frame = self.take_pages(cache, cache.shape.order)
            if frame < 0:
                return None
            self.note(cache, "large_taken", 1000 * self.prices.large_alloc_ns)
            page = Page(frame, cache.shape.order, 1, [])
            cache.slabs.append(page)
            return Thing(cache, page, 0)
        mine = cache.cpus[cpu]
        path = "allocated_fast"
        if not mine.free:
            path = "allocated_slow"
            self.note(cache, "refills", 1000 * self.prices.refill_ns)
            if not self.refill(cache, mine):
                return None
        if bulk:
            self.note(cache, "bulk_allocated", self.prices.bulk_alloc_ps)
        else:
            self.note(cache, path, self.prices.alloc_fast_ps)
        assert mine.page is not None
        return Thing(cache, mine.page, mine.free.pop())

    def refill(self, cache: Cache, mine: Cpu) -> bool:
        if mine.page is not None and mine.page.free:
            self.note(cache, "slabs_reloaded")
            mine.load(mine.page)
            return True
        if mine.page is not None:
            self.note(cache, "slabs_forgotten")
            mine.page.frozen = False
            mine.page = None
        if mine.partial:
            self.note(cache, "cpu_partial_taken", 1000 * self.prices.slab_move_ns)
            mine.load(mine.partial.pop(0))
            return True
        page = self.from_node(cache, mine) if cache.partial else self.grow(cache)
        if page is None:
            return False
        mine.load(page)
        return True

    def from_node(self, cache: Cache, mine: Cpu) -> Page:
        assert cache.shape.geometry is not None
        self.note(cache, "node_refills")
        self.lock(cache)
        most = cache.shape.geometry.cpu_partial_limit
        taken: list[Page] = []
        while cache.partial:
            page = cache.partial.pop(0)
            self.note(cache, "node_taken", 1000 * self.prices.node_move_ns, locked=True)
            taken.append(page)
            gathered = len(taken) - 1 if self.late else sum(len(one.free) for one in taken)
            if gathered > most // 2:
                break
        for page in taken[1:]:
            self.to_cpu(mine, page)
        return taken[0]

    def to_cpu(self, mine: Cpu, page: Page) -> None:
        page.frozen = not self.late
        page.share = 1 if self.late else len(page.free)
        mine.partial.insert(0, page)

    def grow(self, cache: Cache) -> Page | None:
        shape = cache.shape.geometry
        assert shape is not None
        order, objects = shape.order, shape.objects_per_slab
        frame = self.take_pages(cache, order)
        if frame < 0 and shape.min_order < order:
            order, objects = shape.min_order, shape.min_objects
            frame = self.take_pages(cache, order)
            if frame >= 0:
                self.note(cache, "fallbacks")
        if frame < 0:
            return None
        self.note(cache, "slabs_new", 1000 * self.prices.new_slab_ns)
        lines = -(-objects * min(64, shape.object_bytes) // 64)
        for _ in range(lines):
            self.note(cache, "lines_new", self.prices.new_line_ps)
        handed_out = list(range(objects))
        if cache.order is not None and objects > 1:
            start = cache.order.starts[cache.begun % len(cache.order.starts)]
            cache.begun += 1
            turned = cache.order.sequence[start:] + cache.order.sequence[:start]
            handed_out = [index for index in turned if index < objects]
        page = Page(frame, order, objects, handed_out[::-1])
        cache.slabs.append(page)
        return page

    # -- freeing -----------------------------------------------------------------------------------

    def free(self, cpu: int, thing: Thing) -> None:
        """``kfree()``."""
        cache = thing.cache
        if self.free_large(thing):
            return
        if self.is_fast(cache.cpus[cpu], thing):
            self.note(cache, "freed_fast", self.prices.free_fast_ps)
            cache.cpus[cpu].free.append(thing.index)
            return
        self.note(cache, "freed_slow", self.prices.free_slow_ps)
        self.to_slab(cpu, cache, thing.page, [thing.index])

    def free_bulk(self, cpu: int, things: Sequence[Thing]) -> None:
        """``kfree_bulk()``."""
        rest = list(things)
        while rest:
            if self.free_large(rest[-1]):
                rest.pop()
                continue
            rest, group = self.detach(rest)
            page, cache = group[0].page, group[0].cache
            for _ in group:
                self.note(cache, "bulk_freed", self.prices.bulk_free_ps)
            indices = [thing.index for thing in group]
            if self.is_fast(cache.cpus[cpu], group[0]):
                self.note(cache, "groups_fast", self.prices.group_fast_ps)
                cache.cpus[cpu].free.extend(indices)
            else:
                self.note(cache, "groups_slow", self.prices.group_slow_ps)
                self.to_slab(cpu, cache, page, indices)

    def detach(self, things: list[Thing]) -> tuple[list[Thing], list[Thing]]:
        """Return what is left and a group of one slab, the last object first."""
        page = things[-1].page
        group = [things[-1]]
        left = len(things) - 1
        misses = 0
        for at in reversed(range(left)):
            if things[at].page is not page:
                self.note(group[0].cache, "group_misses", self.prices.bulk_miss_ps)
                misses += 1
                if misses == 3:
                    break
                continue
            group.append(things[at])
            if self.late:  # what is left moves to the front
                left -= 1
                things[at], things[left] = things[left], things[at]
        if self.late:
            return things[:left], group
        return [thing for thing in things if thing not in group], group

    def free_large(self, thing: Thing) -> bool:
        cache = thing.cache
        if cache.shape.geometry is not None:
            return False
        self.note(cache, "large_given", 1000 * self.prices.large_free_ns)
        cache.slabs.remove(thing.page)
        self.pages.give(thing.page.frame, thing.page.order)
        return True

    def is_fast(self, mine: Cpu, thing: Thing) -> bool:
        if self.predicate == "page":
            return mine.page is thing.page
        size = thing.cache.shape.class_bytes
        if mine.page is None:
            return False
        base = mine.page.frame * PAGE_BYTES
        if mine.free:
            freelist = base + mine.free[-1] * size
        elif self.end_tokens:
            freelist = base | 1
        else:
            return False
        ahead = freelist - thing.page.frame * PAGE_BYTES
        if self.predicate == "same_slab_page":
            return ahead > 0 and ahead < 1 << 11 and ahead < thing.page.order * PAGE_BYTES
        return ahead > 0 and ahead < thing.page.objects * size

    def to_slab(self, cpu: int, cache: Cache, page: Page, indices: list[int]) -> None:
        assert cache.shape.geometry is not None
        was_full = not page.free
        page.free.extend(indices)
        if page.frozen:
            return
        if was_full:
            self.to_cpu_of_free(cache, cache.cpus[cpu], page)
        elif not page.inuse:
            self.lock(cache)
            if page in cache.partial and len(cache.partial) >= cache.shape.geometry.min_partial:
                cache.partial.remove(page)
                self.discard(cache, page)

    def to_cpu_of_free(self, cache: Cache, mine: Cpu, page: Page) -> None:
        assert cache.shape.geometry is not None
        self.note(cache, "cpu_partial_given", 1000 * self.prices.slab_move_ns)
        most = cache.shape.geometry.cpu_partial_limit
        listed = sum(one.share for one in mine.partial)
        if mine.partial and (listed >= most if self.late else listed > most):
            drained, mine.partial = mine.partial, []
            self.drain(cache, drained)
        self.to_cpu(mine, page)

    def drain(self, cache: Cache, pages: list[Page]) -> None:
        assert cache.shape.geometry is not None
        self.note(cache, "drains")
        self.lock(cache)
        doomed: list[Page] = []
        for page in pages:
            self.note(cache, "drained", 1000 * self.prices.node_move_ns, locked=True)
            page.frozen = False
            if page.inuse or len(cache.partial) < cache.shape.geometry.min_partial:
                cache.partial.append(page)
            else:
                doomed.insert(0, page)
        for page in doomed:
            self.discard(cache, page)

    def discard(self, cache: Cache, page: Page) -> None:
        self.note(cache, "slabs_discarded", 1000 * self.prices.discard_ns)
        cache.slabs.remove(page)
        self.pages.give(page.frame, page.order)
