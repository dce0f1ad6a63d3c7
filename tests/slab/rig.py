"""A small SLAB for tests, beside its specification, on the compiled or the interpreted text."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import attrs
import pytest

import rcusim._jit
from rcusim._jit import COMPILED, IntArray, integers
from rcusim.machine.pages import PageAllocator, give_pages, take_pages
from rcusim.slab import kernel
from rcusim.slab.layout import LAYOUTS
from rcusim.slab.prices import SlabPrices
from rcusim.slab.slab import COUNTERS, Slab
from tests.specification.slab import Array, Cache, Page, SlabSpecification, Thing

TEXTS = ("compiled", "interpreted") if COMPILED else ("interpreted",)

# all different, so that a count in the wrong place is a wrong price
PRICES = SlabPrices(
    alloc_hit_ps=1_001,
    free_hit_ps=2_003,
    bulk_free_hit_ps=3_007,
    shared_object_ps=4_019,
    refill_object_ps=5_021,
    flush_object_ps=6_037,
    refill_ns=71,
    flush_ns=83,
    list_lock_ns=97,
    slab_visit_ns=103,
    new_slab_ns=109,
    destroy_slab_ns=127,
    page_take_ns=131,
    page_give_ns=139,
    reap_ns=149,
)


def interpreted_kernel() -> ModuleType:
    """Return the kernel text once more, as plain Python."""
    spec = importlib.util.spec_from_file_location("interpreted_slab_kernel", kernel.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rcusim._jit, "kernel", lambda function: function)
        spec.loader.exec_module(module)
    module.__dict__["take_pages"] = getattr(take_pages, "py_func", take_pages)
    module.__dict__["give_pages"] = getattr(give_pages, "py_func", give_pages)
    return module


@contextmanager
def text_in_use(text: str) -> Iterator[None]:
    """Let slabs made within run on the text named, whatever this process compiles."""
    if text == "compiled" or not COMPILED:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rcusim.slab.slab.kernel", interpreted_kernel())
        patch.setattr("rcusim.slab.slab.integers", lambda length, **_: [0] * length)
        yield


def make_pages(text: str, memory_mib: int, spare_pages: int | None = None) -> PageAllocator:
    """Return a page allocator that can give `spare_pages` with GFP_KERNEL, or all."""
    pages = PageAllocator(memory_mib)
    if text == "interpreted":
        pages.words = [int(word) for word in pages.words]  # type: ignore[attr-defined]
        pages.links = []
    if spare_pages is not None:
        pages.take_base(pages.total_pages - pages.watermarks.min_pages - spare_pages)
    return pages


def make_slab(
    layout: str,
    sizes_bytes: Sequence[int],
    *,
    cpus: int = 1,
    minimum_bytes: int = 32,
    pages: PageAllocator | None = None,
) -> Slab:
    """Return a slab with the test prices."""
    return Slab(
        pages=make_pages("compiled", 16) if pages is None else pages,
        cpus=cpus,
        layout=layout,
        minimum_bytes=minimum_bytes,
        sizes_bytes=sizes_bytes,
        prices=PRICES,
    )


@attrs.define(eq=False)
class Pair:
    """A slab and its specification, which see the same operations and must agree after each."""

    slab: Slab
    pages: PageAllocator
    spec: SlabSpecification
    live: list[tuple[int, Thing]] = attrs.field(factory=list)

    @classmethod
    def make(
        cls,
        text: str,
        layout: str,
        sizes_bytes: Sequence[int],
        *,
        cpus: int,
        minimum_bytes: int = 32,
        memory_mib: int = 16,
        spare_pages: int | None = None,
    ) -> Pair:
        pages = make_pages(text, memory_mib, spare_pages)
        slab = make_slab(layout, sizes_bytes, cpus=cpus, minimum_bytes=minimum_bytes, pages=pages)
        spec = SlabSpecification(
            pages=make_pages("compiled", memory_mib, spare_pages),
            layout=LAYOUTS[layout],
            shapes=slab.caches,
            cpus=cpus,
            prices=PRICES,
        )
        return cls(slab, pages, spec)

    def address(self, thing: Thing) -> int:
        bits = int(self.slab.words[kernel.INDEX_BITS])
        return thing.page.frame << bits | thing.index

    def allocate(self, cpu: int, cache: int, n: int) -> int:
        """Allocate on both sides; return how many were had."""
        out = self._array(n + 1)
        got = self.slab.allocate(cpu, cache, n, out, 1)
        self.spec.begin()
        things: list[Thing] = []
        while len(things) < n:
            thing = self.spec.allocate(cpu, cache)
            if thing is None:
                break
            things.append(thing)
        expected = [self.address(thing) for thing in things]
        assert [int(out[1 + i]) for i in range(got)] == expected
        self.live.extend(zip(expected, things, strict=True))
        self.check()
        return got

    def release(self, cpu: int, chosen: Sequence[int], *, bulk: bool, step: int = 1) -> None:
        """Free the live objects with these positions, in this order."""
        some = [self.live[i] for i in chosen]
        gone = set(chosen)
        self.live = [pair for i, pair in enumerate(self.live) if i not in gone]
        addresses = self._array(len(some) * abs(step) + 1)
        first = 0 if step > 0 else len(addresses) - 1
        for i, (address, _) in enumerate(some):
            addresses[first + i * step] = address
        if bulk:
            assert step == 1
            self.slab.release_bulk(cpu, addresses, first, len(some))
        else:
            self.slab.release(cpu, addresses, first, len(some), step)
        self.spec.begin()
        for _, thing in some:
            self.spec.free(cpu, thing, bulk=bulk)
        self.check()

    def reap(self, cpu: int, now_ns: int) -> None:
        self.slab.reap(cpu, now_ns)
        self.spec.begin()
        self.spec.reap(cpu, now_ns)
        self.check()

    def _array(self, length: int) -> IntArray:
        return [0] * length if isinstance(self.slab.words, list) else integers(length)

    def check(self) -> None:
        """Compare everything that both sides know."""
        slab, spec = self.slab, self.spec
        assert slab.price_ns == spec.price_ps // 1000
        held = [(f"{c.shape.name}/list_lock", c.held_ps // 1000) for c in spec.caches]
        assert [(lock.name, ns) for lock, ns in slab.held] == [
            (name, ns) for name, ns in held if ns
        ]
        assert list(self.pages.words) == list(spec.pages.words)  # type: ignore[call-overload]
        for number, cache in enumerate(spec.caches):
            self._check_slabs(number, cache)
            self._check_arrays(number, cache)
            self._check_accounts(number, cache)
        assert slab.handed_out_objects() == len(self.live) == slab.recount_objects()
        sizes = [slab.object_bytes(slab.cache_of_object(address)) for address, _ in self.live]
        assert slab.handed_out_bytes() == sum(sizes)
        given_pages = self.pages.given_pages - (self.pages.total_pages - self._total_pages())
        assert slab.pages() == given_pages == slab.recount_pages()

    def _total_pages(self) -> int:
        return self.pages.free_pages + self.slab.pages()

    def _check_slabs(self, number: int, cache: Cache) -> None:
        slab = self.slab
        sentinels = int(slab.words[kernel.SENTINELS])
        for which, pages in enumerate((cache.partial, cache.full, cache.free)):
            found = list(slab.slab_list(number, which))
            assert [row - sentinels for row in found] == [page.frame for page in pages]
            for row, page in zip(found, pages, strict=True):
                self._check_slab(row, number, cache, page)

    def _check_slab(self, row: int, number: int, cache: Cache, page: Page) -> None:
        rows = [int(word) for word in self._row(row)]
        active = cache.objects_per_slab - len(page.free)
        assert rows[kernel.ACTIVE] == active
        assert rows[kernel.OWNER] == number + 1
        if page.manager is not None:
            manager = (rows[kernel.MANAGER_FRAME], rows[kernel.MANAGER_INDEX])
            assert manager == (page.manager.page.frame, page.manager.index)
        assert self._free_indices(page.frame, rows, active, cache) == page.free[::-1]

    def _row(self, row: int) -> list[int]:
        return [self.slab.rows[row * kernel.ROW + word] for word in range(kernel.ROW)]

    def _free_indices(self, frame: int, row: list[int], active: int, cache: Cache) -> list[int]:
        """Return a slab's free indices in the order in which they will be handed out."""
        base = frame << int(self.slab.words[kernel.INDEX_BITS])
        freelists = self.slab.freelists
        if not self.spec.layout.linked:
            return [int(freelists[base + i]) for i in range(active, cache.objects_per_slab)]
        found = []
        index = row[kernel.FREE]
        while index >= 0:
            found.append(index)
            index = int(freelists[base + index])
        return found

    def _check_arrays(self, number: int, cache: Cache) -> None:
        for cpu, array in enumerate(cache.arrays):
            self._check_array(self.slab._array_at(number, cpu), array)
        self._check_array(self.slab._shared_at(number), cache.shared)

    def _check_array(self, at: int, array: Array) -> None:
        entries = self.slab.entries
        avail = int(entries[at + kernel.AVAIL])
        found = [int(entries[at + kernel.ENTRY + i]) for i in range(avail)]
        assert found == [self.address(thing) for thing in array.things]
        assert bool(entries[at + kernel.TOUCHED]) == array.touched

    def _check_accounts(self, number: int, cache: Cache) -> None:
        slab = self.slab
        w = kernel.WORLD + number * kernel.WORDS
        assert slab.words[w + kernel.FREE_OBJECTS] == cache.free_objects()
        assert bool(slab.words[w + kernel.FREE_TOUCHED]) == cache.free_touched
        assert slab.words[w + kernel.NEXT_REAP_NS] == cache.next_reap_ns
        slabs = len(cache.partial) + len(cache.full) + len(cache.free)
        assert slab.words[w + kernel.SLABS] == slabs
        counters = slab.counters(number)
        assert {name: counters[name] for name in COUNTERS} == {
            name: cache.counts[name] for name in COUNTERS
        }
        assert slab.handed_out_objects(number) == slab.recount_objects(number)
        row = slab.slabinfo_row(number)
        assert row.num_objs - row.active_objs == cache.free_objects()
        assert (row.active_slabs, row.num_slabs) == (slabs - len(cache.free), slabs)
        assert row.sharedavail == len(cache.shared.things)
