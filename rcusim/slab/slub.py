"""SLUB as an allocator of the model: the state behind the compiled text, and its accounts.

See :mod:`rcusim.slab.slub_kernel` for what is modelled and what is left out. The CPUs given are
possible, present and online for the whole run. Nothing is merged: a world has kmalloc caches only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from rcusim._jit import IntArray, grown, integers
from rcusim.abc import Hold
from rcusim.engine.choices import Stream
from rcusim.errors import PropertyViolation
from rcusim.formats.slabinfo import SlabinfoRow
from rcusim.machine.pages import PageAllocator
from rcusim.slab import slub_kernel as kernel
from rcusim.slab.kmalloc import cache_name
from rcusim.slab.slub_layout import LARGEST_BYTES, SlubGeometry, class_of, geometry, get_order
from rcusim.slab.slub_prices import SlubPrices as SlubPrices  # noqa: PLC0414

PREDICATES = {
    "page": kernel.SAME_SLAB,
    "same_slab_page": kernel.FREELIST_WINDOW,
    "bound": kernel.FREELIST_BOUND,
}
"""What makes a free fast: the slab is the CPU's; the window of the patch of December 2014, with its
two slips; the bound that was proposed instead."""

COUNTERS = {
    "allocated_fast": kernel.ALLOCATED_FAST,
    "allocated_slow": kernel.ALLOCATED_SLOW,
    "bulk_allocated": kernel.BULK_ALLOCATED,
    "freed_fast": kernel.FREED_FAST,
    "freed_slow": kernel.FREED_SLOW,
    "bulk_freed": kernel.BULK_FREED,
    "groups_fast": kernel.GROUPS_FAST,
    "groups_slow": kernel.GROUPS_SLOW,
    "group_misses": kernel.GROUP_MISSES,
    "refills": kernel.REFILLS,
    "slabs_reloaded": kernel.SLABS_RELOADED,
    "slabs_forgotten": kernel.SLABS_FORGOTTEN,
    "cpu_partial_taken": kernel.CPU_PARTIAL_TAKEN,
    "cpu_partial_given": kernel.CPU_PARTIAL_GIVEN,
    "node_refills": kernel.NODE_REFILLS,
    "node_taken": kernel.NODE_TAKEN,
    "drains": kernel.DRAINS,
    "drained": kernel.DRAINED,
    "list_locks": kernel.LIST_LOCKS,
    "slabs_new": kernel.SLABS_NEW,
    "lines_new": kernel.LINES_NEW,
    "slabs_discarded": kernel.SLABS_DISCARDED,
    "fallbacks": kernel.FALLBACKS,
    "page_takes": kernel.PAGE_TAKES,
    "page_refusals": kernel.PAGE_REFUSALS,
    "large_taken": kernel.LARGE_TAKEN,
    "large_given": kernel.LARGE_GIVEN,
}
"""Names of the counts; what each counts stands in :mod:`rcusim.slab.slub_kernel`."""

TAKEN = ("allocated_fast", "allocated_slow", "bulk_allocated", "large_taken")
GIVEN = ("freed_fast", "freed_slow", "bulk_freed", "large_given")


@attrs.frozen(kw_only=True)
class FreelistOrder:
    """A random order of the objects of new slabs (``random_seq`` of a cache).

    Attributes
    ----------
    sequence : tuple of int
        All indices of a slab of the preferred order, shuffled.
    starts : tuple of int
        Positions in it from which new slabs begin, in turn; the kernel draws one for each slab.
    """

    sequence: tuple[int, ...]
    starts: tuple[int, ...]

    def __attrs_post_init__(self) -> None:
        length = len(self.sequence)
        if sorted(self.sequence) != list(range(length)):
            raise ValueError("a freelist order names every index of a slab once")
        if not self.starts or not all(0 <= start < length for start in self.starts):
            raise ValueError("a freelist order begins at positions of its sequence")

    @classmethod
    def drawn(cls, seed: int, name: str, objects: int, starts: int = 64) -> FreelistOrder:
        """Return the order of a cache of that name as a seed decides it."""
        draws = Stream.named(seed, f"freelist order of {name}")
        sequence = list(range(objects))
        for last in range(objects - 1, 0, -1):
            other = draws.below(last + 1)
            sequence[last], sequence[other] = sequence[other], sequence[last]
        return cls(
            sequence=tuple(sequence), starts=tuple(draws.below(objects) for _ in range(starts))
        )


@attrs.frozen(kw_only=True)
class SlubCache:
    """One cache, or the requests above the largest one that take so many pages.

    Attributes
    ----------
    name : str
        As slabinfo prints it; ``kmalloc-large-N`` for N bytes of pages, which slabinfo does not show.
    class_bytes : int
        Largest request that it serves.
    geometry : SlubGeometry or None
        Slabs; None for pages.
    """

    name: str
    class_bytes: int
    geometry: SlubGeometry | None

    @property
    def order(self) -> int:
        """Order of the pages of a slab or object."""
        return get_order(self.class_bytes) if self.geometry is None else self.geometry.order


def slub_caches(
    rules: str, minimum_bytes: int, cpus: int, sizes_bytes: Sequence[int]
) -> tuple[SlubCache, ...]:
    """Return the caches that requests of these sizes need, ascending.

    Raises
    ------
    ValueError
        When a size cannot be served.
    """
    found = sorted({class_of(size, minimum_bytes) for size in sizes_bytes})
    return tuple(
        SlubCache(name=cache_name(size), class_bytes=size, geometry=geometry(rules, size, cpus))
        if size <= LARGEST_BYTES
        else SlubCache(name=f"kmalloc-large-{size}", class_bytes=size, geometry=None)
        for size in found
    )


@attrs.define(eq=False)
class Slub:
    """SLUB with the kmalloc caches that some request sizes need; an :class:`rcusim.abc.Allocator`.

    Parameters
    ----------
    pages : PageAllocator
        Where slabs come from.
    cpus : int
        Possible CPUs, all online, of one node.
    rules : str
        One of :data:`rcusim.slab.slub_layout.RULES`.
    minimum_bytes : int
        Smallest kmalloc class, one of :data:`rcusim.slab.slub_layout.MINIMUMS_BYTES`.
    sizes_bytes : sequence of int
        Sizes that will be requested.
    prices : SlubPrices
        What operations cost.
    predicate : str
        One of :data:`PREDICATES`; all but ``page`` are of 3.18.
    end_tokens : bool
        Whether freelists end in a token that tells their slab (patch 5 of 7 of December 2014);
        otherwise in NULL. Matters to predicates that look at the CPU's freelist.
    freelist_random : mapping
        By name of a cache, the order of objects in its new slabs; caches not named: ascending.

    Attributes
    ----------
    caches : tuple of SlubCache
        Ascending, which gives them their numbers; those that are pages come last.
    list_locks : list of Hold
        The list lock of each cache's node.
    words, entries, rows, freelists : IntArray
        See :mod:`rcusim.slab.slub_kernel`.
    """

    _pages: PageAllocator
    cpus: int
    rules: str
    minimum_bytes: int
    sizes_bytes: Sequence[int]
    prices: SlubPrices
    predicate: str = attrs.field(default="page", kw_only=True)
    end_tokens: bool = attrs.field(default=False, kw_only=True)
    freelist_random: Mapping[str, FreelistOrder] = attrs.field(factory=dict, kw_only=True)
    price_ns: int = attrs.field(init=False, default=0)
    held: list[tuple[Hold, int]] = attrs.field(init=False, factory=list)
    caches: tuple[SlubCache, ...] = attrs.field(init=False)
    list_locks: list[Hold] = attrs.field(init=False)
    words: IntArray = attrs.field(init=False, repr=False)
    entries: IntArray = attrs.field(init=False, repr=False)
    rows: IntArray = attrs.field(init=False, repr=False)
    freelists: IntArray = attrs.field(init=False, repr=False)
    _scratch: IntArray = attrs.field(init=False, repr=False)
    _cache_of_class: dict[int, int] = attrs.field(init=False, repr=False)
    _index_bits: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.predicate not in PREDICATES:
            rule = f"must be one of {', '.join(PREDICATES)}"
            raise ValueError(f"predicate {self.predicate!r}: {rule}")
        if self.predicate != "page" and self.rules != "slub-3.18":
            raise ValueError(f"predicate {self.predicate!r}: is of slub-3.18, not of {self.rules}")
        if self.cpus < 1:
            raise ValueError(f"{self.cpus} CPUs: must be at least 1")
        self.caches = slub_caches(self.rules, self.minimum_bytes, self.cpus, self.sizes_bytes)
        self.list_locks = [
            Hold(name=f"{cache.name}/list_lock") for cache in self.caches if cache.geometry
        ]
        self._cache_of_class = {cache.class_bytes: i for i, cache in enumerate(self.caches)}
        self._index_bits = max(
            (cache.geometry.objects_per_slab - 1).bit_length() if cache.geometry else 0
            for cache in self.caches
        )
        self._make_words()
        self.rows = integers(0, bits=32)
        self.freelists = integers(0, bits=16)
        self._scratch = integers(0)
        self._cover(0)
        for head in range(len(self.caches)):
            self.rows[head * kernel.ROW + kernel.NEXT] = head
            self.rows[head * kernel.ROW + kernel.PREV] = head

    def _make_words(self) -> None:
        """Set up the words of world and caches, what CPUs have of them, and random orders."""
        caches = len(self.caches)
        words = integers(kernel.WORLD + caches * kernel.WORDS)
        for word, value in {
            kernel.CACHES: caches,
            kernel.CPUS: self.cpus,
            kernel.INDEX_BITS: self._index_bits,
            kernel.SENTINELS: caches,
            kernel.MARK_PAGES: self._pages.watermarks.min_pages,
            kernel.LATE: int(self.rules == "slub-6.18"),
            kernel.PREDICATE: PREDICATES[self.predicate],
            kernel.END_TOKENS: int(self.end_tokens),
        }.items():
            words[word] = value
        for count, (price_ps, held_ps) in self.prices.weights().items():
            words[kernel.PRICE_PS + count] = price_ps
            words[kernel.HELD_PS + count] = held_ps
        known = {cache.name for cache in self.caches if cache.geometry}
        for name in self.freelist_random:
            if name not in known:
                raise ValueError(f"freelist order of {name}: this world has no such cache")
        per_cpu = caches * self.cpus * kernel.CPU_WORDS
        room = sum(len(it.sequence) + len(it.starts) for it in self.freelist_random.values())
        self.words = words
        self.entries = integers(per_cpu + room)
        for at in range(per_cpu):
            self.entries[at] = -1
        at = per_cpu
        for number, cache in enumerate(self.caches):
            at = self._make_cache(number, cache, at)

    def _make_cache(self, number: int, cache: SlubCache, at: int) -> int:
        """Set up the words of a cache and at `at` its random order; return where that ends."""
        shape = cache.geometry
        values = {
            kernel.OBJECT_BYTES: cache.class_bytes,
            kernel.ORDER: cache.order,
            kernel.LARGE: int(shape is None),
        }
        if shape is not None:
            values |= {
                kernel.OBJECTS: shape.objects_per_slab,
                kernel.MIN_OBJECTS: shape.min_objects,
                kernel.MIN_ORDER: shape.min_order,
                kernel.MIN_PARTIAL: shape.min_partial,
                kernel.CPU_PARTIAL: shape.cpu_partial_limit,
            }
            chosen = self.freelist_random.get(cache.name)
            if chosen is not None:
                if len(chosen.sequence) != shape.objects_per_slab:
                    objects = shape.objects_per_slab
                    raise ValueError(f"freelist order of {cache.name}: must have {objects} objects")
                values[kernel.SEQUENCE_AT] = at
                values[kernel.SEQUENCE] = len(chosen.sequence)
                values[kernel.STARTS] = len(chosen.starts)
                for value in (*chosen.sequence, *chosen.starts):
                    self.entries[at] = value
                    at += 1
        for word, value in values.items():
            self.words[kernel.WORLD + number * kernel.WORDS + word] = value
        return at

    def _cover(self, pages: int) -> None:
        """Make room for all frames that exist after `pages` more were taken."""
        frames = self._pages.reserve(pages)
        length = (len(self.caches) + frames) << kernel.ROW_SHIFT
        if len(self.rows) < length:
            self.rows = grown(self.rows, length)
            self.freelists = grown(self.freelists, frames << self._index_bits)

    def _most_pages(self, cache: int, n: int) -> int:
        """Return the pages that `n` allocations can take; slabs are made only when none is free."""
        shape = self.caches[cache].geometry
        if shape is None:
            return n << self.caches[cache].order
        preferred = -(-n // shape.objects_per_slab) << shape.order
        smallest = -(-n // shape.min_objects) << shape.min_order
        return preferred + smallest

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
        """Return the number of the cache, or of the pages, that serve a request.

        Raises
        ------
        ValueError
            When no cache was made for a request of this class.
        """
        class_bytes = class_of(size_bytes, self.minimum_bytes)
        found = self._cache_of_class.get(class_bytes)
        if found is None:
            raise ValueError(
                f"request of {size_bytes} bytes: this world has no kmalloc-{class_bytes}"
            )
        return found

    def object_bytes(self, cache: int) -> int:
        """Return what one object of a cache occupies."""
        return self.caches[cache].class_bytes

    def cache_of_object(self, address: int) -> int:
        """Return the number of the cache that an object belongs to.

        Raises
        ------
        PropertyViolation
            When the address lies in no slab.
        """
        found = int(kernel.owner_of(self.words, self.rows, address))
        if found < 0:
            raise _no_object(address)
        return found

    def allocate(self, cpu: int, cache: int, n: int, out: IntArray, first: int) -> int:
        """Allocate up to `n` objects with GFP_KERNEL to ``out[first:]``; return how many were had.

        Fewer than `n` only when the page allocator has no pages above its `min` mark.
        """
        return self._allocate(cpu, cache, n, out, first, bulk=0)

    def allocate_bulk(self, cpu: int, cache: int, n: int, out: IntArray, first: int) -> int:
        """Allocate `n` objects with one ``kmem_cache_alloc_bulk()``; return `n`, or 0 without pages.

        Objects that were had before pages ran out are given back within the call.
        """
        got = self._allocate(cpu, cache, n, out, first, bulk=1)
        if got == n:
            return n
        price_ns, held = self.price_ns, self.held
        self.release_bulk(cpu, out, first, got)
        self.price_ns += price_ns
        self.held = held + self.held
        return 0

    def _allocate(
        self, cpu: int, cache: int, n: int, out: IntArray, first: int, *, bulk: int
    ) -> int:
        self._cover(self._most_pages(cache, n))
        pages = self._pages
        got = kernel.allocate(
            self.words, self.entries, self.rows, self.freelists, pages.words, pages.links,
            cpu, cache, n, out, first, bulk,
        )  # fmt: skip
        self._note_price()
        return int(got)

    def release(self, cpu: int, addresses: IntArray, first: int, n: int, step: int) -> None:
        """Free `n` objects, a ``kfree()`` each: ``addresses[first]``, ``[first + step]``, ..."""
        pages = self._pages
        done = kernel.release(
            self.words, self.entries, self.rows, self.freelists, pages.words, pages.links,
            cpu, addresses, first, n, step,
        )  # fmt: skip
        self._note_price()
        if done < n:
            raise _no_object(int(addresses[first + int(done) * step]))

    def release_bulk(self, cpu: int, addresses: IntArray, first: int, n: int) -> None:
        """Free ``addresses[first : first + n]`` with one ``kfree_bulk()``; the array stays as it is."""
        pages = self._pages
        self._scratch = grown(self._scratch, n + 1)
        done = kernel.release_bulk(
            self.words, self.entries, self.rows, self.freelists, pages.words, pages.links,
            cpu, addresses, first, n, self._scratch,
        )  # fmt: skip
        self._note_price()
        if not done:
            raise _no_object(int(self._scratch[n]))

    def reap(self, cpu: int, now_ns: int) -> None:
        """Do nothing: SLUB has no periodic work."""
        del cpu, now_ns
        self.price_ns = 0
        self.held = []

    # -- accounts ----------------------------------------------------------------------------------

    @property
    def cache_names(self) -> tuple[str, ...]:
        """Names of the caches that slabinfo shows, by number."""
        return tuple(cache.name for cache in self.caches if cache.geometry)

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
        found = self.counters(cache)
        return sum(found[name] for name in TAKEN) - sum(found[name] for name in GIVEN)

    def handed_out_bytes(self) -> int:
        """Return the bytes, at class size, of all objects that are out, from the counters."""
        return int(self.words[kernel.BYTES_OUT])

    def recount_objects(self, cache: int | None = None) -> int:
        """Return the objects of a cache, or of all, that are out, by walking all rows and freelists.

        Objects of slabs that are on no freelist, of the slab or of a CPU.
        """
        if cache is None:
            return sum(self.recount_objects(number) for number in range(len(self.caches)))
        _, objects, free = kernel.walk_rows(self.words, self.rows, self.freelists, cache)
        at_hand = sum(len(self.cpu_freelist(cache, cpu)) for cpu in range(self.cpus))
        return int(objects) - int(free) - at_hand

    def pages(self) -> int:
        """Return the pages that slabs and large objects hold, from the counter."""
        return int(self.words[kernel.PAGES_HELD])

    def recount_pages(self) -> int:
        """Return the same by walking every row."""
        return sum(
            int(kernel.walk_rows(self.words, self.rows, self.freelists, number)[0])
            for number in range(len(self.caches))
        )

    def drained_pages_most(self) -> int:
        """Return the most pages that may be left when no object is out.

        Each CPU keeps its slab and what its partial list may hold, the node `min_partial` slabs.
        """
        most = 0
        for cache in self.caches:
            shape = cache.geometry
            if shape is None:
                continue
            if self.rules == "slub-3.18":
                # each slab counted at least one object when added, and one too many is let pass
                listed = shape.cpu_partial_limit + 1
            else:
                # a refill from the node may add half the limit and one
                listed = max(shape.cpu_partial_limit, shape.cpu_partial_limit // 2 + 1)
            most += (self.cpus * (1 + listed) + shape.min_partial) << shape.order
        return most

    def counters(self, cache: int | None = None) -> dict[str, int]:
        """Return how often each path was taken.

        For one cache: every count by name. For all: those that are not 0, as ``cache/name``.
        """
        if cache is None:
            return {
                f"{one.name}/{key}": count
                for number, one in enumerate(self.caches)
                for key, count in self.counters(number).items()
                if count
            }
        totals = kernel.WORLD + cache * kernel.WORDS + kernel.TOTALS
        return {name: int(self.words[totals + count]) for name, count in COUNTERS.items()}

    def slabinfo_row(self, cache: int) -> SlabinfoRow:
        """Return what ``/proc/slabinfo`` says about a cache.

        Objects count as active unless they are free on a slab of the node's list.
        """
        shape = self.caches[cache].geometry
        if shape is None:
            raise ValueError(f"{self.caches[cache].name} is no cache")
        w = kernel.WORLD + cache * kernel.WORDS
        slabs, objects = (int(self.words[w + at]) for at in (kernel.SLABS, kernel.SLAB_OBJECTS))
        return SlabinfoRow(
            name=self.caches[cache].name,
            active_objs=objects - int(kernel.walk_node(self.rows, cache)),
            num_objs=objects,
            objsize=shape.object_bytes,
            objperslab=shape.objects_per_slab,
            pagesperslab=1 << shape.order,
            limit=0,
            batchcount=0,
            sharedfactor=0,
            active_slabs=slabs,
            num_slabs=slabs,
            sharedavail=0,
        )

    def cpu_slab(self, cache: int, cpu: int) -> int:
        """Return the first frame of a CPU's slab, -1 if it has none."""
        row = int(self.entries[self._cpu_at(cache, cpu) + kernel.CPU_SLAB])
        return row - len(self.caches) if row >= 0 else -1

    def cpu_freelist(self, cache: int, cpu: int) -> list[int]:
        """Return the addresses on a CPU's freelist, the next to be handed out first."""
        index = int(self.entries[self._cpu_at(cache, cpu) + kernel.CPU_FREELIST])
        return self._chain(self.cpu_slab(cache, cpu), index)

    def slab_freelist(self, frame: int) -> list[int]:
        """Return the addresses on the freelist of the slab that begins at a frame."""
        at = (frame + len(self.caches)) << kernel.ROW_SHIFT
        return self._chain(frame, int(self.rows[at + kernel.FREE]))

    def _chain(self, frame: int, index: int) -> list[int]:
        found: list[int] = []
        while index >= 0 and len(found) < 1 << self._index_bits:
            found.append((frame << self._index_bits) + index)
            index = int(self.freelists[found[-1]])
        return found

    def cpu_partial(self, cache: int, cpu: int) -> list[int]:
        """Return the first frames of the slabs on a CPU's partial list, from its head."""
        row = int(self.entries[self._cpu_at(cache, cpu) + kernel.CPU_LIST])
        found: list[int] = []
        while row >= 0:
            found.append(row - len(self.caches))
            row = int(self.rows[(row << kernel.ROW_SHIFT) + kernel.NEXT])
        return found

    def node_partial(self, cache: int) -> Iterator[int]:
        """Yield the first frames of the slabs on the node's partial list, from its head."""
        row = int(self.rows[(cache << kernel.ROW_SHIFT) + kernel.NEXT])
        while row != cache:
            yield row - len(self.caches)
            row = int(self.rows[(row << kernel.ROW_SHIFT) + kernel.NEXT])

    def _cpu_at(self, cache: int, cpu: int) -> int:
        return (cache * self.cpus + cpu) * kernel.CPU_WORDS


def _no_object(address: int) -> PropertyViolation:
    # no clock here: who drives the world knows the time
    return PropertyViolation("slab", -1, f"{address:#x} is freed and is no object of a slab")
