"""The compiled text against the specification that another hand wrote: equal after each operation."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rcusim._jit import COMPILED, integers
from rcusim.machine.pages import PageAllocator
from rcusim.slab import kernel
from rcusim.slab.layout import LAYOUTS
from rcusim.slab.prices import SlabPrices
from rcusim.slab.slab import COUNTERS, Slab
from tests.specification.slab_plain import SpecSlabAllocator

EXAMPLES = int(os.environ.get("RCUSIM_TEST_EXAMPLES", "60"))
FREE_OF_CHARGE = SlabPrices(**{field.name: 0 for field in attrs.fields(SlabPrices)})
SECOND_NS = 1_000_000_000
GUARD = -7
SIZES = ((24,), (24, 500), (100, 200), (500, 3000), (24, 100, 200, 500, 3000), (100, 5000))


def small_machine(spare_pages: int) -> PageAllocator:
    """Return 16 MiB of which GFP_KERNEL can have `spare_pages`, to the last."""
    pages = PageAllocator(16)
    pages.take_base(pages.free_pages - pages.watermarks.min_pages - spare_pages)
    return pages


def dump(slab: Slab, number: int) -> dict[str, object]:
    """Return all state of a cache of the flat allocator, as plain values."""
    w = kernel.WORLD + number * kernel.WORDS
    lists = [list(slab.slab_list(number, which)) for which in range(kernel.LISTS)]
    sentinels = int(slab.words[kernel.SENTINELS])
    found: dict[str, object] = {
        name: [row - sentinels for row in lists[which]]
        for name, which in (
            ("partial", kernel.PARTIAL_LIST),
            ("full", kernel.FULL_LIST),
            ("free", kernel.FREE_LIST),
        )
    }
    rows = [row for slabs in lists for row in slabs]
    counts = slab.counters(number)
    return found | {
        "slabs": {row - sentinels: slab_dump(slab, number, row) for row in rows},
        "arrays": [array_dump(slab, slab._array_at(number, cpu)) for cpu in range(slab.cpus)],
        "shared": array_dump(slab, slab._shared_at(number)),
        "free_objects": int(slab.words[w + kernel.FREE_OBJECTS]),
        "free_touched": int(slab.words[w + kernel.FREE_TOUCHED]),
        "next_reap_ns": int(slab.words[w + kernel.NEXT_REAP_NS]),
        "out": slab.handed_out_objects(number),
        "management": {row - sentinels: management(slab, row) for row in rows},
        "counts": {name: counts[name] for name in COUNTERS if counts[name]},
    }


def slab_dump(slab: Slab, number: int, row: int) -> dict[str, object]:
    at = row * kernel.ROW
    objects = slab.caches[number].geometry.objects_per_slab
    used = int(slab.rows[at + kernel.ACTIVE])
    base = (row - int(slab.words[kernel.SENTINELS])) << int(slab.words[kernel.INDEX_BITS])
    if not LAYOUTS[slab.layout].linked:
        indices = [int(slab.freelists[base + place]) for place in range(used, objects)]
    else:
        indices = []
        index = int(slab.rows[at + kernel.FREE])
        while index >= 0:
            indices.append(index)
            index = int(slab.freelists[base + index])
    return {"used": used, "free_indices": indices}


def array_dump(slab: Slab, at: int) -> dict[str, object]:
    first = at + kernel.ENTRY
    avail = int(slab.entries[at + kernel.AVAIL])
    return {
        "touched": int(slab.entries[at + kernel.TOUCHED]),
        "entries": [int(slab.entries[place]) for place in range(first, first + avail)],
    }


def management(slab: Slab, row: int) -> int:
    frame = int(slab.rows[row * kernel.ROW + kernel.MANAGER_FRAME])
    index = int(slab.rows[row * kernel.ROW + kernel.MANAGER_INDEX])
    return frame << int(slab.words[kernel.INDEX_BITS]) | index if frame >= 0 else -1


@attrs.define(eq=False, kw_only=True)
class Both:
    """The flat allocator and the specification on machines of their own."""

    layout: str
    minimum_bytes: int
    cpus: int
    sizes_bytes: Sequence[int]
    spare_pages: int
    flat_pages: PageAllocator = attrs.field(init=False)
    spec_pages: PageAllocator = attrs.field(init=False)
    flat: Slab = attrs.field(init=False)
    spec: SpecSlabAllocator = attrs.field(init=False)
    out: list[int] = attrs.field(factory=list)
    now_ns: int = 0

    def __attrs_post_init__(self) -> None:
        self.flat_pages = small_machine(self.spare_pages)
        self.spec_pages = small_machine(self.spare_pages)
        self.flat = Slab(
            pages=self.flat_pages,
            cpus=self.cpus,
            layout=self.layout,
            minimum_bytes=self.minimum_bytes,
            sizes_bytes=self.sizes_bytes,
            prices=FREE_OF_CHARGE,
        )
        self.spec = SpecSlabAllocator(
            pages=self.spec_pages,
            cpus=self.cpus,
            layout=self.layout,
            minimum_bytes=self.minimum_bytes,
            sizes_bytes=self.sizes_bytes,
        )
        assert [cache.class_bytes for cache in self.flat.caches] == self.spec.classes
        for size_bytes in self.sizes_bytes:
            assert self.flat.cache_of(size_bytes) == self.spec.cache_of(size_bytes)

    def allocate(self, cpu: int, cache: int, n: int) -> None:
        cache %= len(self.spec.caches)
        expected = self.spec.allocate(cpu % self.cpus, cache, n)
        to = integers(n + 3, fill=GUARD)
        got = self.flat.allocate(cpu % self.cpus, cache, n, to, 2)
        found = [int(to[place]) for place in range(n + 3)]
        assert found[2 : 2 + got] == expected
        assert set(found[:2] + found[2 + n :]) == {GUARD}
        assert all(self.flat.cache_of_object(address) == cache for address in expected)
        assert all(address < self.flat.address_bound() for address in expected)
        self.out += expected

    def pick(self, start: int, stride: int, n: int) -> list[int]:
        """Take objects away from those that are out: neighbours, every third, or all over."""
        picked: list[int] = []
        place = start
        while self.out and len(picked) < n:
            place = (place + stride) % len(self.out)
            picked.append(self.out.pop(place))
        return picked

    def release(self, cpu: int, picked: list[int], step: int) -> None:
        n = len(picked)
        addresses = integers(n * step + 2, fill=GUARD)
        for i, address in enumerate(picked):
            addresses[1 + i * step] = address
        self.flat.release(cpu % self.cpus, addresses, 1, n, step)
        self.spec.release(cpu % self.cpus, picked)

    def release_bulk(self, cpu: int, picked: list[int]) -> None:
        n = len(picked)
        addresses = integers(n + 2, fill=GUARD)
        for i, address in enumerate(picked):
            addresses[1 + i] = address
        self.flat.release_bulk(cpu % self.cpus, addresses, 1, n)
        self.spec.release(cpu % self.cpus, picked, bulk=True)

    def reap(self, cpu: int, after_ns: int) -> None:
        self.now_ns += after_ns
        self.flat.reap(cpu % self.cpus, self.now_ns)
        self.spec.reap(cpu % self.cpus, self.now_ns)

    def compare(self, *, deeply: bool = True) -> None:
        """Assert that both know the same."""
        assert self.flat_pages.given_pages == self.spec_pages.given_pages
        assert self.flat_pages.refused == self.spec_pages.refused
        assert self.flat.handed_out_objects() == self.spec.handed_out_objects() == len(self.out)
        assert self.flat.handed_out_bytes() == self.spec.handed_out_bytes()
        assert self.flat.pages() == self.spec.slab_pages()
        assert self.flat.price_ns == 0
        assert self.flat.held == []
        if deeply:
            self.spec.check()
            assert self.flat.recount_objects() == len(self.out)
            assert self.flat.recount_pages() == self.spec.slab_pages()
            for number in range(len(self.spec.caches)):
                assert dump(self.flat, number) == self.spec.dump(number)

    def run_dry(self) -> None:
        """Free all that is out, then reap until nothing is left."""
        self.release(0, self.pick(0, 0, len(self.out)), 1)
        self.compare()
        assert self.flat.pages() <= self.flat.drained_pages_most()
        for _ in range(200):
            if self.flat.pages() == 0:
                break
            for cpu in range(self.cpus):
                self.reap(cpu, 4 * SECOND_NS)
        self.compare()
        assert self.flat.pages() == 0


FEW_OR_MANY = (1, 2, 7, 16, 17, 60, 61, 125, 241)
OPERATION = st.one_of(
    st.tuples(
        st.just("allocate"), st.integers(0, 2), st.integers(0, 7), st.sampled_from(FEW_OR_MANY)
    ),
    st.tuples(
        st.just("release"), st.integers(0, 2), st.integers(0, 97), st.sampled_from(FEW_OR_MANY)
    ),
    st.tuples(
        st.just("release_bulk"), st.integers(0, 2), st.integers(0, 97), st.sampled_from(FEW_OR_MANY)
    ),
    st.tuples(st.just("reap"), st.integers(0, 2), st.integers(0, 5), st.just(0)),
)


def perform(both: Both, operation: tuple[str, int, int, int]) -> None:
    what, cpu, which, n = operation
    if what == "allocate":
        both.allocate(cpu, which, n)
    elif what == "release":
        both.release(cpu, both.pick(which, which, n), 1 + which % 3)
    elif what == "release_bulk":
        both.release_bulk(cpu, both.pick(which, which, n))
    else:
        both.reap(cpu, which * SECOND_NS)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    minimum_bytes=st.sampled_from((32, 128)),
    cpus=st.integers(1, 3),
    sizes_bytes=st.sampled_from(SIZES),
    spare_pages=st.sampled_from((1, 2, 5, 20, 60)),
    operations=st.lists(OPERATION, min_size=1, max_size=60),
)
def test_any_operations(
    layout: str,
    minimum_bytes: int,
    cpus: int,
    sizes_bytes: tuple[int, ...],
    spare_pages: int,
    operations: list[tuple[str, int, int, int]],
) -> None:
    both = Both(
        layout=layout,
        minimum_bytes=minimum_bytes,
        cpus=cpus,
        sizes_bytes=sizes_bytes,
        spare_pages=spare_pages,
    )
    both.compare()
    for operation in operations:
        perform(both, operation)
        both.compare()
    both.run_dry()


def mixed_operations(seed: int, length: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield a long life in waves: some thousand operations that mostly allocate, then mostly free."""
    draws = random.Random(seed)
    for i in range(length):
        growing = i // 150 % 2 == 0
        what = draws.choices(
            ("allocate", "release", "release_bulk", "reap"),
            weights=(8 if growing else 3, 2 if growing else 5, 2, 1),
        )[0]
        which = draws.randrange(6) if what == "reap" else draws.randrange(98)
        yield what, draws.randrange(3), which, draws.choice(FEW_OR_MANY)


@pytest.mark.parametrize("cpus", [1, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_long_life(layout: str, cpus: int) -> None:
    both = Both(
        layout=layout,
        minimum_bytes=32,
        cpus=cpus,
        sizes_bytes=(24, 100, 200, 500, 3000, 5000),
        spare_pages=220,
    )
    length = 3000 if COMPILED else 500
    for i, operation in enumerate(mixed_operations(cpus, length)):
        perform(both, operation)
        both.compare(deeply=i % 25 == 0)
    both.run_dry()
    assert_all_paths_were_taken(both)


def assert_all_paths_were_taken(both: Both) -> None:
    taken: Counter[str] = Counter()
    for cache in both.spec.caches:
        taken.update(cache.counts)
    layout = LAYOUTS[both.layout]
    never = {"slabs_destroyed_locked"} if layout.late_rules else {"fresh_taken"}
    if both.cpus == 1:
        never |= {"shared_taken", "shared_given"}
    if all(cache.management_cache is None for cache in both.spec.caches):
        never |= {"managers_taken", "managers_given"}
    assert {name for name in COUNTERS if not taken[name]} == never


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_nearly_full_shared_array_takes_what_it_has_room_for(layout: str) -> None:
    both = Both(layout=layout, minimum_bytes=32, cpus=3, sizes_bytes=(128,), spare_pages=60)
    both.allocate(0, 0, 900)
    both.release(1, both.pick(0, 0, 720), 1)
    shared = both.spec.caches[0].shared
    assert len(shared.entries) == 480  # full: the last flush of 60 went to slabs
    both.allocate(2, 0, 1)  # by an idle array: takes 16
    both.compare()
    given = both.spec.caches[0].counts["shared_given"]
    both.release(1, both.pick(0, 0, 61), 1)
    assert both.spec.caches[0].counts["shared_given"] == given + 16
    both.compare()
    both.run_dry()


@pytest.mark.skipif(not COMPILED, reason="this is the interpreted run")
def test_the_same_with_the_interpreted_text() -> None:
    environment = os.environ | {"RCUSIM_JIT": "0", "RCUSIM_TEST_EXAMPLES": "8"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 skipped" in done.stdout
