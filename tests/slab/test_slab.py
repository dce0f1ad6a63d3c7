"""The allocator in small exact sequences; long ones are compared with a specification elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rcusim._jit import IntArray, integers
from rcusim.errors import PropertyViolation
from rcusim.slab import kernel
from rcusim.slab.slab import COUNTERS, Slab, SlabinfoRow
from tests.slab.rig import PRICES, make_pages, make_slab

SECOND_NS = 1_000_000_000


def down(first: int, last: int) -> list[int]:
    return list(range(first, last - 1, -1))


def allocate(slab: Slab, n: int, cpu: int = 0, cache: int = 0) -> list[int]:
    out = integers(n)
    got = slab.allocate(cpu, cache, n, out, 0)
    return [int(out[i]) for i in range(got)]


def array_of(addresses: Iterable[int]) -> IntArray:
    values = list(addresses)
    array = integers(len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def release(slab: Slab, addresses: Iterable[int], cpu: int = 0) -> None:
    array = array_of(addresses)
    slab.release(cpu, array, 0, len(array), 1)


def held(slab: Slab) -> list[tuple[str, int]]:
    return [(lock.name, hold_ns) for lock, hold_ns in slab.held]


def counted(slab: Slab, cache: int = 0) -> dict[str, int]:
    return {name: n for name, n in slab.counters(cache).items() if n and name in COUNTERS}


def arm64(cpus: int = 1) -> Slab:
    """Return gen 4 with kmalloc-128 alone: 32 objects of a page, five bits of index."""
    return make_slab("gen4_objfreelist", [24], cpus=cpus, minimum_bytes=128)


def test_first_objects_of_gen_4() -> None:
    slab = arm64()
    # an idle array asks for 16, a touched one for 60 but stops at the end of a new slab
    assert allocate(slab, 100) == [
        *down(15, 0), *down(31, 16), *down(63, 32), *down(95, 64), *down(127, 124),
    ]  # fmt: skip
    assert counted(slab) == {
        "allocated": 100, "refills": 5, "list_locks": 5, "slab_taken": 16, "fresh_taken": 112,
        "slab_visits": 1, "slabs_new": 4, "page_takes": 4,
    }  # fmt: skip


def test_first_objects_of_gen_1() -> None:
    slab = make_slab("gen1_struct_slab", [128])
    assert allocate(slab, 46) == [*down(15, 0), *down(29, 16), *down(61, 46)]
    # two more locks for each slab (colour, list), one more for the refill after it
    assert counted(slab) == {
        "allocated": 46, "refills": 3, "list_locks": 3 + 2 * 3, "slab_taken": 60,
        "slab_visits": 3, "slabs_new": 2, "page_takes": 2,
    }  # fmt: skip


def test_an_array_is_a_stack() -> None:
    slab = arm64()
    first = allocate(slab, 3)
    release(slab, first)
    assert allocate(slab, 3) == first[::-1]


def test_prices_and_holds_of_single_operations() -> None:
    slab = arm64()
    allocate(slab, 1)
    fresh_ps = 1000 * (PRICES.refill_ns + PRICES.page_take_ns + PRICES.new_slab_ns)
    fresh_ps += 16 * PRICES.refill_object_ps + PRICES.alloc_hit_ps + 1000 * PRICES.list_lock_ns
    assert slab.price_ns == fresh_ps // 1000
    assert held(slab) == [("kmalloc-128/list_lock", PRICES.list_lock_ns)]
    some = allocate(slab, 7)
    assert slab.price_ns == 7 * PRICES.alloc_hit_ps // 1000
    assert held(slab) == []
    release(slab, some[:3])
    assert slab.price_ns == 3 * PRICES.free_hit_ps // 1000
    slab.release_bulk(0, array_of(some[3:]), 0, 4)
    assert slab.price_ns == 4 * PRICES.bulk_free_hit_ps // 1000
    slab.release(0, array_of([]), 0, 0, 1)
    assert slab.price_ns == 0


def test_a_flush_to_slabs_holds_the_lock() -> None:
    slab = arm64()
    some = allocate(slab, 128)
    release(slab, some[:120])
    release(slab, some[120:121])
    locked_ps = 1000 * PRICES.list_lock_ns + 60 * PRICES.flush_object_ps
    assert slab.price_ns == (1000 * PRICES.flush_ns + locked_ps + PRICES.free_hit_ps) // 1000
    assert held(slab) == [("kmalloc-128/list_lock", locked_ps // 1000)]
    assert slab.slabinfo_row(0).active_objs == 128 - 60


def test_directions_of_freeing() -> None:
    there, back = arm64(), arm64()
    ten = allocate(there, 10)
    assert allocate(back, 10) == ten
    spread = array_of(address for one in ten for address in (one, -99))
    there.release(0, spread, 0, 10, 2)
    back.release(0, array_of(ten), 9, 10, -1)
    assert allocate(there, 10) == ten[::-1]
    assert allocate(back, 10) == ten


def test_a_second_cpu_hands_objects_over_through_the_shared_array() -> None:
    slab = arm64(cpus=2)
    some = allocate(slab, 128, cpu=0)
    release(slab, some[:121], cpu=1)
    assert slab.slabinfo_row(0).sharedavail == 60
    # the oldest 60 were handed over; of these CPU 0 takes the newest first
    assert allocate(slab, 60, cpu=0) == some[:60][::-1]
    assert counted(slab)["shared_taken"] == counted(slab)["shared_given"] == 60
    assert "slab_given" not in counted(slab)


def test_a_nearly_full_shared_array_takes_what_it_has_room_for() -> None:
    slab = arm64(cpus=3)
    some = allocate(slab, 721, cpu=0)
    release(slab, some[:720], cpu=1)
    # ten flushes: eight fill the shared array, two go to slabs
    assert slab.slabinfo_row(0).sharedavail == 480
    assert counted(slab)["slab_given"] == 120
    newest = some[479]
    assert allocate(slab, 1, cpu=2) == [newest]  # the array was idle: 16 are taken
    release(slab, some[720:], cpu=1)
    assert slab.slabinfo_row(0).sharedavail == 480
    assert counted(slab)["slab_given"] == 120
    assert counted(slab)["shared_given"] == 480 + 16


def test_empty_slabs_above_the_free_limit_are_given_back() -> None:
    slab = arm64()
    some = allocate(slab, 1024)
    assert slab.pages() == 32
    release(slab, some)
    # 16 flushes leave 64 objects in the array, which keep two slabs; 4 free slabs of 32 are within
    # the limit of 2 * 60 + 32, a fifth would not be
    assert slab.pages() == 2 + 4
    assert slab.handed_out_objects() == slab.recount_objects() == 0
    assert slab.pages() == slab.recount_pages() == slab._pages.given_pages
    assert counted(slab)["slabs_destroyed"] == 32 - slab.pages()


@pytest.mark.parametrize("layout", ["gen3_byte_index", "gen4_objfreelist"])
def test_destroying_under_the_lock_is_a_matter_of_release(layout: str) -> None:
    slab = make_slab(layout, [128])
    release(slab, allocate(slab, 1024))
    counts = slab.counters(0)
    under_lock = counts["slabs_destroyed"] if layout == "gen3_byte_index" else 0
    assert counts["slabs_destroyed"] > 0
    assert counts["slabs_destroyed_locked"] == under_lock


def test_an_idle_array_shrinks_by_halves_and_its_slab_goes() -> None:
    slab = arm64()
    release(slab, allocate(slab, 1))
    parked = []
    for _ in range(7):
        parked.append(slab.slabinfo_row(0).active_objs)
        slab.reap(0, 2 * SECOND_NS)  # the node's turn is not before 4 s
    assert parked == [16, 16, 8, 4, 2, 1, 0]
    assert slab.pages() == 1
    slab.reap(0, 4 * SECOND_NS)
    assert slab.pages() == 0
    assert counted(slab)["drains"] == 5
    assert counted(slab)["reaps"] == 8


def test_the_shared_array_is_reaped_every_four_seconds() -> None:
    slab = arm64(cpus=2)
    some = allocate(slab, 256)
    release(slab, some[:241], cpu=1)
    shared = []
    for now_s in (2, 4, 6, 8, 10, 12):
        slab.reap(0, now_s * SECOND_NS)
        shared.append(slab.slabinfo_row(0).sharedavail)
    # a fifth of its limit of 480, then half of what is left
    assert shared == [180, 84, 84, 42, 42, 21]


def test_when_memory_runs_out_fewer_are_had() -> None:
    pages = make_pages("compiled", 16, spare_pages=2)
    slab = make_slab("gen4_objfreelist", [24], minimum_bytes=128, pages=pages)
    some = allocate(slab, 100)
    assert len(some) == 64
    assert counted(slab)["page_refusals"] == 1
    assert allocate(slab, 1) == []
    assert slab.price_ns == PRICES.refill_ns + PRICES.page_take_ns
    release(slab, some[:5])
    assert allocate(slab, 9) == some[:5][::-1]
    assert slab.counters(0)["alloc_hits"] == 69 - 3


def test_a_slab_whose_management_cannot_be_had_gives_its_page_back() -> None:
    pages = make_pages("compiled", 16, spare_pages=1)
    slab = make_slab("gen1_struct_slab", [4096], pages=pages)
    before = pages.free_pages
    cache = slab.cache_of(4096)
    assert allocate(slab, 3, cache=cache) == []
    assert pages.free_pages == before
    assert slab.pages() == slab.recount_pages() == 0
    assert counted(slab, cache) == {
        "refills": 1, "list_locks": 2, "page_takes": 1, "page_gives": 1,
    }  # fmt: skip
    assert slab.counters(0)["page_refusals"] == 1


def test_management_objects_are_not_handed_out() -> None:
    slab = make_slab("gen1_struct_slab", [4096])
    cache = slab.cache_of(4096)
    some = allocate(slab, 100, cache=cache)
    assert slab.cache_names == ("kmalloc-64", "kmalloc-4096")
    assert slab.counters(0)["managers_taken"] == 100
    assert [slab.handed_out_objects(number) for number in (0, 1)] == [0, 100]
    assert [slab.recount_objects(number) for number in (0, 1)] == [0, 100]
    assert slab.handed_out_bytes() == 100 * 4096
    assert slab.pages() == 100 + 2
    release(slab, some)
    assert slab.handed_out_bytes() == 0
    in_use = slab.counters(0)["managers_taken"] - slab.counters(0)["managers_given"]
    assert in_use == slab.slabinfo_row(cache).num_slabs == slab._managers_in_use(0)


def test_objects_of_several_caches_in_one_release() -> None:
    slab = make_slab("gen4_objfreelist", [32, 500])
    small, large = slab.cache_of(30), slab.cache_of(512)
    mixed = [*allocate(slab, 20, cache=small), *allocate(slab, 10, cache=large)]
    assert slab.handed_out_bytes() == 20 * 32 + 10 * 512
    assert [slab.cache_of_object(address) for address in mixed] == [small] * 20 + [large] * 10
    order = [mixed[i * 7 % 30] for i in range(30)]
    slab.release_bulk(0, array_of(order), 0, 30)
    assert [slab.counters(cache)["bulk_freed"] for cache in (small, large)] == [20, 10]
    assert slab.handed_out_bytes() == 0
    own = [address for address in order if address in mixed[:20]]
    assert allocate(slab, 20, cache=small) == own[::-1]


# rows of the published tables in which every slab is full
PUBLISHED = {
    ("gen1_struct_slab", 256): (210, 256, 15, 14),
    ("gen1_struct_slab", 192): (1040, 192, 20, 52),
    ("gen1_struct_slab", 96): (750, 128, 30, 25),
    ("gen1_struct_slab", 64): (2773, 64, 59, 47),
    ("gen2_page_overlay", 256): (210, 256, 15, 14),
    ("gen3_byte_index", 256): (208, 256, 16, 13),
    ("gen3_byte_index", 192): (1029, 192, 21, 49),
    ("gen3_byte_index", 64): (2142, 64, 63, 34),
}


@pytest.mark.parametrize(("layout", "size"), PUBLISHED)
def test_published_slabinfo_rows_come_back(layout: str, size: int) -> None:
    objects, object_bytes, per_slab, slabs = PUBLISHED[layout, size]
    slab = make_slab(layout, [size])
    cache = slab.cache_of(size)
    allocate(slab, objects, cache=cache)
    assert slab.slabinfo_row(cache) == SlabinfoRow(
        name=f"kmalloc-{size}",
        active_objs=objects,
        num_objs=objects,
        objsize=object_bytes,
        objperslab=per_slab,
        pagesperslab=1,
        limit=120,
        batchcount=60,
        sharedfactor=0,
        active_slabs=slabs,
        num_slabs=slabs,
        sharedavail=0,
    )


def test_pages_that_others_took_in_between_do_not_matter() -> None:
    pages = make_pages("compiled", 16)
    slab = make_slab("gen4_objfreelist", [128], pages=pages)
    some = allocate(slab, 40)
    others = [pages.take_nowait() for _ in range(2000)]
    some += allocate(slab, 40)
    assert max(some) < slab.address_bound() == pages.frames << 5
    assert not {address >> 5 for address in some} & set(others)
    release(slab, some)
    assert slab.recount_objects() == 0


@pytest.mark.parametrize("address", [-1, -(1 << 40), 1 << 5, 1 << 50])
def test_what_is_no_object_cannot_be_freed(address: int) -> None:
    slab = arm64()
    some = allocate(slab, 3)
    with pytest.raises(PropertyViolation, match="is freed and is no object of a slab") as caught:
        release(slab, [some[0], address, some[1]])
    assert caught.value.rule == "slab"
    assert slab.handed_out_objects() == slab.recount_objects() == 2
    with pytest.raises(PropertyViolation, match="no object"):
        slab.cache_of_object(address)


def test_an_object_of_a_slab_that_is_gone_cannot_be_freed() -> None:
    slab = arm64()
    some = allocate(slab, 1024)
    release(slab, some)
    gone = next(address for address in some if not slab.rows[_row(slab, address) + kernel.OWNER])
    with pytest.raises(PropertyViolation, match=f"{gone:#x} is freed"):
        release(slab, [gone])


def _row(slab: Slab, address: int) -> int:
    return ((address >> 5) + int(slab.words[kernel.SENTINELS])) * kernel.ROW


def test_a_request_for_which_no_cache_was_made() -> None:
    slab = arm64()
    assert slab.cache_of(128) == slab.cache_of(1) == 0
    assert slab.object_bytes(0) == 128
    with pytest.raises(ValueError, match="this world has no kmalloc-256"):
        slab.cache_of(129)


@pytest.mark.parametrize(
    ("layout", "cpus", "what"),
    [("gen5", 1, "slab layout 'gen5': must be one of gen1_struct_slab"), ("gen1_struct_slab", 0, "0 CPUs")],
)  # fmt: skip
def test_a_world_that_cannot_be(layout: str, cpus: int, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        make_slab(layout, [24], cpus=cpus)


def test_reports() -> None:
    slab = make_slab("gen1_struct_slab", [512], cpus=2)
    assert [lock.name for lock in slab.locks()] == ["kmalloc-96/list_lock", "kmalloc-512/list_lock"]
    assert slab.counters() == {}
    release(slab, allocate(slab, 2, cache=1))
    found = slab.counters()
    assert found["kmalloc-512/allocated"] == found["kmalloc-512/freed"] == 2
    assert found["kmalloc-512/alloc_hits"] == 1
    assert found["kmalloc-512/free_hits"] == 2
    assert found["kmalloc-96/managers_taken"] == found["kmalloc-512/slabs_new"] == 1
