from __future__ import annotations

import attrs
import pytest
from rich.console import Console

from rcusim.results.model import Result, Statistics
from rcusim.slab.dump import Finding, Verdict
from rcusim.views.table import (
    Grid,
    compare_grid,
    dump_grid,
    plain,
    reproduce_grid,
    result_grid,
    rich_table,
    scale,
)
from tests.results.samples import run
from tests.results.test_slabinfo import SERIES as SLABINFO

BEFORE, AFTER = run("baseline_kfree"), run("kfree_bulk")

TABLE = """\
sample, seed 1

                            unit  baseline_kfree  kfree_bulk   change
total time (rcuscale)       ms           341.000     301.000   -11.7%
batches (rcuscale)                            26          30   +15.4%
footprint (rcuscale)        MB               158         115   -27.2%
virtual time                ms           400.000     400.000    +0.0%
objects freed                            6144000     6144000    +0.0%
objects per second                      18017595    20411960   +13.3%
emergency list                                 0          90        -
in flight, peak                           400001      400001    +0.0%
grace periods                                 25          29   +16.0%
footprint, peak             MiB             81.8        86.9    +6.3%
footprint, mean             MiB             61.2        63.9    +4.5%
footprint, end              MiB             21.1        21.1    -0.2%
at peak: collecting_list    MiB             31.8         0.0  -100.0%
at peak: collecting_blocks  MiB              0.0        31.8        -
at peak: waiting_gp         MiB             50.0        50.0    +0.0%
at peak: block_pages        MiB              0.0         5.1        -
block fill, mean            %                  -        98.7        -
worker wake-ups                              120         120    +0.0%
worker wake-ups per second                   300         300    +0.0%
CPU: producer               s              2.000       2.000    +0.0%
CPU: worker                 ms           700.000     700.000    +0.0%
CPU: idle                   ms           500.000     500.000    +0.0%
freed by bulk                                  -     6143910        -
freed by list                            6144000          90  -100.0%

baseline_kfree, seed 1: Total time taken by all kfree'ers: 341000000 ns, loops: 2000, \
batches: 26, memory footprint: 158MB
kfree_bulk, seed 1: Total time taken by all kfree'ers: 301000000 ns, loops: 2000, \
batches: 30, memory footprint: 115MB
digest {digest}"""


def row(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(name))


def test_the_table_of_a_result() -> None:
    result = Result(scenario="sample", runs=(BEFORE, AFTER))
    assert plain(result_grid(result)) == TABLE.format(digest=result.digest)


def test_several_seeds_show_median_and_range() -> None:
    runs = [
        run(variant, seed) for variant in ("baseline_kfree", "kfree_bulk") for seed in (1, 2, 3)
    ]
    text = plain(result_grid(Result(scenario="sample", runs=tuple(runs))))
    assert text.startswith("sample, seeds 1 to 3: median [range]\n")
    cells = [cell.strip() for cell in row(text, "total time").split("  ") if cell.strip()]
    assert cells[2:] == ["342.000 [341.000 .. 343.000]", "302.000 [301.000 .. 303.000]", "-11.7%"]
    assert row(text, "batches").split()[-3:] == ["26", "30", "+15.4%"]
    assert text.count("Total time taken by all kfree'ers") == 6


@pytest.mark.parametrize("variants", [("a",), ("a", "b", "c")])
def test_only_two_variants_have_a_change(variants: tuple[str, ...]) -> None:
    grid = result_grid(Result(scenario="sample", runs=tuple(run(name) for name in variants)))
    assert grid.columns == ("", "unit", *variants)


def test_what_went_wrong_stands_below() -> None:
    bad = attrs.evolve(
        AFTER, complete=False, reason="out of memory", violations=("ledger violated at 3 ns: x",)
    )
    notes = result_grid(Result(scenario="sample", runs=(bad,))).notes
    assert notes[1:3] == (
        "kfree_bulk, seed 1: INCOMPLETE: out of memory",
        "kfree_bulk, seed 1: VIOLATED: ledger violated at 3 ns: x",
    )


def test_the_table_is_ascii() -> None:
    assert plain(result_grid(Result(scenario="sample", runs=(BEFORE, AFTER)))).isascii()
    assert plain(compare_grid(BEFORE, AFTER)).isascii()


def test_two_runs_side_by_side() -> None:
    text = plain(compare_grid(BEFORE, AFTER))
    lines = text.splitlines()
    assert lines[0].split("  ")[-3:] == ["sample baseline_kfree 1", "sample kfree_bulk 1", "ratio"]
    assert lines[1].split() == ["total", "time", "(rcuscale)", "ms", "341.000", "301.000", "0.882"]
    assert row(text, "block fill").split() == ["block", "fill,", "mean", "%", "-", "98.7", "-"]
    assert lines[-2:] == [f"digest {BEFORE.digest}", f"digest {AFTER.digest}"]


def test_published_numbers_beside_simulated_ones() -> None:
    rows: list[dict[str, object]] = [
        {
            "table": "kfree-bulk", "row": "kfree_bulk", "quantity": "total_ns", "unit": "ns",
            "published": 89947009882.0, "simulated": 91000000000.0, "error_pct": 1.1707,
            "kind": "predicted", "low": 90e9, "high": 92e9,
        },
        {
            "table": "kfree-bulk", "row": "ratio", "quantity": "footprint_mb", "unit": "",
            "published": 0.7278, "simulated": 0.7, "error_pct": -3.82, "kind": "predicted",
        },
        {
            "table": "kfree-bulk", "row": "x", "quantity": "y", "unit": "", "published": "SLAB",
            "simulated": "SLAB", "error_pct": None, "kind": "exact",
        },
    ]  # fmt: skip
    assert plain(reproduce_grid("kfree-bulk", rows, "scaled")) == (
        "kfree-bulk\n"
        "\n"
        "row         quantity      unit    published    simulated                       range"
        "  error  kind\n"
        "kfree_bulk  total_ns      ns    89947009882  91000000000  90000000000 .. 92000000000"
        "  +1.2%  predicted\n"
        "ratio       footprint_mb              0.728        0.700                            "
        "  -3.8%  predicted\n"
        "x           y                          SLAB         SLAB                            "
        "      -  exact\n"
        "\n"
        "scaled"
    )


def test_a_terminal_shows_the_same_cells() -> None:
    grid = Grid("t", ("", "unit", "a[b]"), (("x", "ms", "[red]1"),), ("note",))
    console = Console(width=60, record=True, force_terminal=False, file=None, quiet=False)
    with console.capture() as shown:
        console.print(rich_table(grid))
    text = shown.get()
    assert "a[b]" in text
    assert "[red]1" in text


@pytest.mark.parametrize(
    ("unit", "values", "expected"),
    [
        ("ns", [999], ("ns", 1, 0)),
        ("ns", [1000], ("us", 1000, 3)),
        ("ns", [None, -2_000_000], ("ms", 1_000_000, 3)),
        ("ns", [10**9, 5], ("s", 10**9, 3)),
        ("bytes", [1 << 20], ("MiB", 1 << 20, 1)),
        ("bytes", [], ("KiB", 1 << 10, 1)),
        ("permille", [987], ("%", 10, 1)),
        ("MB", [115], ("MB", 1, 0)),
    ],
)
def test_units_are_chosen_for_a_whole_row(
    unit: str, values: list[int | None], expected: tuple[str, int, int]
) -> None:
    assert scale(unit, values) == expected


def test_a_dump_beside_our_geometry_ends_with_a_summary() -> None:
    row = SLABINFO.at(0).rows[0]
    findings = (
        Finding(row=row, verdict=Verdict.AGREES, ours=((32, 1),)),
        Finding(
            row=attrs.evolve(row, objperslab=0), verdict=Verdict.UNDETERMINED, ours=(), why="?"
        ),
    )
    assert plain(dump_grid(findings, 2)).splitlines() == [
        "cache        objsize  objects  pages  ours  verdict       why",
        "kmalloc-128      128       32      1  32/1  agrees",
        "kmalloc-128      128        -      1     -  undetermined  ?",
        "",
        "2 caches: 1 agree, 0 disagree, 1 undetermined; 2 damaged lines",
    ]
    assert plain(dump_grid(())).endswith(
        "0 caches: 0 agree, 0 disagree, 0 undetermined; 0 damaged lines"
    )


def test_the_table_says_what_the_oracles_looked_at() -> None:
    counters = {"objects_checked": 500, "sections": 7, "recounts": 3}
    watched = attrs.evolve(BEFORE, statistics=Statistics(counters=counters))
    grid = result_grid(Result(scenario="x", runs=(watched, watched)))
    assert grid.notes[-2] == (
        "safety: 1000 frees checked against the ledger and 14 read-side sections, "
        "6 recounts of all memory, 0 violations"
    )
