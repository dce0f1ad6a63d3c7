from __future__ import annotations

import csv
from importlib import resources

import pytest

from rcusim.campaign import reproduce
from rcusim.campaign.slabinfo import drive, machine, published_row, simulated_lines
from rcusim.errors import InternalError
from rcusim.formats.slabinfo import SlabinfoRow

COLUMNS = [
    "objsize", "objperslab", "pagesperslab", "limit", "batchcount", "sharedfactor", "num_objs",
]  # fmt: skip


def tables() -> dict[str, list[SlabinfoRow]]:
    folder = resources.files("rcusim") / "campaign" / "published"
    found: dict[str, list[SlabinfoRow]] = {}
    for columns in csv.DictReader((folder / "slabinfo_joonsoo.csv").read_text().splitlines()):
        found.setdefault(columns["generation"], []).append(published_row(columns))
    return found


def test_there_are_24_rows_of_three_generations() -> None:
    assert {name: len(rows) for name, rows in tables().items()} == {
        "gen1_struct_slab": 8,
        "gen2_page_overlay": 8,
        "gen3_byte_index": 8,
    }
    first = tables()["gen1_struct_slab"][0]
    assert first.line == (
        "kmalloc-512          527    600    512    8    1"
        " : tunables   54   27    0 : slabdata     75     75      0"
    )


@pytest.mark.parametrize("generation", tables())
def test_whole_lines_come_back(generation: str) -> None:
    table = tables()[generation]
    lines = list(simulated_lines(generation, table))
    assert [line.simulated.line for line in lines] == [row.line for row in table]


def test_the_numbers_come_from_the_layout_simulated() -> None:
    # the slabs of one table in a machine of another generation: other numbers of objects
    table = tables()["gen1_struct_slab"]
    found = {
        line.published.name: line.simulated.num_objs
        for line in simulated_lines("gen3_byte_index", table)
    }
    assert found["kmalloc-32"] == 100 * 124
    assert found["kmalloc-256"] == 14 * 16
    assert found["kmalloc-512"] == 600


def test_objects_in_use_are_those_handed_out_and_those_with_management() -> None:
    slab = machine("gen1_struct_slab", ["kmalloc-512", "kmem_cache"])
    large, holder = slab.cache_names.index("kmalloc-512"), slab.cache_names.index("kmalloc-96")
    drive(slab, large, 75, 527)
    drive(slab, holder, 25, 750)
    assert slab.handed_out_objects(large) == slab.recount_objects(large) == 527
    # 75 slabs of kmalloc-512 have their descriptor and links of 80 bytes there
    assert slab.recount_objects(holder) == 750 - 75
    assert (slab.slabinfo_row(holder).active_objs, slab.slabinfo_row(large).active_objs) == (
        750,
        527,
    )


def test_more_slabs_than_memory_is_a_mistake_of_ours() -> None:
    slab = machine("gen2_page_overlay", ["kmalloc-64", "kmem_cache"])
    with pytest.raises(InternalError, match="no memory for 140000 slabs of kmalloc-64"):
        drive(slab, slab.cache_names.index("kmalloc-64"), 140_000, 1)


def test_the_table_is_exact() -> None:
    said: list[str] = []
    (table,) = reproduce.reproduce("slabinfo", progress=said.append)
    assert table.table == "slabinfo"
    assert table.how.endswith("that are equal: 24 of 24")
    assert len(said) == 3
    assert len(table.rows) == 24 * len(COLUMNS)
    assert {row.kind for row in table.rows} == {"exact"}
    assert {row.error_pct for row in table.rows} == {0.0}
    assert [row.quantity for row in table.rows[: len(COLUMNS)]] == COLUMNS
    assert all(row.published == row.simulated == row.low == row.high for row in table.rows)
    last = table.rows[-1]
    assert (last.row, last.quantity, last.published) == (
        "gen3_byte_index kmem_cache", "num_objs", 210,
    )  # fmt: skip


def test_an_error_against_a_published_zero_has_no_percentage() -> None:
    assert reproduce._error_pct(0, 0) == 0.0
    assert reproduce._error_pct(0, 8) is None
    assert reproduce._error_pct(30, 31) == pytest.approx(3.333, abs=1e-3)
