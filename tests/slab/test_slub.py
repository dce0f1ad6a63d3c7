"""SLUB in small exact sequences; long ones are compared with a specification elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rcusim._jit import IntArray, integers
from rcusim.errors import PropertyViolation
from rcusim.formats.slabinfo import SlabinfoRow
from rcusim.slab.slub import FreelistOrder, Slub
from rcusim.slab.slub_layout import RULES
from tests.slab.rig import make_pages
from tests.slab.slub_rig import PRICES, make_slub

PAIRS = 10_000


def array_of(addresses: Iterable[int]) -> IntArray:
    values = list(addresses)
    array = integers(len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def allocate(slub: Slub, n: int, cpu: int = 0, cache: int = 0) -> list[int]:
    out = integers(n)
    got = slub.allocate(cpu, cache, n, out, 0)
    return [int(out[i]) for i in range(got)]


def release(slub: Slub, addresses: Iterable[int], cpu: int = 0) -> None:
    array = array_of(addresses)
    slub.release(cpu, array, 0, len(array), 1)


def release_bulk(slub: Slub, addresses: Iterable[int], cpu: int = 0) -> None:
    array = array_of(addresses)
    slub.release_bulk(cpu, array, 0, len(array))


def counted(slub: Slub, cache: int = 0) -> dict[str, int]:
    return {name: n for name, n in slub.counters(cache).items() if n}


def arm64(rules: str = "slub-6.18", cpus: int = 1) -> Slub:
    """Return kmalloc-128 alone: 32 objects of a page, five bits of index."""
    return make_slub(rules, [24], cpus=cpus, minimum_bytes=128)


@pytest.mark.parametrize("rules", RULES)
def test_objects_of_new_slabs_ascend(rules: str) -> None:
    slub = arm64(rules)
    assert allocate(slub, 70) == list(range(70))
    assert counted(slub) == {
        "allocated_fast": 67, "allocated_slow": 3, "refills": 3, "slabs_forgotten": 2,
        "slabs_new": 3, "lines_new": 96, "page_takes": 3,
    }  # fmt: skip
    assert slub.cpu_slab(0, 0) == 2
    assert slub.cpu_freelist(0, 0) == list(range(70, 96))


def test_the_freelist_of_a_cpu_is_a_stack() -> None:
    slub = arm64()
    first = allocate(slub, 3)
    release(slub, first)
    assert allocate(slub, 4) == [*first[::-1], 3]
    assert counted(slub)["freed_fast"] == 3


def test_prices_and_holds_of_single_operations() -> None:
    slub = arm64()
    allocate(slub, 1)
    fresh_ps = 1000 * (PRICES.refill_ns + PRICES.new_slab_ns) + 32 * PRICES.new_line_ps
    assert slub.price_ns == (fresh_ps + PRICES.alloc_fast_ps) // 1000
    some = [0, *allocate(slub, 31)]
    assert slub.price_ns == 31 * PRICES.alloc_fast_ps // 1000
    release(slub, some[:3])
    assert slub.price_ns == 3 * PRICES.free_fast_ps // 1000
    release_bulk(slub, some[3:7])
    assert slub.price_ns == (4 * PRICES.bulk_free_ps + PRICES.group_fast_ps) // 1000
    assert slub.held == []
    slub.reap(0, 10**9)
    assert slub.price_ns == 0


def test_a_full_slab_that_is_freed_to_goes_to_the_cpu_that_frees() -> None:
    slub = arm64("slub-3.18", cpus=2)
    some = allocate(slub, 64, cpu=0)
    release(slub, some[:2], cpu=1)
    assert slub.cpu_partial(0, 1) == [0]
    assert slub.price_ns == (2 * PRICES.free_slow_ps + 1000 * PRICES.slab_move_ns) // 1000
    # the slab of a CPU stays with it, whoever frees
    release(slub, some[32:34], cpu=1)
    assert slub.cpu_partial(0, 1) == [0]
    assert slub.cpu_slab(0, 0) == 1
    assert allocate(slub, 1, cpu=1) == [1]
    assert slub.cpu_slab(0, 1) == 0
    # and is reloaded when its freelist is empty
    assert allocate(slub, 2, cpu=0) == [33, 32]
    assert counted(slub)["slabs_reloaded"] == 1


@pytest.mark.parametrize(("rules", "listed"), [("slub-3.18", 31), ("slub-6.18", 8)])
def test_a_partial_list_of_a_cpu_is_drained_at_its_limit(rules: str, listed: int) -> None:
    slub = arm64(rules, cpus=2)
    some = allocate(slub, 40 * 32, cpu=0)
    firsts = some[::32]
    release(slub, firsts[:listed], cpu=1)
    assert slub.cpu_partial(0, 1) == list(range(listed))[::-1]
    assert list(slub.node_partial(0)) == []
    assert slub.held == []
    release(slub, firsts[listed : listed + 1], cpu=1)
    assert slub.cpu_partial(0, 1) == [listed]
    assert list(slub.node_partial(0)) == list(range(listed))[::-1]
    hold_ns = PRICES.list_lock_ns + listed * PRICES.node_move_ns
    assert [(lock.name, ns) for lock, ns in slub.held] == [("kmalloc-128/list_lock", hold_ns)]


def test_a_refill_from_the_node_gathers_half_of_a_partial_list() -> None:
    for rules, listed, taken in (("slub-3.18", 31, 16), ("slub-6.18", 8, 6)):
        slub = arm64(rules, cpus=3)
        some = allocate(slub, 40 * 32, cpu=0)
        release(slub, some[::32][: listed + 1], cpu=1)
        on_node = list(slub.node_partial(0))
        # 16 free objects, one a slab, exceed 30 / 2; 5 slabs besides the first exceed 8 / 2
        assert allocate(slub, 1, cpu=2) == [on_node[0] * 32]
        assert slub.cpu_partial(0, 2) == on_node[1:taken][::-1]
        assert list(slub.node_partial(0)) == on_node[taken:]


@pytest.mark.parametrize("rules", RULES)
def test_the_node_keeps_some_empty_slabs(rules: str) -> None:
    slub = arm64(rules)
    some = allocate(slub, 100 * 32)
    release(slub, some)
    assert len(list(slub.node_partial(0))) == 5
    kept = 5 + len(slub.cpu_partial(0, 0)) + 1
    assert slub.pages() == kept <= slub.drained_pages_most()
    assert counted(slub)["slabs_discarded"] == 100 - kept


def test_a_slab_of_the_node_that_becomes_empty_goes_when_there_are_enough() -> None:
    slub = arm64("slub-3.18", cpus=2)
    some = allocate(slub, 40 * 32, cpu=0)
    release(slub, some[::32][:32], cpu=1)  # 31 slabs are on the node now
    before = slub.pages()
    release(slub, some[1:31])
    assert slub.pages() == before
    release(slub, some[31:32])
    assert slub.pages() == before - 1
    assert [(lock.name, ns) for lock, ns in slub.held] == [
        ("kmalloc-128/list_lock", PRICES.list_lock_ns)
    ]
    assert counted(slub)["slabs_discarded"] == 1


@pytest.mark.parametrize("rules", RULES)
def test_bulk_free_looks_past_two_objects_of_other_slabs(rules: str) -> None:
    slub = arm64(rules)
    allocate(slub, 160)  # slabs a to e; the last is the CPU's
    a, b, c, e = 0, 32, 64, 128
    # from the end: e3, then b1 and c1 are passed over, e2, and a1 is the third
    release_bulk(slub, [e, a, e + 1, b, c, e + 2])
    assert counted(slub)["groups_fast"] == 2
    assert counted(slub)["bulk_freed"] == 6
    assert counted(slub)["groups_slow"] == 3
    assert slub.recount_objects() == 154
    assert sorted(slub.cpu_freelist(0, 0)) == [e, e + 1, e + 2]


def test_what_bulk_free_leaves_is_taken_in_the_order_of_the_release() -> None:
    # two objects are passed over: 5.4 leaves them where they are, 6.18 swaps the last to the front
    orders = []
    for rules in RULES:
        slub = arm64(rules)
        allocate(slub, 160)
        release_bulk(slub, [129, 0, 32, 128])
        orders.append(slub.cpu_partial(0, 0)[::-1])
        assert slub.cpu_freelist(0, 0)[:2] == [129, 128]
    assert orders == [[1, 0], [0, 1]]


def test_one_group_of_a_slab_is_one_exchange() -> None:
    slub = arm64(cpus=2)
    some = allocate(slub, 32, cpu=0)
    allocate(slub, 1, cpu=0)
    release_bulk(slub, some, cpu=1)
    assert counted(slub)["groups_slow"] == 1
    assert slub.slab_freelist(0) == some
    price_ps = 32 * PRICES.bulk_free_ps + PRICES.group_slow_ps + 1000 * PRICES.slab_move_ns
    assert slub.price_ns == price_ps // 1000


def test_bulk_allocation_is_all_or_nothing() -> None:
    pages = make_pages("compiled", 16, spare_pages=3)
    slub = make_slub("slub-6.18", [24], minimum_bytes=128, pages=pages)
    out = integers(100)
    assert slub.allocate_bulk(0, 0, 64, out, 0) == 64
    assert [int(out[i]) for i in range(64)] == list(range(64))
    assert slub.price_ns > 0
    assert slub.allocate_bulk(0, 0, 36, out, 0) == 0
    assert slub.handed_out_objects() == slub.recount_objects() == 64
    assert slub.allocate(0, 0, 36, out, 0) == 32


def test_without_pages_of_the_preferred_order_the_smallest_do() -> None:
    pages = make_pages("compiled", 16, spare_pages=7)
    slub = make_slub("slub-6.18", [1024], cpus=8, pages=pages)
    assert slub.caches[0].order == 3
    assert len(allocate(slub, 40)) == 28
    found = counted(slub)
    assert (found["slabs_new"], found["fallbacks"], found["page_refusals"]) == (7, 7, 9)
    row = slub.slabinfo_row(0)
    assert (row.num_objs, row.objperslab, row.pagesperslab) == (28, 32, 8)
    assert slub.pages() == slub.recount_pages() == 7


def test_requests_above_the_largest_cache_are_pages() -> None:
    slub = make_slub("slub-6.18", [16384, 8193, 100], cpus=2)
    assert [cache.name for cache in slub.caches] == ["kmalloc-128", "kmalloc-large-16384"]
    assert slub.cache_names == ("kmalloc-128",)
    large = slub.cache_of(9000)
    assert slub.object_bytes(large) == 16384
    some = allocate(slub, 3, cache=large)
    assert slub.price_ns == 3 * PRICES.large_alloc_ns
    assert slub.pages() == slub.recount_pages() == 12
    assert slub.recount_objects() == slub.handed_out_objects() == 3
    assert slub.handed_out_bytes() == 3 * 16384
    assert max(some) < slub.address_bound()
    small = allocate(slub, 1)
    assert [slub.cache_of_object(address) for address in (*some, *small)] == [1, 1, 1, 0]
    release(slub, some[:1])
    assert slub.price_ns == PRICES.large_free_ns
    release_bulk(slub, [*some[1:], *small])
    assert slub.pages() == 1
    assert counted(slub, large) == {"page_takes": 3, "large_taken": 3, "large_given": 3}
    assert slub.drained_pages_most() == 2 * (1 + 8) + 5
    with pytest.raises(ValueError, match="kmalloc-large-16384 is no cache"):
        slub.slabinfo_row(large)


def test_slabinfo_counts_as_free_what_the_node_has() -> None:
    slub = arm64("slub-3.18", cpus=2)
    some = allocate(slub, 40 * 32, cpu=0)
    release(slub, some[::32][:32], cpu=1)
    assert slub.slabinfo_row(0) == SlabinfoRow(
        name="kmalloc-128", active_objs=40 * 32 - 31, num_objs=40 * 32, objsize=128, objperslab=32,
        pagesperslab=1, limit=0, batchcount=0, sharedfactor=0, active_slabs=40, num_slabs=40,
        sharedavail=0,
    )  # fmt: skip


# -- random freelists ----------------------------------------------------------------------------------


def test_new_slabs_begin_in_a_random_order_at_a_random_place() -> None:
    order = FreelistOrder(sequence=tuple((7 * i) % 32 for i in range(32)), starts=(0, 5))
    slub = make_slub("slub-6.18", [128], freelist_random={"kmalloc-128": order})
    first = [7 * i % 32 for i in range(32)]
    assert allocate(slub, 32) == first
    assert allocate(slub, 32) == [32 + index for index in first[5:] + first[:5]]
    assert allocate(slub, 32) == [64 + index for index in first]


def test_a_drawn_order_depends_on_seed_and_name() -> None:
    orders = {
        FreelistOrder.drawn(seed, name, 32) for seed in (1, 2) for name in ("kmalloc-128", "other")
    }
    assert len(orders) == 4
    assert FreelistOrder.drawn(1, "other", 32) in orders
    assert all(order.sequence != tuple(range(32)) for order in orders)


def test_what_is_no_order_is_refused() -> None:
    with pytest.raises(ValueError, match="names every index of a slab once"):
        FreelistOrder(sequence=(0, 0, 1), starts=(0,))
    with pytest.raises(ValueError, match="begins at positions"):
        FreelistOrder(sequence=(0, 1), starts=(2,))
    with pytest.raises(ValueError, match="this world has no such cache"):
        make_slub("slub-6.18", [128], freelist_random={"other": FreelistOrder.drawn(1, "", 32)})
    with pytest.raises(ValueError, match="kmalloc-128: must have 32 objects"):
        make_slub(
            "slub-6.18", [128], freelist_random={"kmalloc-128": FreelistOrder.drawn(1, "", 9)}
        )


# -- the predicates of December 2014 -------------------------------------------------------------------

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
ALL = (PAIRS,) * len(SIZES)


def pair_frees(size_bytes: int, predicate: str, *, end_tokens: bool) -> tuple[int, int]:
    """Return the slow frees of 10,000 objects at once, and the fast ones of 10,000 pairs after."""
    slub = make_slub(
        "slub-3.18", [size_bytes], cpus=12, pages=make_pages("compiled", 256),
        predicate=predicate, end_tokens=end_tokens,
    )  # fmt: skip
    out = integers(PAIRS)
    assert slub.allocate(0, 0, PAIRS, out, 0) == PAIRS
    slub.release(0, out, 0, PAIRS, 1)
    slow = slub.counters(0)["freed_slow"]
    fast = slub.counters(0)["freed_fast"]
    for _ in range(PAIRS):
        slub.allocate(0, 0, 1, out, 0)
        slub.release(0, out, 0, 1, 1)
    return slow, slub.counters(0)["freed_fast"] - fast


@pytest.mark.parametrize(
    ("predicate", "end_tokens", "fast"),
    [
        ("page", True, ALL),
        ("same_slab_page", True, (0, 0, 0, 0, 0, 9985, 9985, 9985, PAIRS, PAIRS, PAIRS)),
        ("bound", True, ALL),
    ],
    ids=["page", "same_slab_page", "bound"],
)
def test_who_takes_the_fast_path(predicate: str, end_tokens: bool, fast: tuple[int, ...]) -> None:
    found = [pair_frees(size, predicate, end_tokens=end_tokens) for size in SIZES]
    assert tuple(pairs for _, pairs in found) == fast
    # freeing many at once cannot tell the predicates apart
    assert min(slow for slow, _ in found) >= PAIRS * 97 // 100


def test_the_window_without_end_tokens() -> None:
    # 16 slow frees of the slab at hand, which is then reloaded, its objects descending: fast once
    # the next object begins within 2 KiB
    found = [pair_frees(size, "same_slab_page", end_tokens=False)[1] for size in SIZES]
    assert found == [0, 0, 0, 0, 0, PAIRS - 16 - 23, PAIRS - 16 - 27, PAIRS - 16 - 29, 0, 0, 0]


@pytest.mark.parametrize(("predicate", "size"), [("same_slab_page", 256), ("bound", 128)])
def test_a_freelist_that_begins_with_the_first_object_is_not_ahead(
    predicate: str, size: int
) -> None:
    slub = make_slub("slub-3.18", [size], cpus=8, predicate=predicate, end_tokens=True)
    some = allocate(slub, 32)
    # the end token lies one byte behind the start of the slab, its first object does not
    release(slub, some[:3])
    assert counted(slub)["freed_fast"] == 1
    assert counted(slub)["freed_slow"] == 2
    assert slub.cpu_freelist(0, 0) == [0]
    assert slub.slab_freelist(0) == [2, 1]


# -- what is refused -----------------------------------------------------------------------------------


def test_an_address_in_no_slab_is_a_violation() -> None:
    slub = arm64()
    some = allocate(slub, 2)
    for wrong in (-5, 1 << 40, 32 * 1000):
        for free in (release, release_bulk):
            with pytest.raises(PropertyViolation, match=f"{wrong:#x} is freed and is no object"):
                free(slub, [wrong])
        with pytest.raises(PropertyViolation, match="no object of a slab"):
            slub.cache_of_object(wrong)
    with pytest.raises(PropertyViolation, match="no object of a slab"):
        release(slub, [some[0], -7, some[1]])
    assert slub.handed_out_objects() == 1
    with pytest.raises(PropertyViolation, match="-0x9 is freed"):
        release_bulk(slub, [some[1], -9])
    assert slub.handed_out_objects() == slub.recount_objects() == 1


def test_what_makes_no_allocator_is_refused() -> None:
    with pytest.raises(ValueError, match="predicate 'pages': must be one of page, same_slab_page"):
        make_slub("slub-3.18", [8], predicate="pages")
    with pytest.raises(ValueError, match=r"is of slub-3.18, not of slub-6.18"):
        make_slub("slub-6.18", [8], predicate="bound")
    with pytest.raises(ValueError, match="0 CPUs: must be at least 1"):
        make_slub("slub-6.18", [8], cpus=0)
    with pytest.raises(ValueError, match="request of 9 bytes: this world has no kmalloc-16"):
        make_slub("slub-6.18", [8]).cache_of(9)


def test_accounts_of_all_caches() -> None:
    slub = make_slub("slub-6.18", [8, 500], cpus=2)
    allocate(slub, 5, cache=slub.cache_of(8))
    allocate(slub, 3, cache=slub.cache_of(400))
    assert slub.handed_out_objects() == 8
    assert slub.handed_out_objects(1) == 3
    assert slub.handed_out_bytes() == 5 * 8 + 3 * 512
    assert slub.counters()["kmalloc-8/allocated_fast"] == 4
    assert [lock.name for lock in slub.locks()] == ["kmalloc-8/list_lock", "kmalloc-512/list_lock"]
    assert slub.pages() == slub.recount_pages() == 1 + 2
