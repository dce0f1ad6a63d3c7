"""Geometry of SLUB against a real machine, and against the tables of orders by size and CPUs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import attrs
import pytest

from rcusim.slab.slub_layout import (
    RULES,
    MergeTraits,
    class_of,
    classes,
    geometry,
    may_merge,
    merge_target,
    order_3_18,
    order_6_18,
    wanted_objects,
)

SIZES = (8, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)
# by CPUs: order and objects of the sizes above
TABLE = {
    (1,): "0,512 0,64 0,42 0,32 0,21 0,16 0,8 1,8 2,8 3,8 3,4",
    (2, 3): "0,512 0,64 0,42 0,32 0,21 0,16 1,16 2,16 3,16 3,8 3,4",
    (4, 7): "0,512 0,64 0,42 0,32 0,21 0,16 1,16 2,16 3,16 3,8 3,4",
    (8, 12, 15): "0,512 0,64 0,42 0,32 0,21 1,32 2,32 3,32 3,16 3,8 3,4",
    (16, 63): "0,512 0,64 0,42 0,32 1,42 1,32 2,32 3,32 3,16 3,8 3,4",
    (64, 127): "0,512 0,64 0,42 0,32 1,42 1,32 2,32 3,32 3,16 3,8 3,4",
}


def real_caches() -> list[dict[str, str]]:
    path = Path(__file__).parent / "data" / "slub_6_18_caches.csv"
    with path.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def agreeing(cpus: int) -> int:
    return sum(
        geometry("slub-6.18", int(row["slab_size"]), cpus).order == int(row["order"])
        for row in real_caches()
    )


@pytest.mark.parametrize("row", real_caches(), ids=lambda row: row["name"])
def test_a_cache_of_a_real_6_18_machine(row: dict[str, str]) -> None:
    found = geometry("slub-6.18", int(row["slab_size"]), cpus=2)
    assert found.order == int(row["order"])
    assert found.objects_per_slab == int(row["objs_per_slab"])
    assert found.min_partial == int(row["min_partial"])
    assert found.cpu_partial == int(row["cpu_partial"])


def test_the_real_machine_tells_numbers_of_cpus_apart() -> None:
    assert [agreeing(cpus) for cpus in (1, 2, 4, 8)] == [93, 118, 109, 82]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("cpus", TABLE)
def test_orders_by_size_and_cpus(rules: str, cpus: tuple[int, ...]) -> None:
    for number in cpus:
        shapes = [geometry(rules, size, number) for size in SIZES]
        found = " ".join(f"{shape.order},{shape.objects_per_slab}" for shape in shapes)
        assert found == TABLE[cpus]


def test_both_algorithms_differ_only_where_waste_decides() -> None:
    differing = [
        size
        for size in range(8, 8200, 8)
        for cpus in (1, 2, 8, 64)
        if order_3_18(size, cpus) != order_6_18(size, cpus)
    ]
    assert not set(differing) & set(classes(8))
    # rather than waste a quarter, 3.18 takes fewer objects than wanted; 6.18 does not
    for size in differing:
        assert size > 1024


@pytest.mark.parametrize("order_of", [order_3_18, order_6_18])
def test_objects_larger_than_the_preferred_orders(order_of: object) -> None:
    assert callable(order_of)
    assert [order_of(size, 4) for size in (32768, 32769, 65537, 4 << 20)] == [3, 4, 5, 10]
    with pytest.raises(ValueError, match="no slab holds an object of 4194305 bytes"):
        order_of((4 << 20) + 1, 4)


def test_objects_wanted() -> None:
    assert [wanted_objects(cpus) for cpus in (1, 3, 7, 15, 31, 63, 127)] == [
        8, 12, 16, 20, 24, 28, 32,
    ]  # fmt: skip


def test_limits_of_partial_lists() -> None:
    early = [geometry("slub-3.18", size, 12) for size in (128, 256, 1024, 4096)]
    assert [shape.cpu_partial_limit for shape in early] == [30, 13, 6, 2]
    late = [geometry("slub-6.18", size, 12) for size in (128, 256, 1024, 4096, 8192)]
    # 240, 104, 48, 12, 12 objects in slabs of 32, 32, 32, 8, 4
    assert [shape.cpu_partial_limit for shape in late] == [8, 4, 2, 2, 3]
    assert [shape.min_partial for shape in late] == [5, 5, 5, 6, 6]


def test_the_smallest_slab() -> None:
    shape = geometry("slub-6.18", 1024, 8)
    assert (shape.order, shape.objects_per_slab) == (3, 32)
    assert (shape.min_order, shape.min_objects) == (0, 4)
    shape = geometry("slub-6.18", 8192, 8)
    assert (shape.min_order, shape.min_objects) == (1, 1)


def test_classes_of_every_minimum() -> None:
    assert classes(32)[:6] == (32, 64, 96, 128, 192, 256)
    assert [class_of(24, minimum) for minimum in (8, 32, 128)] == [32, 32, 128]
    assert [class_of(size, 8) for size in (8, 9, 4 << 20)] == [8, 16, 4 << 20]
    with pytest.raises(ValueError, match="smallest kmalloc class 64: must be one of"):
        classes(64)
    with pytest.raises(ValueError, match="request of 0 bytes: must be at least 1"):
        class_of(0, 8)
    with pytest.raises(ValueError, match="SLUB serves at most 4194304"):
        class_of((4 << 20) + 1, 8)
    with pytest.raises(ValueError, match=r"rules 'slub-5': must be one of slub-3.18, slub-6.18"):
        geometry("slub-5", 8, 1)


# -- merging -------------------------------------------------------------------------------------------

KMALLOC_256 = MergeTraits(size_bytes=256)


def test_what_fits_within_a_word_is_merged() -> None:
    fitting = [
        size for size in range(200, 300) if may_merge(MergeTraits(size_bytes=size), KMALLOC_256)
    ]
    assert fitting == list(range(249, 257))
    # with alignment to a cache line a smaller object fills the same place
    aligned = [
        size
        for size in range(150, 300)
        if may_merge(MergeTraits(size_bytes=size, align_bytes=64), KMALLOC_256)
    ]
    assert aligned == list(range(193, 257))


def test_the_size_must_be_a_multiple_of_the_alignment() -> None:
    new = MergeTraits(size_bytes=64, align_bytes=64)
    assert may_merge(new, MergeTraits(size_bytes=64))
    assert not may_merge(new, MergeTraits(size_bytes=96))
    assert not may_merge(new, MergeTraits(size_bytes=72))


@pytest.mark.parametrize(
    "trait",
    [
        {"keep_apart": True},
        {"constructor": True},
        {"usersize_bytes": 8},
        {"sheaf_capacity": 32},
        {"same": frozenset({"account"})},
    ],
    ids=str,
)
def test_some_caches_stay_alone(trait: dict[str, Any]) -> None:
    special = attrs.evolve(KMALLOC_256, **trait)
    assert may_merge(KMALLOC_256, KMALLOC_256)
    assert not may_merge(special, KMALLOC_256)
    assert not may_merge(KMALLOC_256, special)
    alike = special.mergeable
    assert may_merge(special, special) == alike == ("same" in trait)


def test_classic_slab_compares_alignments_too() -> None:
    lined = MergeTraits(size_bytes=256, align_bytes=64)
    assert may_merge(lined, KMALLOC_256)
    assert not may_merge(lined, KMALLOC_256, classic=True)
    assert may_merge(KMALLOC_256, lined, classic=True)
    odd = MergeTraits(size_bytes=240, align_bytes=48)
    assert not may_merge(KMALLOC_256, odd, classic=True)
    # 48 is no multiple of 32, though large enough
    third = MergeTraits(size_bytes=96, align_bytes=32)
    assert may_merge(third, MergeTraits(size_bytes=96, align_bytes=48))
    assert not may_merge(third, MergeTraits(size_bytes=96, align_bytes=48), classic=True)


def test_which_of_several_is_found() -> None:
    caches = [KMALLOC_256, MergeTraits(size_bytes=128), KMALLOC_256]
    new = MergeTraits(size_bytes=252)
    assert merge_target(new, caches) == 2
    assert merge_target(new, caches, newest_first=False) == 0
    assert merge_target(MergeTraits(size_bytes=64), caches) is None
