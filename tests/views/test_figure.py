from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from rcusim.errors import ScenarioError
from rcusim.results.model import PARTS
from rcusim.results.series import SeriesBuilder
from rcusim.views.figure import COARSE_COLUMNS, STYLES, columns_of, draw, footprint_figure
from tests.results.samples import run, series

BEFORE, AFTER = run("baseline_kfree"), run("kfree_bulk")


def legend_of(*runs: str) -> list[str]:
    figure = footprint_figure([run(variant) for variant in runs])
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_every_part_has_a_look_of_its_own() -> None:
    assert set(STYLES) == set(PARTS)
    assert len({look.colour for look in STYLES.values()}) == len(PARTS)
    assert len({look.label for look in STYLES.values()}) == len(PARTS)


def test_panels_share_scale_and_name_their_units() -> None:
    figure = footprint_figure([BEFORE, AFTER])
    first, second = figure.axes
    assert first.get_title(loc="left") == "baseline_kfree, seed 1"
    assert first.get_title(loc="right") == "25 grace periods"
    assert second.get_title(loc="right") == "29 grace periods; 90 objects on emergency lists"
    assert first.get_ylabel() == second.get_ylabel() == "memory given out\n(MiB)"
    assert second.get_xlabel() == "virtual time (ms)"
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[1] > AFTER.footprint.peak_bytes / 2**20
    assert first.get_xlim() == second.get_xlim() == (0, 400)
    assert [text.get_text() for text in second.texts] == ["peak 86.9 MiB"]


def test_the_legend_lists_what_occurs_from_the_top_of_the_stack_down() -> None:
    lists = [
        "slab slack",
        "waiting for a worker",
        "waiting for a grace period",
        "collecting: lists",
    ]
    rest = ["total, maximum", "end of a grace period"]
    assert legend_of("baseline_kfree") == [*lists, *rest]
    assert "no page for a block" in legend_of("kfree_bulk")
    assert "collecting: blocks" in legend_of("kfree_bulk")


def test_the_stack_adds_up_to_the_total() -> None:
    columns = columns_of(AFTER.series)
    assert not columns.averaged
    totals = [sum(sizes) for sizes in zip(*columns.parts_bytes.values(), strict=True)]
    for at_ns, total in zip(columns.at_ns[:-1], totals[:-1], strict=True):
        index = at_ns // AFTER.series.bin_ns
        assert AFTER.series.min_bytes[index] <= total <= AFTER.series.max_bytes[index]
    assert columns.edges_ns[0] == 0
    assert columns.edges_ns[-1] == columns.at_ns[-1] == AFTER.series.end_ns
    assert max(columns.max_bytes) == AFTER.footprint.peak_bytes


def test_many_grace_periods_make_columns_coarse() -> None:
    long = attrs.evolve(AFTER, series=series(length_ms=2000, load_ms=1800))
    columns = columns_of(long.series)
    assert columns.averaged
    assert len(columns.max_bytes) <= COARSE_COLUMNS + 1
    assert max(columns.max_bytes) == long.footprint.peak_bytes
    panel = footprint_figure([long]).axes[0]
    assert panel.get_title(loc="right").endswith(f"means over {columns.width_ns / 1e6:.3g} ms")
    assert panel.get_xlabel() == "virtual time (s)"


def test_a_run_in_which_nothing_happened_can_be_drawn(tmp_path: Path) -> None:
    empty = attrs.evolve(AFTER, series=SeriesBuilder().finish(0))
    assert draw([empty], tmp_path / "empty.png").stat().st_size > 0


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_runs_make_the_same_file(tmp_path: Path, suffix: str) -> None:
    first = draw([BEFORE, AFTER], tmp_path / f"a{suffix}")
    second = draw([BEFORE, AFTER], tmp_path / "below" / f"b{suffix}")
    content = first.read_bytes()
    assert content == second.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{suffix}", "below"]


def test_an_unknown_extension_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"must end in \.png or \.svg"):
        draw([BEFORE], tmp_path / "a.jpeg")


@pytest.mark.parametrize("count", [0, 13])
def test_a_figure_holds_so_many_runs(tmp_path: Path, count: int) -> None:
    with pytest.raises(ScenarioError, match=f"1 to 12 runs, not {count}"):
        draw([BEFORE] * count, tmp_path / "a.png")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match="cannot be written"):
        draw([BEFORE], tmp_path / "file" / "a.png")
    (tmp_path / "a.png").mkdir()
    with pytest.raises(ScenarioError, match="cannot be written"):
        draw([BEFORE], tmp_path / "a.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "file"]
