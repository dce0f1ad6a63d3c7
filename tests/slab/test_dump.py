"""Real dumps beside our geometry."""

from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path

import attrs
import pytest

from rcusim.campaign.slabinfo import published_row
from rcusim.formats.slabinfo import SlabinfoRow, parse
from rcusim.slab.dump import SLAB_LAYOUTS, Finding, Verdict, check_dump, totals


def row(name: str, objsize: int, objperslab: int, pagesperslab: int = 1) -> SlabinfoRow:
    return SlabinfoRow(
        name=name,
        active_objs=0,
        num_objs=0,
        objsize=objsize,
        objperslab=objperslab,
        pagesperslab=pagesperslab,
        limit=120,
        batchcount=60,
        sharedfactor=0,
        active_slabs=0,
        num_slabs=0,
        sharedavail=0,
    )


def checked(allocator: str, *rows: SlabinfoRow) -> list[Finding]:
    return list(check_dump(rows, allocator, 1))


def verdicts(allocator: str, *rows: SlabinfoRow) -> list[str]:
    return [str(finding.verdict) for finding in checked(allocator, *rows)]


def published(generation: str) -> list[SlabinfoRow]:
    folder = resources.files("rcusim") / "campaign" / "published"
    lines = (folder / "slabinfo_joonsoo.csv").read_text().splitlines()
    return [
        published_row(columns)
        for columns in csv.DictReader(lines)
        if columns["generation"] == generation
    ]


RECORDED = Path(__file__).parents[1] / "formats" / "data" / "slabinfo_6_18_half.txt"
GENERATIONS = ("gen1_struct_slab", "gen2_page_overlay", "gen3_byte_index")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_each_published_table_agrees_with_its_own_generation_alone(generation: str) -> None:
    for allocator, layout in SLAB_LAYOUTS.items():
        found = totals(check_dump(published(generation), allocator, 1))
        own = layout == generation
        assert (found[Verdict.AGREES] == 8) == own
        assert (found[Verdict.DISAGREES] == 0) == own
        assert found[Verdict.UNDETERMINED] == 0


def test_what_disagrees_is_named_with_what_we_expect() -> None:
    found = check_dump(published("gen2_page_overlay"), "slab-gen1", 1)
    assert {finding.row.name: finding.ours for finding in found if finding.verdict != "agrees"} == {
        "kmalloc-96": ((30, 1),),
        "kmalloc-128": ((30, 1),),
        "kmalloc-64": ((59, 1),),
        "kmalloc-32": ((112, 1),),
    }


def test_a_size_before_alignment_that_decides_leaves_it_open() -> None:
    # 128 bytes wanted go off-slab and fill the page; 72 bytes aligned to 64 keep the index inside
    either = checked("slab-gen3", row("x", 128, 31), row("x", 128, 32))
    assert [finding.verdict for finding in either] == [Verdict.UNDETERMINED] * 2
    assert either[0].ours == ((31, 1), (32, 1))
    assert "size before alignment" in either[0].why
    assert verdicts("slab-gen3", row("x", 128, 30), row("x", 128, 31, 2)) == ["disagrees"] * 2
    # the name tells the size, and which cache boots the allocator
    assert verdicts("slab-gen3", row("kmalloc-96", 128, 31), row("kmalloc-128", 128, 31)) == [
        "agrees", "agrees",
    ]  # fmt: skip
    assert verdicts("slab-gen3", row("kmalloc-64", 64, 63), row("dma-kmalloc-128", 128, 32)) == [
        "agrees", "agrees",
    ]  # fmt: skip


def test_a_size_that_is_no_multiple_of_16_has_one_alignment() -> None:
    assert verdicts("slab-gen2", row("x", 104, 37)) == ["agrees"]
    assert verdicts("slab-gen2", row("x", 104, 38)) == ["disagrees"]


def test_caches_that_must_not_need_others_keep_their_management() -> None:
    assert verdicts("slab-gen3", row("x", 256, 16), row("kmemleak_object", 256, 15)) == [
        "undetermined", "agrees",
    ]  # fmt: skip
    assert verdicts("slab-gen3", row("kmem_cache", 256, 15), row("kmem_cache", 256, 16)) == [
        "agrees", "disagrees",
    ]  # fmt: skip
    assert verdicts("slab-gen3", row("kmem_cache_node", 200, 20), row("kmalloc-256", 256, 15)) == [
        "agrees", "disagrees",
    ]  # fmt: skip


def test_reclaimable_caches_may_waste_more() -> None:
    # 1472 bytes: two in a page waste a quarter, so that others take two pages for five
    assert checked("slab-gen2", row("x", 1472, 5, 2))[0].ours == ((2, 1), (5, 2))
    assert verdicts("slab-gen2", row("x", 1472, 2), row("x", 1472, 5, 2)) == ["undetermined"] * 2
    # a name says it: 8 of a page either way
    assert verdicts("slab-gen4", row("kmalloc-rcl-512", 512, 8)) == ["agrees"]
    assert verdicts("slab-gen4", row("kmalloc-1k", 1024, 4), row("kmalloc-4M", 1 << 22, 1, 1024)) == [
        "agrees", "agrees",
    ]  # fmt: skip


def test_the_smallest_class_is_read_off_the_dump() -> None:
    # with 128 bytes at least, kmalloc-256 is aligned to 128 and its index takes as much
    small, large = row("kmalloc-64", 64, 60), row("kmalloc-256", 256, 15)
    assert verdicts("slab-gen2", small, large) == ["agrees", "agrees"]
    assert verdicts("slab-gen2", large) == ["agrees"]
    # classes of both kinds in one dump: nobody's kernel, so either is tried
    assert verdicts("slab-gen2", row("kmalloc-8", 8, 300), row("kmalloc-128", 128, 31)) == [
        "disagrees", "agrees",
    ]  # fmt: skip


@pytest.mark.parametrize("allocator", SLAB_LAYOUTS)
def test_what_a_dump_does_not_hold_is_undetermined(allocator: str) -> None:
    debug, odd, empty, old, huge = checked(
        allocator,
        row("kmalloc-64", 88, 44),
        row("odd", 100, 40),
        row("nothing", 0, 40),
        row("of version 1.1", 104, 0),
        row("huge", 1 << 40, 1),
    )
    for finding in (debug, odd, empty, huge):
        assert finding.verdict is Verdict.UNDETERMINED
        assert finding.ours == ()
        assert "debugging" in finding.why
    assert (old.verdict, old.why) == (Verdict.UNDETERMINED, "no objects per slab in the dump")


def test_a_verdict_does_not_depend_on_counts_or_tunables() -> None:
    full = attrs.evolve(row("kmalloc-64", 64, 63), active_objs=63, num_objs=63, limit=1)
    assert verdicts("slab-gen3", full) == ["agrees"]


def test_totals_name_every_verdict() -> None:
    assert totals(()) == dict.fromkeys(Verdict, 0)


def test_unusable_options_are_refused() -> None:
    with pytest.raises(ValueError, match="allocator 'slob'"):
        check_dump((), "slob", 1)
    with pytest.raises(ValueError, match="0 CPUs"):
        check_dump((), "slab-gen1", 0)


def test_a_recorded_dump_of_slub_agrees_with_the_machine_it_is_from() -> None:
    rows = parse(RECORDED.read_text()).rows
    agreeing = {
        (allocator, cpus): totals(check_dump(rows, allocator, cpus))[Verdict.AGREES]
        for allocator in ("slub-3.18", "slub-6.18")
        for cpus in (1, 2, 4, 8)
    }
    assert [agreeing["slub-6.18", cpus] for cpus in (1, 2, 4, 8)] == [93, 118, 109, 82]
    assert agreeing["slub-3.18", 2] > 100
    for allocator in SLAB_LAYOUTS:
        assert totals(check_dump(rows[:30], allocator, 2))[Verdict.DISAGREES] > 10


def test_slub_has_one_shape_for_a_size_and_a_number_of_cpus() -> None:
    rows = [row("a", 256, 16), row("b", 256, 32, 2)]
    for allocator in ("slub-3.18", "slub-6.18"):
        few, many = check_dump(rows, allocator, 4), check_dump(rows, allocator, 8)
        assert [str(finding.verdict) for finding in few] == ["agrees", "disagrees"]
        assert [str(finding.verdict) for finding in many] == ["disagrees", "agrees"]
        assert {finding.ours for finding in many} == {((32, 2),)}


@pytest.mark.parametrize("allocator", ["slub-3.18", "slub-6.18"])
def test_what_slub_cannot_hold_is_undetermined(allocator: str) -> None:
    empty, huge, old = checked(
        allocator, row("nothing", 0, 40), row("huge", 1 << 40, 1), row("of version 1.1", 104, 0)
    )
    assert {finding.verdict for finding in (empty, huge, old)} == {Verdict.UNDETERMINED}
    assert (empty.ours, huge.ours, old.ours) == ((), (), ((39, 1),))
