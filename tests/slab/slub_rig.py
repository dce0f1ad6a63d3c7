"""A small SLUB for tests, beside its specification, on the compiled or the interpreted text."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType

import attrs
import pytest

import rcusim._jit
from rcusim._jit import COMPILED, IntArray, integers
from rcusim.machine.pages import PageAllocator, give_pages, take_pages
from rcusim.slab import slub_kernel as kernel
from rcusim.slab.kernel import link_after, unlink
from rcusim.slab.slub import COUNTERS, FreelistOrder, Slub
from rcusim.slab.slub_prices import SlubPrices
from tests.slab.rig import make_pages
from tests.specification.slub import Cache, Page, SlubSpecification, Thing

# all different, so that a count in the wrong place is a wrong price
PRICES = SlubPrices(
    alloc_fast_ps=1_001,
    bulk_alloc_ps=2_003,
    free_fast_ps=3_007,
    free_slow_ps=4_019,
    bulk_free_ps=5_021,
    bulk_miss_ps=6_037,
    group_fast_ps=7_039,
    group_slow_ps=8_053,
    refill_ns=71,
    slab_move_ns=83,
    list_lock_ns=97,
    node_move_ns=103,
    new_slab_ns=109,
    new_line_ps=9_059,
    discard_ns=127,
    page_refusal_ns=131,
    large_alloc_ns=139,
    large_free_ns=149,
)


def interpreted_kernel() -> ModuleType:
    """Return the kernel text once more, as plain Python."""
    spec = importlib.util.spec_from_file_location("interpreted_slub_kernel", kernel.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rcusim._jit, "kernel", lambda function: function)
        spec.loader.exec_module(module)
    for function in (take_pages, give_pages, link_after, unlink):
        plain = getattr(function, "py_func", function)
        module.__dict__[plain.__name__] = plain
    return module


@contextmanager
def text_in_use(text: str) -> Iterator[None]:
    """Let what is made within run on the text named, whatever this process compiles."""
    if text == "compiled" or not COMPILED:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rcusim.slab.slub.kernel", interpreted_kernel())
        patch.setattr("rcusim.slab.slub.integers", lambda length, **_: [0] * length)
        yield


def make_slub(
    rules: str,
    sizes_bytes: Sequence[int],
    *,
    cpus: int = 1,
    minimum_bytes: int = 8,
    pages: PageAllocator | None = None,
    predicate: str = "page",
    end_tokens: bool = False,
    freelist_random: Mapping[str, FreelistOrder] | None = None,
) -> Slub:
    """Return a SLUB with the test prices."""
    return Slub(
        pages=make_pages("compiled", 16) if pages is None else pages,
        cpus=cpus,
        rules=rules,
        minimum_bytes=minimum_bytes,
        sizes_bytes=sizes_bytes,
        prices=PRICES,
        predicate=predicate,
        end_tokens=end_tokens,
        freelist_random=freelist_random or {},
    )


@attrs.define(eq=False)
class Pair:
    """A SLUB and its specification, which see the same operations and must agree after each."""

    slub: Slub
    pages: PageAllocator
    spec: SlubSpecification
    live: list[tuple[int, Thing]] = attrs.field(factory=list)

    @classmethod
    def make(
        cls,
        text: str,
        rules: str,
        sizes_bytes: Sequence[int],
        *,
        cpus: int,
        minimum_bytes: int = 8,
        memory_mib: int = 16,
        spare_pages: int | None = None,
        predicate: str = "page",
        end_tokens: bool = False,
        random_seed: int | None = None,
    ) -> Pair:
        pages = make_pages(text, memory_mib, spare_pages)
        plain = make_slub(rules, sizes_bytes, cpus=cpus, minimum_bytes=minimum_bytes)
        orders = {
            cache.name: FreelistOrder.drawn(
                random_seed, cache.name, cache.geometry.objects_per_slab, starts=3
            )
            for cache in plain.caches
            if random_seed is not None and cache.geometry is not None
        }
        slub = make_slub(
            rules,
            sizes_bytes,
            cpus=cpus,
            minimum_bytes=minimum_bytes,
            pages=pages,
            predicate=predicate,
            end_tokens=end_tokens,
            freelist_random=orders,
        )
        spec = SlubSpecification(
            pages=make_pages("compiled", memory_mib, spare_pages),
            late=rules == "slub-6.18",
            shapes=slub.caches,
            cpus=cpus,
            prices=PRICES,
            predicate=predicate,
            end_tokens=end_tokens,
            orders=orders,
        )
        return cls(slub, pages, spec)

    def address(self, page: Page, index: int) -> int:
        return page.frame << int(self.slub.words[kernel.INDEX_BITS]) | index

    def addresses(self, page: Page | None, free: Sequence[int]) -> list[int]:
        """Return the addresses of free objects, the next first."""
        return [self.address(page, index) for index in free[::-1]] if page is not None else []

    def allocate(self, cpu: int, cache: int, n: int, *, bulk: bool = False) -> int:
        """Allocate on both sides; return how many were had."""
        out = self._array(n + 1)
        call = self.slub.allocate_bulk if bulk else self.slub.allocate
        got = call(cpu, cache, n, out, 1)
        self.spec.begin()
        things: list[Thing] = []
        while len(things) < n:
            thing = self.spec.allocate(cache, cpu, bulk=bulk)
            if thing is None:
                break
            things.append(thing)
        if bulk and len(things) < n:
            assert got == 0
            self.spec.free_bulk(cpu, things)
            self.check(calls=2)
            return 0
        expected = [self.address(thing.page, thing.index) for thing in things]
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
        self.spec.begin()
        if bulk:
            assert step == 1
            self.slub.release_bulk(cpu, addresses, first, len(some))
            assert [int(addresses[i]) for i in range(len(some))] == [one[0] for one in some]
            self.spec.free_bulk(cpu, [thing for _, thing in some])
        else:
            self.slub.release(cpu, addresses, first, len(some), step)
            for _, thing in some:
                self.spec.free(cpu, thing)
        self.check()

    def _array(self, length: int) -> IntArray:
        return [0] * length if isinstance(self.slub.words, list) else integers(length)

    def check(self, calls: int = 1) -> None:
        """Compare everything that both sides know, after an operation made of so many calls."""
        slub, spec = self.slub, self.spec
        # each call rounds its price down
        assert 0 <= spec.price_ps // 1000 - slub.price_ns < calls
        if calls == 1:
            held = [(f"{c.shape.name}/list_lock", c.held_ps // 1000) for c in spec.caches]
            assert [(lock.name, ns) for lock, ns in slub.held] == [pair for pair in held if pair[1]]
        assert list(self.pages.words) == list(spec.pages.words)  # type: ignore[call-overload]
        for number, cache in enumerate(spec.caches):
            self._check_counts(number, cache)
            if cache.shape.geometry is not None:
                self._check_lists(number, cache)
                self._check_slabs(number, cache)
        assert slub.handed_out_objects() == len(self.live) == slub.recount_objects()
        sizes = [slub.object_bytes(slub.cache_of_object(address)) for address, _ in self.live]
        assert slub.handed_out_bytes() == sum(sizes)
        held_pages = sum(1 << page.order for cache in spec.caches for page in cache.slabs)
        assert slub.pages() == held_pages == slub.recount_pages()

    def _check_counts(self, number: int, cache: Cache) -> None:
        slub = self.slub
        counters = slub.counters(number)
        assert counters == {name: cache.counts[name] for name in COUNTERS}
        assert slub.handed_out_objects(number) == slub.recount_objects(number)

    def _check_lists(self, number: int, cache: Cache) -> None:
        slub = self.slub
        assert list(slub.node_partial(number)) == [page.frame for page in cache.partial]
        w = kernel.WORLD + number * kernel.WORDS
        assert slub.words[w + kernel.NR_PARTIAL] == len(cache.partial)
        for cpu, mine in enumerate(cache.cpus):
            assert slub.cpu_slab(number, cpu) == (mine.page.frame if mine.page else -1)
            assert slub.cpu_freelist(number, cpu) == self.addresses(mine.page, mine.free)
            assert slub.cpu_partial(number, cpu) == [page.frame for page in mine.partial]
        row = slub.slabinfo_row(number)
        assert row.active_slabs == row.num_slabs == len(cache.slabs)
        assert row.num_objs == sum(page.objects for page in cache.slabs)
        assert row.num_objs - row.active_objs == sum(len(page.free) for page in cache.partial)

    def _check_slabs(self, number: int, cache: Cache) -> None:
        slub = self.slub
        for page in cache.slabs:
            assert slub.slab_freelist(page.frame) == self.addresses(page, page.free)
            at = (page.frame + len(slub.caches)) << kernel.ROW_SHIFT
            assert slub.rows[at + kernel.OWNER] == number + 1
            assert slub.rows[at + kernel.INUSE] == page.inuse
            assert (slub.rows[at + kernel.STATE] == kernel.FROZEN) == page.frozen
            assert (slub.rows[at + kernel.STATE] == kernel.ON_NODE) == (page in cache.partial)
