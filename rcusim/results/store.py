"""Saving runs in folders and loading them again.

::

    runs/<scenario>-<seed>/
        result.json                 what `rcusim run --json` prints
        <variant>-<seed>/run.json   one run with its series

A folder is written under a temporary name beside its place and then renamed, so that it is there as
a whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rcusim.errors import Problem, ScenarioError
from rcusim.results.document import full_document, result_document, run_from
from rcusim.results.model import Result, RunResult, canonical

RUN_FILE = "run.json"
RESULT_FILE = "result.json"


def default_folder(scenario: str, seed: int) -> Path:
    """Return where a result goes when nobody says otherwise."""
    return Path("runs") / f"{scenario}-{seed}"


def check_free(folder: Path, *, force: bool = False) -> None:
    """Refuse a folder that is not free to be written.

    Raises
    ------
    ScenarioError
        When it holds files and `force` is false, holds files that no run has left, or is no folder.
    """
    try:
        if not folder.exists() and not folder.is_symlink():
            _check_writable(folder)
            return
        if not folder.is_dir():
            raise _refused(folder, "exists and is not a folder")
        entries = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise _refused(folder, f"cannot be read: {error.strerror}") from None
    if entries and not force:
        raise _refused(
            folder, "is not empty; choose another with --out, or replace it with --force"
        )
    _check_writable(folder)
    if entries and RESULT_FILE not in entries:
        raise _refused(folder, f"holds files but no {RESULT_FILE}: not a result, so not replaced")


def _check_writable(folder: Path) -> None:
    """Find out before a long run whether its result could be written."""
    parent = folder.parent
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    try:
        Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=parent)).rmdir()
    except OSError as error:
        raise _refused(folder, f"cannot be written: {error.strerror or error}") from None


def save(result: Result, folder: Path, *, force: bool = False) -> Path:
    """Write a result into `folder` and return it.

    Raises
    ------
    ScenarioError
        When the folder is not free, or cannot be written; then nothing is left behind.
    """
    check_free(folder, force=force)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _sibling(folder) as building:
            for run in result.runs:
                inner = building / f"{run.variant}-{run.seed}"
                inner.mkdir()
                _write(inner / RUN_FILE, canonical(full_document(run)))
            _write(building / RESULT_FILE, json.dumps(result_document(result), indent=2))
            _replace(building, folder)
    except OSError as error:
        raise _refused(folder, f"cannot be written: {error.strerror or error}") from None
    return folder


def load(path: Path) -> list[RunResult]:
    """Return the runs of a ``run.json``, of its folder, or of the folder of a whole result.

    Raises
    ------
    ScenarioError
        When there is none, or one is not as rcusim wrote it.
    """
    return [run_from(_read(file), str(file)) for file in files(path)]


def files(path: Path) -> list[Path]:
    """Return the ``run.json`` files at or below a path, in the order of the result.

    Raises
    ------
    ScenarioError
        When there is none.
    """
    if path.is_file():
        return [path]
    if (path / RUN_FILE).is_file():
        return [path / RUN_FILE]
    if (path / RESULT_FILE).is_file():
        found = _listed(path)
        if found:
            return found
    reason = f"has no {RUN_FILE}" if path.is_dir() else "is no file or folder of a run"
    raise _refused(path, reason)


def _listed(folder: Path) -> list[Path]:
    """Return the files of the runs that ``result.json`` names."""
    document = _read(folder / RESULT_FILE)
    try:
        names = [f"{run['variant']}-{run['seed']}" for run in document["runs"]]  # type: ignore[index] # checked by the except
    except (KeyError, TypeError):
        raise _refused(folder / RESULT_FILE, "is not a result that rcusim saved") from None
    return [folder / name / RUN_FILE for name in names]


def _read(file: Path) -> object:
    try:
        document: object = json.loads(file.read_bytes())
    except OSError as error:
        raise _refused(file, f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise _refused(file, "is not JSON") from None
    return document


@contextlib.contextmanager
def _sibling(folder: Path) -> Iterator[Path]:
    """Give a new folder near `folder`, on the same file system; what is left of it is removed."""
    private = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    building = private / "new"  # mkdtemp's own folder is readable by its owner only
    try:
        building.mkdir()
        yield building
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _write(file: Path, text: str) -> None:
    with file.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def _replace(building: Path, folder: Path) -> None:
    """Put the finished folder in its place; what was there is removed only afterwards."""
    if not folder.exists():
        building.rename(folder)
        return
    with _sibling(folder) as aside:
        old = aside / "old"
        folder.rename(old)
        try:
            building.rename(folder)
        except OSError:
            old.rename(folder)
            raise


def _refused(path: Path, rule: str) -> ScenarioError:
    return ScenarioError(str(path), [Problem("run", "", rule)])
