"""Classic SLAB as an allocator of the model: the state behind the compiled text, and its accounts.

See :mod:`rcusim.slab.kernel` for what is modelled and what is left out. The CPUs given are possible
and online for the whole run. A slab's pages go back within the operation that destroys it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from rcusim._jit import IntArray, grown, integers
from rcusim.abc import Hold
from rcusim.errors import PropertyViolation
from rcusim.formats.slabinfo import SlabinfoRow as SlabinfoRow  # noqa: PLC0414
from rcusim.machine.pages import PageAllocator
from rcusim.slab import kernel, kmalloc
from rcusim.slab.caches import KmemCache, kmalloc_caches, with_created
from rcusim.slab.layout import LAYOUTS, CacheRequest
from rcusim.slab.prices import SlabPrices as SlabPrices  # noqa: PLC0414
from rcusim.units import MIB_BYTES, PAGE_SIZE_BYTES

LARGE_MEMORY_PAGES = 32 * MIB_BYTES // PAGE_SIZE_BYTES
"""With more, slabs may have order 1."""

COUNTERS = {
    "allocated": kernel.ALLOCATED,
    "freed": kernel.FREED,
    "bulk_freed": kernel.BULK_FREED,
    "managers_taken": kernel.MANAGERS_TAKEN,
    "managers_given": kernel.MANAGERS_GIVEN,
    "refills": kernel.REFILLS,
    "flushes": kernel.FLUSHES,
    "list_locks": kernel.LIST_LOCKS,
    "shared_taken": kernel.SHARED_TAKEN,
    "shared_given": kernel.SHARED_GIVEN,
    "slab_taken": kernel.SLAB_TAKEN,
    "fresh_taken": kernel.FRESH_TAKEN,
    "slab_given": kernel.SLAB_GIVEN,
    "slab_visits": kernel.SLAB_VISITS,
    "slabs_new": kernel.SLABS_NEW,
    "slabs_destroyed": kernel.SLABS_DESTROYED,
    "slabs_destroyed_locked": kernel.SLABS_DESTROYED_LOCKED,
    "page_takes": kernel.PAGE_TAKES,
    "page_refusals": kernel.PAGE_REFUSALS,
    "page_gives": kernel.PAGE_GIVES,
    "drains": kernel.DRAINS,
    "reaps": kernel.REAPS,
}
"""Names of the counts; what each counts stands in :mod:`rcusim.slab.kernel`."""


@attrs.define(eq=False)
class Slab:
    """SLAB with the kmalloc caches that some request sizes need; an :class:`rcusim.abc.Allocator`.

    Parameters
    ----------
    pages : PageAllocator
        Where slabs come from.
    cpus : int
        Possible CPUs, all online, of one node.
    layout : str
        A name of :data:`rcusim.slab.layout.LAYOUTS`.
    minimum_bytes : {32, 128}
        Smallest kmalloc class.
    sizes_bytes : sequence of int
        Sizes that will be requested.
    prices : SlabPrices
        What operations cost.
    created : mapping
        Further caches, by name, as ``kmem_cache_create`` is asked for them. They come after the
        kmalloc caches, must all differ in their name, and serve no ``kmalloc()``.

    Attributes
    ----------
    caches : tuple of KmemCache
        In the order of creation, which gives them their numbers.
    list_locks : list of Hold
        The list lock of each cache's node.
    words, entries, rows, freelists : IntArray
        See :mod:`rcusim.slab.kernel`.
    """

    _pages: PageAllocator
    cpus: int
    layout: str
    minimum_bytes: int
    sizes_bytes: Sequence[int]
    prices: SlabPrices
    created: Mapping[str, CacheRequest] = attrs.field(factory=dict, kw_only=True)
    price_ns: int = attrs.field(init=False, default=0)
    held: list[tuple[Hold, int]] = attrs.field(init=False, factory=list)
    caches: tuple[KmemCache, ...] = attrs.field(init=False)
    list_locks: list[Hold] = attrs.field(init=False)
    words: IntArray = attrs.field(init=False, repr=False)
    entries: IntArray = attrs.field(init=False, repr=False)
    rows: IntArray = attrs.field(init=False, repr=False)
    freelists: IntArray = attrs.field(init=False, repr=False)
    _cache_of_class: dict[int, int] = attrs.field(init=False, repr=False)
    _index_bits: int = attrs.field(init=False)
    _covered_frames: int = attrs.field(init=False, default=-1)

    def __attrs_post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise ValueError(f"slab layout {self.layout!r}: must be one of {', '.join(LAYOUTS)}")
        if self.cpus < 1:
            raise ValueError(f"{self.cpus} CPUs: must be at least 1")
        kmalloced = kmalloc_caches(
            LAYOUTS[self.layout],
            self.minimum_bytes,
            self.cpus,
            self.sizes_bytes,
            large_memory=self._pages.total_pages > LARGE_MEMORY_PAGES,
        )
        self.caches = with_created(LAYOUTS[self.layout], kmalloced, self.created)
        self.list_locks = [Hold(name=f"{cache.name}/list_lock") for cache in self.caches]
        self._cache_of_class = {cache.class_bytes: i for i, cache in enumerate(kmalloced)}
        objects_max = max(cache.geometry.objects_per_slab for cache in self.caches)
        self._index_bits = (objects_max - 1).bit_length()
        self._make_words()
        self.rows = integers(0, bits=32)
        self.freelists = integers(0, bits=16)
        self._cover(0)
        for head in range(self._sentinels):
            self.rows[head * kernel.ROW + kernel.NEXT] = head
            self.rows[head * kernel.ROW + kernel.PREV] = head

    @property
    def _sentinels(self) -> int:
        return kernel.LISTS * len(self.caches)

    def _make_words(self) -> None:
        """Set up the words of world and caches, and room for all arrays of objects."""
        words = integers(kernel.WORLD + len(self.caches) * kernel.WORDS)
        words[kernel.CACHES] = len(self.caches)
        words[kernel.INDEX_BITS] = self._index_bits
        words[kernel.SENTINELS] = self._sentinels
        words[kernel.MARK_PAGES] = self._pages.watermarks.min_pages
        for count, (price_ps, held_ps) in self.prices.weights().items():
            words[kernel.PRICE_PS + count] = price_ps
            words[kernel.HELD_PS + count] = held_ps
        at = 0
        for number, cache in enumerate(self.caches):
            at = self._make_cache(words, number, cache, at)
        self.words = words
        self.entries = integers(at)

    def _make_cache(self, words: IntArray, number: int, cache: KmemCache, at: int) -> int:
        """Set up the words of a cache whose arrays begin at `at`; return where they end."""
        shape = cache.geometry
        layout = LAYOUTS[self.layout]
        stride = kernel.ENTRY + shape.limit
        shared_at = at + self.cpus * stride
        # REAPTIMEOUT_NODE after creation, spread over as much again: the kernel takes the address
        # of the cache for that, here it is its place among the caches
        next_reap_ns = kernel.NODE_REAP_NS + kernel.NODE_REAP_NS * number // len(self.caches)
        for word, value in {
            kernel.OBJECTS: shape.objects_per_slab,
            kernel.OBJECT_BYTES: shape.object_bytes,
            kernel.ORDER: shape.order,
            kernel.LIMIT: shape.limit,
            kernel.BATCH: shape.batchcount,
            kernel.SHARED_LIMIT: shape.shared_limit,
            kernel.FREE_LIMIT: shape.free_limit_objects,
            kernel.LINKED: int(layout.linked),
            kernel.LATE: int(layout.late_rules),
            kernel.MANAGEMENT: cache.management,
            kernel.ARRAY_AT: at,
            kernel.ARRAY_STRIDE: stride,
            kernel.SHARED_AT: shared_at,
            kernel.NEXT_REAP_NS: next_reap_ns,
        }.items():
            words[kernel.WORLD + number * kernel.WORDS + word] = value
        return shared_at + kernel.ENTRY + shape.shared_limit

    def _cover(self, pages: int) -> None:
        """Make room for all frames that exist after `pages` more were taken."""
        if self._pages.frames + pages <= self._covered_frames:
            return
        frames = self._covered_frames = self._pages.reserve(pages)
        length = (self._sentinels + frames) << kernel.ROW_SHIFT
        if len(self.rows) < length:
            self.rows = grown(self.rows, length)
            self.freelists = grown(self.freelists, frames << self._index_bits)

    def _most_pages(self, cache: int, n: int) -> int:
        """Return the pages that `n` allocations can take; slabs are made only when none is free."""
        shape = self.caches[cache].geometry
        slabs = -(-n // shape.objects_per_slab)
        management = self.caches[cache].management
        more = self._most_pages(management, slabs) if management >= 0 else 0
        return more + (slabs << shape.order)

    def _note_price(self) -> None:
        """Say what the operation cost and which locks it held."""
        words = self.words
        self.price_ns = int(words[kernel.PRICE_NS])
        self.held = []
        if words[kernel.LOCKS_HELD]:
            for number, lock in enumerate(self.list_locks):
                hold_ns = int(words[kernel.WORLD + number * kernel.WORDS + kernel.HOLD_NS])
                if hold_ns:
                    self.held.append((lock, hold_ns))

    # -- the allocator -----------------------------------------------------------------------------

    def cache_of(self, size_bytes: int) -> int:
        """Return the number of the cache that serves a request.

        Raises
        ------
        ValueError
            When no cache was made for a request of this class.
        """
        class_bytes = kmalloc.class_of(size_bytes, self.minimum_bytes)
        found = self._cache_of_class.get(class_bytes)
        if found is None:
            raise ValueError(
                f"request of {size_bytes} bytes: this world has no kmalloc-{class_bytes}"
            )
        return found

    def object_bytes(self, cache: int) -> int:
        """Return what one object of a cache occupies."""
        return self.caches[cache].geometry.object_bytes

    def cache_of_object(self, address: int) -> int:
        """Return the number of the cache that an object belongs to.

        Raises
        ------
        PropertyViolation
            When the address lies in no slab.
        """
        at = (((address >> self._index_bits) + self._sentinels) << kernel.ROW_SHIFT) + kernel.OWNER
        if address < 0 or at >= len(self.rows) or not self.rows[at]:
            raise _no_object(address)
        return int(self.rows[at]) - 1

    def allocate(self, cpu: int, cache: int, n: int, out: IntArray, first: int) -> int:
        """Allocate up to `n` objects with GFP_KERNEL to ``out[first:]``; return how many were had.

        Fewer than `n` only when the page allocator has no pages above its `min` mark.
        """
        self._cover(self._most_pages(cache, n))
        pages = self._pages
        got = kernel.allocate(
            self.words, self.entries, self.rows, self.freelists, pages.words, pages.links,
            cpu, cache, n, out, first,
        )  # fmt: skip
        self._note_price()
        return int(got)

    def release(self, cpu: int, addresses: IntArray, first: int, n: int, step: int) -> None:
        """Free `n` objects, a ``kfree()`` each: ``addresses[first]``, ``[first + step]``, ..."""
        self._release(cpu, addresses, first, n, step, kernel.FREED)

    def release_bulk(self, cpu: int, addresses: IntArray, first: int, n: int) -> None:
        """Free ``addresses[first : first + n]`` with one ``kfree_bulk()``."""
        self._release(cpu, addresses, first, n, 1, kernel.BULK_FREED)

    def _release(
        self, cpu: int, addresses: IntArray, first: int, n: int, step: int, how: int
    ) -> None:
        pages = self._pages
        done = kernel.release(
            self.words, self.entries, self.rows, self.freelists, pages.words, pages.links,
            cpu, addresses, first, n, step, how,
        )  # fmt: skip
        self._note_price()
        if done < n:
            raise _no_object(int(addresses[first + int(done) * step]))

    def reap(self, cpu: int, now_ns: int) -> None:
        """Do a CPU's periodic work: every 2 s in the kernel, of which a node uses every other."""
        pages = self._pages
        kernel.reap(
            self.words,
            self.entries,
            self.rows,
            self.freelists,
            pages.words,
            pages.links,
            cpu,
            now_ns,
        )
        self._note_price()

    # -- accounts ----------------------------------------------------------------------------------

    @property
    def cache_names(self) -> tuple[str, ...]:
        """Names of the caches, by number."""
        return tuple(cache.name for cache in self.caches)

    def locks(self) -> list[Hold]:
        """Return all locks of the allocator."""
        return self.list_locks

    def address_bound(self) -> int:
        """Return a bound that all addresses handed out so far are below."""
        return self._pages.frames << self._index_bits

    def handed_out_objects(self, cache: int | None = None) -> int:
        """Return the objects of a cache, or of all, that are out, from the counters."""
        if cache is None:
            return int(self.words[kernel.OBJECTS_OUT])
        totals = kernel.WORLD + cache * kernel.WORDS + kernel.TOTALS
        out = self.words[totals + kernel.ALLOCATED]
        return int(out - self.words[totals + kernel.FREED] - self.words[totals + kernel.BULK_FREED])

    def handed_out_bytes(self) -> int:
        """Return the bytes, at class size, of all objects that are out, from the counters."""
        return int(self.words[kernel.BYTES_OUT])

    def recount_objects(self, cache: int | None = None) -> int:
        """Return the objects of a cache, or of all, that are out, by walking every slab and array.

        Objects that are not free on slabs, less those that wait in arrays, less those that hold the
        management of slabs.
        """
        if cache is None:
            return sum(self.recount_objects(number) for number in range(len(self.caches)))
        active = self._walk(cache)[1]
        arrays = [self._array_at(cache, cpu) for cpu in range(self.cpus)] + [self._shared_at(cache)]
        parked = sum(int(self.entries[at + kernel.AVAIL]) for at in arrays)
        return active - parked - self._managers_in_use(cache)

    def _managers_in_use(self, cache: int) -> int:
        """Return how many objects of a cache hold the management of slabs, by walking these."""
        return sum(
            self._walk(number)[0]
            for number, other in enumerate(self.caches)
            if other.management == cache
        )

    def _walk(self, cache: int) -> tuple[int, int]:
        """Return the slabs of a cache and the objects that are out of them, by walking all lists."""
        slabs = active = 0
        for which in range(kernel.LISTS):
            found = kernel.walk_list(self.rows, kernel.LISTS * cache + which)
            slabs += int(found[0])
            active += int(found[1])
        return slabs, active

    def pages(self) -> int:
        """Return the pages that slabs hold, from the counter."""
        return int(self.words[kernel.PAGES_HELD])

    def recount_pages(self) -> int:
        """Return the same by walking every slab list."""
        return sum(
            self._walk(number)[0] << cache.geometry.order
            for number, cache in enumerate(self.caches)
        )

    def drained_pages_most(self) -> int:
        """Return the most pages that may be left when no object is out.

        Every object in an array can keep a slab of its own, the free list keeps what its limit
        allows, and each slab that is left can keep a slab of its management's cache.
        """
        slabs = [0] * len(self.caches)
        managed_first = sorted(range(len(self.caches)), key=lambda n: self.caches[n].management < 0)
        for number in managed_first:
            shape, management = self.caches[number].geometry, self.caches[number].management
            slabs[number] += self.cpus * shape.limit + shape.shared_limit
            slabs[number] += shape.free_limit_objects // shape.objects_per_slab + 1
            if management >= 0:
                slabs[management] += slabs[number]
        return sum(
            count << cache.geometry.order for count, cache in zip(slabs, self.caches, strict=True)
        )

    def counters(self, cache: int | None = None) -> dict[str, int]:
        """Return how often each path was taken.

        For one cache: every count by name, and besides `alloc_hits` and `free_hits`, the operations
        that needed nothing but the CPU's array. For all: those that are not 0, as ``cache/name``.
        """
        if cache is None:
            return {
                f"{name}/{key}": count
                for number, name in enumerate(self.cache_names)
                for key, count in self.counters(number).items()
                if count
            }
        totals = kernel.WORLD + cache * kernel.WORDS + kernel.TOTALS
        found = {name: int(self.words[totals + count]) for name, count in COUNTERS.items()}
        # a refill without success is one whose pages were refused, here or for the management
        failed = found["page_takes"] - found["slabs_new"]
        taken = found["allocated"] + found["managers_taken"]
        given = found["freed"] + found["bulk_freed"] + found["managers_given"]
        found["alloc_hits"] = taken - (found["refills"] - failed)
        found["free_hits"] = given - found["flushes"]
        return found

    def slabinfo_row(self, cache: int) -> SlabinfoRow:
        """Return what ``/proc/slabinfo`` says about a cache.

        From the node's counters, as later kernels do it, so that it may be asked often; only
        the free list, which the free limit keeps short, is walked.
        """
        shape = self.caches[cache].geometry
        w = kernel.WORLD + cache * kernel.WORDS
        slabs = int(self.words[w + kernel.SLABS])
        unused = int(kernel.walk_list(self.rows, kernel.LISTS * cache + kernel.FREE_LIST)[0])
        objects = slabs * shape.objects_per_slab
        return SlabinfoRow(
            name=self.caches[cache].name,
            active_objs=objects - int(self.words[w + kernel.FREE_OBJECTS]),
            num_objs=objects,
            objsize=shape.object_bytes,
            objperslab=shape.objects_per_slab,
            pagesperslab=1 << shape.order,
            limit=shape.limit,
            batchcount=shape.batchcount,
            sharedfactor=shape.shared_factor,
            active_slabs=slabs - unused,
            num_slabs=slabs,
            sharedavail=int(self.entries[self._shared_at(cache) + kernel.AVAIL]),
        )

    def slab_list(self, cache: int, which: int) -> Iterator[int]:
        """Yield the rows of a list of slabs from the head; `which` is one of the kernel's lists."""
        head = kernel.LISTS * cache + which
        row = int(self.rows[head * kernel.ROW + kernel.NEXT])
        while row != head:
            yield row
            row = int(self.rows[row * kernel.ROW + kernel.NEXT])

    def _array_at(self, cache: int, cpu: int) -> int:
        w = kernel.WORLD + cache * kernel.WORDS
        return int(self.words[w + kernel.ARRAY_AT] + cpu * self.words[w + kernel.ARRAY_STRIDE])

    def _shared_at(self, cache: int) -> int:
        return int(self.words[kernel.WORLD + cache * kernel.WORDS + kernel.SHARED_AT])


def _no_object(address: int) -> PropertyViolation:
    # no clock here: who drives the world knows the time
    return PropertyViolation("slab", -1, f"{address:#x} is freed and is no object of a slab")
