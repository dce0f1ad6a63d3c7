from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rcusim.errors import ScenarioError
from rcusim.results import store
from rcusim.results.document import result_document
from rcusim.results.model import Result
from tests.results.samples import run

RESULT = Result(scenario="sample", runs=(run("baseline_kfree"), run("kfree_bulk")))


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_result_is_saved_and_loaded(tmp_path: Path) -> None:
    folder = store.save(RESULT, tmp_path / "runs" / "sample-1")
    assert tree(tmp_path / "runs") == [
        "sample-1",
        "sample-1/baseline_kfree-1",
        "sample-1/baseline_kfree-1/run.json",
        "sample-1/kfree_bulk-1",
        "sample-1/kfree_bulk-1/run.json",
        "sample-1/result.json",
    ]
    assert json.loads((folder / "result.json").read_text()) == result_document(RESULT)
    assert store.load(folder) == list(RESULT.runs)
    assert store.load(folder / "kfree_bulk-1") == [RESULT.runs[1]]
    assert store.load(folder / "kfree_bulk-1" / "run.json") == [RESULT.runs[1]]


def test_the_default_folder_names_scenario_and_seed() -> None:
    assert store.default_folder("hikey960", 3) == Path("runs/hikey960-3")


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    assert store.load(store.save(RESULT, tmp_path)) == list(RESULT.runs)


def test_a_folder_with_files_is_refused_without_force(tmp_path: Path) -> None:
    folder = store.save(RESULT, tmp_path / "out")
    other = Result(scenario="sample", runs=(run(seed=5),))
    with pytest.raises(ScenarioError, match=r"is not empty.*--force"):
        store.save(other, folder)
    assert store.load(folder) == list(RESULT.runs)
    store.save(other, folder, force=True)
    assert store.load(folder) == list(other.runs)
    assert tree(tmp_path) == [
        "out",
        "out/kfree_bulk-5",
        "out/kfree_bulk-5/run.json",
        "out/result.json",
    ]


def test_force_does_not_replace_what_no_run_has_left(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("work of years")
    with pytest.raises(ScenarioError, match="not a result, so not replaced"):
        store.save(RESULT, tmp_path, force=True)
    assert tree(tmp_path) == ["thesis.tex"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_text("")
    with pytest.raises(ScenarioError, match="not a folder"):
        store.save(RESULT, place, force=True)
    with pytest.raises(ScenarioError, match="cannot be"):
        store.save(RESULT, place / "below")
    assert tree(tmp_path) == ["out"]


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    folder = store.save(RESULT, tmp_path / "out")
    before = {path: (tmp_path / path).stat().st_mtime_ns for path in tree(tmp_path)}
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ScenarioError, match="No space left on device"):
        store.save(RESULT, folder, force=True)
    assert {path: (tmp_path / path).stat().st_mtime_ns for path in tree(tmp_path)} == before
    calls.clear()
    with pytest.raises(ScenarioError, match="cannot be written"):
        store.save(RESULT, tmp_path / "new")
    assert tree(tmp_path) == list(before)


def test_the_old_result_comes_back_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.save(RESULT, tmp_path / "out")
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(ScenarioError, match="Input/output error"):
        store.save(RESULT, folder, force=True)
    assert store.load(folder) == list(RESULT.runs)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no file or folder"):
        store.load(tmp_path / "missing")
    with pytest.raises(ScenarioError, match=r"has no run\.json"):
        store.load(tmp_path)
    broken = tmp_path / "run.json"
    for content in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
        broken.write_bytes(content)
        with pytest.raises(ScenarioError, match="is not JSON"):
            store.load(tmp_path)
    broken.unlink()
    (tmp_path / "result.json").write_text('{"runs": [{"seed": 1}]}')
    with pytest.raises(ScenarioError, match="is not a result"):
        store.load(tmp_path)
    (tmp_path / "result.json").write_text('{"runs": [{"seed": 1, "variant": "gone"}]}')
    with pytest.raises(ScenarioError, match="cannot be read"):
        store.load(tmp_path)
