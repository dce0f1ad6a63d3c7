from __future__ import annotations

import json
import os
import signal
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
from rcusim.results.model import Result, RunResult
from rcusim.scenario import Scenario, resolved
from tests.results.samples import run as sample
from tests.results.test_slabinfo import SERIES as SLABINFO

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


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A saved run that recorded slabinfo, and one that did not."""
    runs = (
        attrs.evolve(sample("old", 1), slabinfo=SLABINFO),
        sample("new", 1),
    )
    return store.save(Result(scenario="sample", runs=runs), tmp_path / "recorded")


HEAD = (
    "slabinfo - version: 2.1\n"
    "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>"
    " : tunables <limit> <batchcount> <sharedfactor>"
    " : slabdata <active_slabs> <num_slabs> <sharedavail>\n"
)


def kmalloc_128(active: int, objects: int, active_slabs: int, slabs: int, shared: int) -> str:
    return (
        f"kmalloc-128       {active:6} {objects:6}    128   32    1"
        f" : tunables  120   60    8 : slabdata {active_slabs:6} {slabs:6} {shared:6}\n"
    )


@pytest.mark.parametrize(
    ("at", "shown_ms", "line"),
    [
        (["--at", "0"], "0.000000", kmalloc_128(0, 0, 0, 0, 0)),
        (["--at", "0.0039"], "0.003000", kmalloc_128(20, 32, 1, 1, 0)),
        (["--at", "0.0045"], "0.004500", kmalloc_128(5, 64, 1, 2, 3)),
        ([], "0.004500", kmalloc_128(5, 64, 1, 2, 3)),
    ],
)
def test_slabinfo_shows_the_state_of_a_run_as_the_kernel_would(
    recorded: Path, capsys: pytest.CaptureFixture[str], at: list[str], shown_ms: str, line: str
) -> None:
    assert cli.main(["slabinfo", str(recorded / "old-1"), *at]) == 0
    shown = capsys.readouterr()
    assert shown.out == HEAD + line
    assert shown.err == f"state at {shown_ms} ms\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "RUN: name a run, or a dump with --check"),
        (["old-1", "--at", "0.1"], "--at = 0.1: must be from 0 to 0.004, the end of the run"),
        (["old-1", "--at", "-1"], "--at = -1: must be from 0"),
        (["old-1", "--at", "nan"], "--at = nan: must be from 0"),
        (["old-1", "--cpus", "2"], "--cpus = 2: goes with --check only"),
        (["old-1", "--allocator", "slab-gen1"], "--allocator = slab-gen1: goes with --check only"),
        (["new-1"], "slabinfo: was not recorded in this run"),
        (["."], "holds several runs; name one: old-1, new-1"),
        (["old-1", "--check", "dump"], "RUN = old-1: does not go with --check"),
        (["--at", "1", "--check", "dump"], "--at = 1: does not go with --check"),
        (["--check", "dump"], "--allocator: must be one of slab-gen1, slab-gen2, slab-gen3"),
        (["--check", "dump", "--allocator", "slob", "--cpus", "1"], "--allocator = slob: must be"),
        (["--check", "dump", "--allocator", "slab-gen1"], "--cpus: must be at least 1"),
        (["--check", "dump", "--allocator", "slab-gen1", "--cpus", "0"], "--cpus = 0: must be at"),
        (["--check", "dump", "--allocator", "slab-gen1", "--cpus", "1"], "dump: file: cannot be"),
    ],
)
def test_slabinfo_refuses_what_makes_no_sense(
    recorded: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(recorded)
    assert cli.main(["slabinfo", *arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


def check(file: Path, allocator: str = "slab-gen3") -> int:
    return cli.main(["slabinfo", "--check", str(file), "--cpus", "1", "--allocator", allocator])


def dump_line(name: str, size: int, objects: int) -> str:
    row = SLABINFO.at(0).rows[0]
    return attrs.evolve(row, name=name, objsize=size, objperslab=objects).line + "\n"


def test_slabinfo_checks_a_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dump"
    good = dump_line("kmalloc-64", 64, 63) + dump_line("some cache", 128, 31)
    file.write_text(HEAD + good)
    assert check(file) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].split() == ["cache", "objsize", "objects", "pages", "ours", "verdict", "why"]
    assert lines[1].split() == ["kmalloc-64", "64", "63", "1", "63/1", "agrees"]
    assert "31/1 or 32/1  undetermined  depends on the size before alignment" in lines[2]
    assert lines[-1] == "2 caches: 1 agree, 0 disagree, 1 undetermined; 0 damaged lines"
    assert shown.err == ""

    file.write_text(HEAD + good + "kmalloc-32 7\n" + dump_line("kmalloc-256", 256, 15))
    assert check(file) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines()[3].split() == [
        "kmalloc-256",
        "256",
        "15",
        "1",
        "16/1",
        "disagrees",
    ]
    assert shown.out.splitlines()[-1] == (
        "3 caches: 1 agree, 1 disagree, 1 undetermined; 1 damaged line"
    )
    assert shown.err == f"{file}:5: is no line of slabinfo 2.1: kmalloc-32 7\n"


def test_slabinfo_takes_any_bytes_for_a_dump(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dump"
    file.write_bytes(HEAD.encode() + b"\xff\xfe\x00\n" + dump_line("kmalloc-64", 64, 63).encode())
    assert check(file) == 0
    shown = capsys.readouterr()
    assert f"{file}:3: is no line of slabinfo 2.1" in shown.err
    assert shown.out.endswith("1 cache: 1 agree, 0 disagree, 0 undetermined; 1 damaged line\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "dump: file: has no line of a cache"),
        (HEAD, "dump: file: has no line of a cache"),
        ("slabinfo - version: 1.2\n", "dump: file: slabinfo 1.2: must be one of 1.1, 2.0, 2.1"),
        ("nothing\n", "dump: line 1: is no line of slabinfo 2.1"),
    ],
)
def test_slabinfo_refuses_what_is_no_dump(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dump").write_text(text)
    assert check(Path("dump")) == 2
    assert message in capsys.readouterr().err


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


@pytest.mark.parametrize("option", ["--seed", "--seeds"])
def test_a_fraction_is_not_rounded(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert cli.main(["run", "hikey960", option, "1.5"]) == 2
    assert '"1.5" is not a whole number' in capsys.readouterr().err


def _shell(command: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m rcusim"
    return subprocess.run(
        ["bash", "-c", command.replace("RCUSIM", program)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("RCUSIM validate hikey960 >&-", 0),
        ("RCUSIM validate hikey960 2>&-", 0),
        ("RCUSIM validate hikey960 >/dev/full", 3),
        ("RCUSIM validate nope 2>/dev/full", 2),
        ("RCUSIM --help | true; exit ${PIPESTATUS[0]}", 0),
    ],
)
def test_streams_that_cannot_be_written_do_not_change_what_the_exit_code_means(
    command: str, code: int
) -> None:
    done = _shell(command)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_a_signal_between_two_runs_stops_the_command_and_keeps_what_was_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rcusim.simulation import simulate  # noqa: PLC0415

    made = []

    def simulate_then_signal(*arguments: Any, **options: Any) -> RunResult:
        made.append(simulate(*arguments, **options))
        signal.raise_signal(signal.SIGTERM)
        return made[-1]

    monkeypatch.setattr("rcusim.simulation.simulate", simulate_then_signal)
    small = ["--set", "workload.kfree_loops=4", "--set", "workload.kfree_alloc_num=10"]
    out = tmp_path / "out"
    assert cli.main(["run", "hikey960", *small, "--out", str(out)]) == 3
    assert len(made) == 1
    assert "stopped by a signal after 1 of 2 runs" in capsys.readouterr().err
    assert (out / "baseline_kfree-1" / "run.json").exists()
