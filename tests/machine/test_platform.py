from __future__ import annotations

from pathlib import Path

import pytest

from rcusim.errors import ScenarioError
from rcusim.machine import platform


@pytest.mark.parametrize("name", platform.names())
def test_every_price_of_a_shipped_platform_says_where_it_comes_from(name: str) -> None:
    board = platform.load(name)
    assert board.description
    assert len(board.notes) > 30
    for note in board.notes:
        assert note.kind in platform.KINDS
        assert len(note.source) > 3, note.path
    assert all(
        isinstance(value, int) for group in board.values.values() for value in group.values()
    )


def test_core_speeds_repeat_over_the_cpus() -> None:
    board = platform.load("hikey960")
    assert board.slowdown(0) == board.slowdown(8) > board.slowdown(4) == 1000


def test_a_bulk_price_is_not_calibrated_on_the_bulk_row() -> None:
    for note in platform.load("hikey960").notes:
        if "bulk" in note.path or "block" in note.path:
            assert note.kind != "calibrated", note.path


def test_an_unknown_platform_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ScenarioError, match=r"machine.platform = pdp11: must be one of hikey960"):
        platform.load("pdp11")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("x = { value = 1, kind = 'estimated' }", "needs a source"),
        (
            "x = { value = 1, kind = 'guessed', source = 'me' }",
            "a kind of calibrated, measured, estimated",
        ),
        ("x = { kind = 'estimated', source = 'me' }", "needs either ns"),
        ("x = { value = 1, ns = [1, 2], kind = 'estimated', source = 'me' }", "needs either ns"),
    ],
)
def test_a_price_without_a_note_is_refused(
    entry: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "platforms").mkdir()
    text = f'description = "x"\nslowdown_permille = [1000]\n[price.Cpu]\n{entry}\n'
    (tmp_path / "platforms" / "bad.toml").write_text(text)
    monkeypatch.setattr("rcusim.machine.platform.resources.files", lambda _: tmp_path)
    with pytest.raises(ScenarioError, match=says):
        platform.load("bad")
