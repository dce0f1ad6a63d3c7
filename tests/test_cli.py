from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import rcusim.campaign
import rcusim.simulation
from rcusim import cli
from rcusim.errors import InternalError, LimitReached
from rcusim.results import store
from rcusim.results.model import RunResult
from rcusim.scenario import Scenario, resolved
from tests.results.samples import run as sample

SCENARIO = """
name = "small"
[[variant]]
name = "old"
reclaim.generation = "G1"
[[variant]]
name = "new"
"""

Change = Callable[[Scenario], dict[str, Any]]


@attrs.define
class Fake:
    """Takes the place of the simulation: makes runs from nothing, remembers what it was asked."""

    asked: list[Scenario] = attrs.field(factory=list)
    change: Change = lambda _: {}

    def simulate(
        self, scenario: Scenario, *, progress: Callable[[int, int], None] | None = None
    ) -> RunResult:
        self.asked.append(scenario)
        assert progress is not None
        progress(10, 100)
        table = resolved(scenario)
        return attrs.evolve(sample(), scenario=table, **self.change(scenario))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    made = Fake()
    monkeypatch.setattr(rcusim.simulation, "simulate", made.simulate, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SCENARIO)
    return made


def test_run_prints_a_table_and_saves_the_runs(
    fake: Fake, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["run", "small.toml"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("small, seed 1\n\n")
    assert "old, seed 1: Total time taken by all kfree'ers: 301000000 ns" in shown.out
    assert shown.err.splitlines() == [
        "small old seed 1 (1/2)",
        "small new seed 1 (2/2)",
        "saved in runs/small-1",
    ]
    assert [run.variant for run in store.load(tmp_path / "runs" / "small-1")] == ["old", "new"]
    assert [entry.variant for entry in fake.asked] == ["old", "new"]


def test_run_prints_one_json_object(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "small.toml", "--json", "--variant", "new", "--out", "o"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(Path("o/result.json").read_text())
    assert document["format"] == 1
    assert [entry["variant"] for entry in document["runs"]] == ["new"]
    assert len(fake.asked) == 1


def test_run_takes_settings_and_seeds(fake: Fake) -> None:
    words = ["--set", "kernel.hz=1000", "--set", "variant.new.reclaim.slots=3"]
    assert cli.main(["run", "small.toml", *words, "--seed", "5", "--seeds", "2"]) == 0
    assert [(entry.variant, entry.seed) for entry in fake.asked] == [
        ("old", 5), ("old", 6), ("new", 5), ("new", 6),
    ]  # fmt: skip
    assert {entry.kernel.hz for entry in fake.asked} == {1000}
    assert [entry.reclaim.slots for entry in fake.asked] == [2, 2, 3, 3]
    assert sorted(path.name for path in Path("runs/small-5").iterdir()) == [
        "new-5", "new-6", "old-5", "old-6", "result.json",
    ]  # fmt: skip


def test_a_folder_with_a_result_is_refused_before_anything_runs(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "small.toml"]) == 0
    fake.asked.clear()
    assert cli.main(["run", "small.toml"]) == 2
    assert fake.asked == []
    assert "--force" in capsys.readouterr().err
    assert cli.main(["run", "small.toml", "--force"]) == 0


def test_a_violation_is_exit_1_and_the_result_is_kept(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.change = lambda scenario: (
        {"violations": ("ledger violated at 3 ns: object 5",), "complete": False}
        if scenario.variant == "old"
        else {"complete": False, "reason": "limit"}
    )
    assert cli.main(["run", "small.toml", "--set", "kernel.hz=100"]) == 1
    shown = capsys.readouterr()
    assert "old, seed 1: VIOLATED: ledger violated at 3 ns: object 5" in shown.out
    assert "again: rcusim run small.toml --variant old --seed 1 --set kernel.hz=100" in shown.err
    assert store.load(Path("runs/small-1"))[0].violations


def test_a_limit_is_exit_3(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.change = lambda _: {"complete": False, "reason": "out of memory: x"}
    assert cli.main(["run", "small.toml"]) == 3
    assert "rcusim: new, seed 1: out of memory: x" in capsys.readouterr().err


def test_an_interrupted_run_is_the_last_and_is_kept(fake: Fake) -> None:
    fake.change = lambda _: {"complete": False, "interrupted": True, "reason": "a signal"}
    assert cli.main(["run", "small.toml"]) == 3
    assert len(fake.asked) == 1
    assert [run.interrupted for run in store.load(Path("runs/small-1"))] == [True]


@pytest.mark.parametrize(
    ("error", "code"),
    [(LimitReached("no memory"), 3), (InternalError("a mistake"), 70), (KeyboardInterrupt(), 3)],
)
def test_runs_that_were_made_are_kept_whatever_ends_the_command(
    fake: Fake, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    def change(scenario: Scenario) -> dict[str, Any]:
        if scenario.variant == "new":
            raise error
        return {}

    fake.change = change
    assert cli.main(["run", "small.toml"]) == code
    assert "saved in runs/small-1" in capsys.readouterr().err
    assert [run.variant for run in store.load(Path("runs/small-1"))] == ["old"]


def test_an_unexpected_error_asks_for_a_report(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(_: Scenario) -> dict[str, Any]:
        raise ZeroDivisionError("by zero")

    fake.change = change
    assert cli.main(["run", "small.toml"]) == 70
    shown = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: by zero" in shown
    assert "please report" in shown
    assert "Traceback" not in shown
    with pytest.raises(ZeroDivisionError):
        cli.main(["run", "small.toml", "--debug"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.toml"], "cannot be read: No such file or directory"),
        (["run", "hikey96"], "did you mean hikey960?"),
        (["run", "small.toml", "--variant", "od"], "there is no such variant; did you mean old?"),
        (["run", "small.toml", "--set", "kernel.hz=1"], "kernel.hz = 1: must be one of"),
        (["run", "small.toml", "--set", "kernel.hz"], "must be KEY=VALUE"),
        (["run", "small.toml", "--seed", "-1"], "seed = -1: must be an integer"),
        (["run", "small.toml", "--seed", "x"], '"x"'),
        (["run", "small.toml", "--seeds", "0"], "--seeds = 0: must be from 1 to 10000"),
        (["run", "small.toml", "--out", "small.toml"], "exists and is not a folder"),
        (["run"], "SCENARIO"),
        (["run", "small.toml", "more"], "more"),
        (["run", "small.toml", "--sed", "1"], "--sed"),
        (["frobnicate"], "frobnicate"),
        (["plot"], "name at least one run"),
        (["plot", "nothing"], "is no file or folder of a run"),
        (["plot", "."], "has no run.json"),
        (["compare", ".", "."], "has no run.json"),
        (["compare", "."], "SECOND"),
        (["validate"], "name at least one scenario"),
        (["validate", "missing.toml"], "cannot be read"),
    ],
)
def test_bad_input_is_exit_2_with_one_message(
    fake: Fake, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert fake.asked == []


def test_a_run_on_a_terminal_shows_no_plain_lines(
    fake: Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["run", "small.toml"]) == 0
    shown = capsys.readouterr()
    assert "total time (rcuscale)" in shown.out
    assert "─" in shown.out
    assert "saved in runs/small-1" in shown.err
    assert len(fake.asked) == 2


def test_plain_progress_is_written_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    meter = cli._plain_meter("x")
    for seconds, done in ((1, 10**6), (11, 22_000_000), (12, 23_000_000), (22, 88_000_000)):
        now[0] = seconds
        meter(done, 88_000_000 if done < 10**7 or seconds == 11 else 0)
    assert capsys.readouterr().err.splitlines() == [
        "x",
        "x: 25%, 2.0 M objects/s",
        "x: 88000000 objects, 4.0 M objects/s",
    ]


def test_plot_draws_beside_the_runs_or_into_one_file(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "small.toml"]) == 0
    capsys.readouterr()
    folder = "runs/small-1"
    assert cli.main(["plot", folder, f"{folder}/new-1/run.json"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{folder}/footprint.png",
        f"{folder}/new-1/footprint.png",
    ]
    assert cli.main(["plot", f"{folder}/old-1", f"{folder}/new-1", "-o", "both.svg"]) == 0
    assert Path("both.svg").read_text().startswith("<?xml")
    assert cli.main(["plot", folder, "-o", "both.pdf"]) == 2
    assert len(fake.asked) == 2


def test_too_many_runs_for_a_figure_show_the_first_seed_of_each_variant(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "small.toml", "--seeds", "7"]) == 0
    capsys.readouterr()
    assert cli.main(["plot", "runs/small-1", "-o", "a.svg"]) == 0
    assert "14 runs are too many" in capsys.readouterr().err
    assert len(fake.asked) == 14


def test_compare_shows_two_runs(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "small.toml"]) == 0
    capsys.readouterr()
    assert cli.main(["compare", "runs/small-1/old-1", "runs/small-1/new-1"]) == 0
    assert "small old 1" in capsys.readouterr().out.splitlines()[0]
    assert cli.main(["compare", "runs/small-1", "runs/small-1/new-1"]) == 2
    assert "holds several runs; name one: old-1, new-1" in capsys.readouterr().err
    assert len(fake.asked) == 2


def test_validate_reports_every_file(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.toml").write_text("[machine]\ncpus = 0\n[kernel]\nhz = 1\n")
    assert cli.main(["validate", "small.toml", "bad.toml", "hikey960"]) == 2
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "small.toml: good; variants: old, new",
        "hikey960: good; variants: baseline_kfree, kfree_bulk",
    ]
    assert shown.err.splitlines() == [
        "bad.toml: machine.cpus = 0: must be an integer from 1 to 65536 CPUs",
        "bad.toml: kernel.hz = 1: must be one of 100, 250, 300, 1000",
    ]
    assert cli.main(["validate", "small.toml"]) == 0
    assert fake.asked == []


@attrs.frozen
class PublishedRow:
    """A row as the campaign gives it."""

    table: str = "kfree-bulk"
    row: str = "kfree_bulk"
    quantity: str = "total_ns"
    unit: str = "ns"
    published: float = 89947009882.0
    simulated: float = 91e9
    error_pct: float | None = 1.17
    kind: str = "predicted"
    low: float = 90e9
    high: float = 92e9


@attrs.frozen
class Reproduced:
    """A table as the campaign gives it."""

    table: str = "kfree-bulk"
    rows: tuple[PublishedRow, ...] = (PublishedRow(),)
    how: str = "2000 of 200000 loops"


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, bool]]:
    asked: list[tuple[str | None, bool]] = []

    def reproduce(
        table: str | None, *, full: bool, progress: Callable[[str], None]
    ) -> list[Reproduced]:
        asked.append((table, full))
        progress("kfree_bulk, seed 1")
        return [Reproduced()]

    fake = SimpleNamespace(reproduce=reproduce)
    monkeypatch.setattr(rcusim.campaign, "reproduce", fake, raising=False)
    return asked


def test_reproduce_shows_published_beside_simulated(
    campaign: list[tuple[str | None, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reproduce", "kfree-bulk", "--full"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("kfree-bulk\n\nrow ")
    assert "89947009882  91000000000  90000000000 .. 92000000000  +1.2%  predicted" in shown.out
    assert shown.out.endswith("2000 of 200000 loops\n")
    assert shown.err == "kfree_bulk, seed 1\n"
    assert campaign == [("kfree-bulk", True)]


def test_reproduce_prints_the_contracts_json(
    campaign: list[tuple[str | None, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reproduce", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert list(row) == [
        "table", "row", "quantity", "unit", "published", "simulated", "error_pct", "kind",
    ]  # fmt: skip
    assert campaign == [(None, False)]


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **options
    )


def test_version_and_help() -> None:
    version = python("-m", "rcusim", "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("rcusim 0.")
    shown = python("-m", "rcusim", "run", "--help")
    assert shown.returncode == 0
    for word in ("--variant", "--set", "--seeds", "--json", "--force", "runs/<scenario>-<seed>"):
        assert word in shown.stdout


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys; from rcusim.cli import main; main(['--help']); "
        "slow = {'numpy', 'numba', 'matplotlib', 'trio', 'cattrs'} & set(sys.modules); "
        "sys.exit(str(slow) if slow else 0)"
    )
    assert python("-c", code).stderr == ""


def test_validating_imports_no_simulation() -> None:
    code = (
        "import sys; from rcusim.cli import main; main(['validate', 'hikey960']); "
        "slow = {'matplotlib', 'trio', 'rcusim.simulation'} & set(sys.modules); "
        "sys.exit(str(slow) if slow else 0)"
    )
    assert python("-c", code).stderr == ""


def test_a_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "rcusim", "validate", "hikey960", "burst"],
        stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "büro.toml").write_text("seed = 1")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = python("-m", "rcusim", "validate", str(tmp_path / "büro.toml"), env=environment)
    assert shown.returncode == 0
    assert r"b\xfcro.toml: good; variants: default" in shown.stdout
