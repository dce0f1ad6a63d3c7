"""The command line: the only place that prints.

Results go to standard output, progress and messages to standard error. Exit codes: 0 good, 1 a
checked property was violated, 2 bad input, 3 a limit or an interruption, 70 an error of rcusim
itself. What is slow to import is imported by the command that uses it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
from cyclopts import App, CycloptsError, Parameter, Token

import rcusim
from rcusim.errors import Interrupted, Problem, RcusimError, ScenarioError

if TYPE_CHECKING:
    from rcusim.formats.slabinfo import Slabinfo
    from rcusim.results.model import Result, RunResult
    from rcusim.scenario import Scenario
    from rcusim.views.table import Grid

GOOD, VIOLATED, BAD_INPUT, LIMIT, INTERNAL = 0, 1, 2, 3, 70
MOST_SEEDS = 10_000
SHOWN_DAMAGES = 5
PLAIN_PROGRESS_S = 10
"""Without a terminal a line of progress is written so often."""

Debug = Annotated[
    bool, Parameter(name="--debug", negative="", help="Show the traceback of an error.")
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object.")]

Meter = Callable[[int, int], None]


def _whole(hint: object, tokens: Sequence[Token]) -> int:
    """Return the integer that was written; a fraction is not rounded."""
    del hint
    value = tokens[0].value
    try:
        return int(value)
    except ValueError:
        raise ValueError(f'"{value}" is not a whole number') from None


Whole = Annotated[int, Parameter(converter=_whole)]


def _version() -> str:
    return f"rcusim {rcusim.__version__}"


app = App(
    name="rcusim",
    help="Simulate deferred freeing in an RCU kernel: memory footprint, throughput, safety.",
    version=_version,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    version_flags=["--version"],
    help_flags=["--help", "-h"],
)


class OutputLostError(Exception):
    """Standard output cannot be written, and not because its reader has gone."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        super().__init__(str(error))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code of the process."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    _open_missing_streams()
    code = _run_command(tokens)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _lost_output(error, code)
    return code


def _open_missing_streams() -> None:
    """Let a process that was started with closed output streams write nowhere instead of failing."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for good


def _lost_output(error: OSError, code: int) -> int:
    """Return the exit code after standard output failed: a reader that has gone is no failure."""
    _silence()
    if isinstance(error, BrokenPipeError):
        return code
    return _complain(f"rcusim: standard output cannot be written: {error.strerror}", code or LIMIT)


def _run_command(tokens: Sequence[str]) -> int:
    """Run a command; every error becomes one readable message and an exit code."""
    debug = "--debug" in tokens
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _complain(f"rcusim: {error}\nTry: rcusim --help", BAD_INPUT)
    except RcusimError as error:
        if debug:
            raise
        return _complain(f"rcusim: {error}", error.exit_code)
    except (KeyboardInterrupt, MemoryError, SystemExit, OutputLostError) as end:
        return _ended(end)
    except Exception as error:
        if debug:
            raise
        what = f"{type(error).__name__}: {error}"
        hint = "This is a mistake in rcusim, please report it; --debug shows where."
        return _complain(f"rcusim: internal error: {what}\n{hint}", INTERNAL)
    return code if isinstance(code, int) else GOOD


def _ended(end: BaseException) -> int:
    """Return the exit code of a command that was ended from outside."""
    if isinstance(end, OutputLostError):
        return _lost_output(end.error, GOOD)
    if isinstance(end, SystemExit):  # how the help printer ends when its reader has gone
        return GOOD
    memory = isinstance(end, MemoryError)
    return _complain(f"rcusim: {'the host has no memory left' if memory else 'interrupted'}", LIMIT)


@app.command
def run(
    scenario: str,
    /,
    *,
    variant: Annotated[list[str] | None, Parameter(name="--variant", negative="")] = None,
    settings: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None,
    seed: Whole | None = None,
    seeds: Whole = 1,
    out: Path | None = None,
    as_json: AsJson = False,
    force: Annotated[bool, Parameter(negative="")] = False,
    debug: Debug = False,
) -> int:
    """Simulate a scenario and print a table of what happened.

    Parameters
    ----------
    scenario
        A scenario file, or the name of one that comes with rcusim.
    variant
        Run only this variant; may be repeated.
    settings
        KEY=VALUE sets a key of the scenario, as kernel.hz=1000, for all variants;
        variant.NAME.KEY=VALUE for one.
    seed
        Replaces the seed of the scenario.
    seeds
        Run so many seeds, from the seed upwards; the table shows median and range.
    out
        Folder for the results; runs/<scenario>-<seed> when absent.
    as_json
        Print one JSON object instead of a table.
    force
        Replace a result that is in the folder already.
    """
    del debug  # main looks for it
    from rcusim.engine.stop import catching  # noqa: PLC0415
    from rcusim.results import store  # noqa: PLC0415
    from rcusim.results.model import Result  # noqa: PLC0415
    from rcusim.scenario import load  # noqa: PLC0415

    scenarios = load(scenario, settings or (), seed, variant or ())
    jobs = list(_with_seeds(scenarios, seeds))
    first = scenarios[0]
    folder = out if out is not None else store.default_folder(first.name, first.seed)
    store.check_free(folder, force=force)
    done: list[RunResult] = []
    with catching():  # while it saves as well
        try:
            _simulate_all(jobs, done)
        finally:
            # whatever ends the command, the runs that were made are kept and shown
            if done:
                result = Result(scenario=first.name, runs=tuple(done))
                try:
                    store.save(result, folder, force=force)
                    _say(f"saved in {folder}")
                finally:
                    _show_result(result, as_json)
    return _verdict(done, scenario, settings or ())


@app.command
def plot(
    *runs: Path,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    debug: Debug = False,
) -> int:
    """Draw the memory footprint of runs over time.

    Parameters
    ----------
    runs
        Folders of results or of single runs, or run.json files.
    output
        A .png or .svg file for all of them; when absent, footprint.png beside each.
    """
    del debug
    from rcusim.results import store  # noqa: PLC0415
    from rcusim.views import figure  # noqa: PLC0415

    if not runs:
        raise ScenarioError("plot", [Problem("RUN", "", "name at least one run")])
    loaded = {path: _at_most(store.load(path), figure.MOST_PANELS) for path in runs}
    if output is not None:
        drawn = [figure.draw([run for found in loaded.values() for run in found], output)]
    else:
        drawn = [
            figure.draw(found, (path if path.is_dir() else path.parent) / "footprint.png")
            for path, found in loaded.items()
        ]
    for file in drawn:
        _out(str(file))
    return GOOD


@app.command
def compare(first: Path, second: Path, /, *, debug: Debug = False) -> int:
    """Show two runs side by side, with the ratio of the second to the first.

    Parameters
    ----------
    first, second
        The folder or run.json of a single run.
    """
    del debug
    from rcusim.views.table import compare_grid  # noqa: PLC0415

    _print_grid(compare_grid(_single(first), _single(second)))
    return GOOD


@app.command
def reproduce(
    table: str | None = None,
    /,
    *,
    full: Annotated[bool, Parameter(negative="")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show published tables beside simulated ones, with the error of every number.

    Parameters
    ----------
    table
        Which table; all of them when absent.
    full
        Run the published size, which takes minutes, rather than a scaled one.
    as_json
        Print a JSON list.
    """
    del debug
    from rcusim.campaign import reproduce as campaign  # noqa: PLC0415
    from rcusim.views.table import reproduce_grid  # noqa: PLC0415

    found = campaign.reproduce(table, full=full, progress=_say)
    if as_json:
        keys = ("table", "row", "quantity", "unit", "published", "simulated", "error_pct", "kind")
        rows = [{key: getattr(row, key) for key in keys} for entry in found for row in entry.rows]
        _out(json.dumps(rows, indent=2))
        return GOOD
    for number, entry in enumerate(found):
        if number:
            _out("")
        _print_grid(
            reproduce_grid(entry.table, [attrs.asdict(row) for row in entry.rows], entry.how)
        )
    return GOOD


@app.command
def slabinfo(
    run: Path | None = None,
    /,
    *,
    at: Annotated[float | None, Parameter(name="--at")] = None,
    check: Path | None = None,
    cpus: int | None = None,
    allocator: str | None = None,
    debug: Debug = False,
) -> int:
    """Show a run as /proc/slabinfo, or check a real dump against our geometry.

    Parameters
    ----------
    run
        The folder or run.json of a single run; its state is printed as /proc/slabinfo, version 2.1.
    at
        The instant in ms of virtual time; the end of the run when absent. A run keeps at most 256
        states: the last one that is not later is printed, and its instant told.
    check
        A dump to check instead: tells for each cache whether order and objects per slab agree.
        Exit code 1 if one disagrees.
    cpus
        CPUs of the machine that the dump is from.
    allocator
        Its allocator: slab-gen1 (up to Linux 3.12), slab-gen2 (3.13), slab-gen3 (3.15), slab-gen4
        (4.6), slub-3.18 or slub-6.18.
    """
    del debug
    if check is not None:
        _only_for_runs("--check", run, at)
        return _check_slabinfo(check, allocator, cpus)
    if run is None:
        raise _unusable("RUN", "", "name a run, or a dump with --check")
    for option, value in (("--cpus", cpus), ("--allocator", allocator)):
        if value is not None:
            raise _unusable(option, str(value), "goes with --check only")
    return _show_slabinfo(run, at)


@app.command
def validate(*scenarios: str, debug: Debug = False) -> int:
    """Check scenario files without running them.

    Parameters
    ----------
    scenarios
        Scenario files, or names of those that come with rcusim.
    """
    del debug
    from rcusim.scenario import load  # noqa: PLC0415

    if not scenarios:
        raise ScenarioError("validate", [Problem("SCENARIO", "", "name at least one scenario")])
    code = GOOD
    for source in scenarios:
        try:
            found = load(source)
        except ScenarioError as error:
            code = _complain(str(error), BAD_INPUT)
        else:
            _out(f"{source}: good; variants: {', '.join(entry.variant for entry in found)}")
    return code


def _unusable(option: str, value: str, rule: str) -> ScenarioError:
    return ScenarioError("slabinfo", [Problem(option, value, rule)])


def _only_for_runs(option: str, run: Path | None, at: float | None) -> None:
    if run is not None:
        raise _unusable("RUN", str(run), f"does not go with {option}")
    if at is not None:
        raise _unusable("--at", f"{at:g}", f"does not go with {option}")


def _show_slabinfo(path: Path, at_ms: float | None) -> int:
    """Print what a run recorded of /proc/slabinfo."""
    from rcusim.formats.slabinfo import write  # noqa: PLC0415
    from rcusim.units import MS_NS, US_NS  # noqa: PLC0415

    series = _single(path).slabinfo
    if series is None:
        raise ScenarioError(str(path), [Problem("slabinfo", "", "was not recorded in this run")])
    if at_ms is not None and not 0 <= at_ms * MS_NS <= series.end_ns:
        # rounded down, so that it can be given
        end_ms = series.end_ns // US_NS * US_NS / MS_NS
        raise _unusable("--at", f"{at_ms:g}", f"must be from 0 to {end_ms:.3f}, the end of the run")
    at_ns = series.end_ns if at_ms is None else round(at_ms * MS_NS)
    _say(f"state at {series.taken_ns(at_ns) / MS_NS:.6f} ms")
    _out(write(series.at(at_ns)).removesuffix("\n"))
    return GOOD


def _check_slabinfo(file: Path, allocator: str | None, cpus: int | None) -> int:
    """Print the verdict on each cache of a dump."""
    from rcusim.slab.dump import ALLOCATORS, Verdict, check_dump, totals  # noqa: PLC0415
    from rcusim.views.table import dump_grid  # noqa: PLC0415

    if allocator not in ALLOCATORS:
        raise _unusable("--allocator", allocator or "", f"must be one of {', '.join(ALLOCATORS)}")
    if cpus is None or cpus < 1:
        raise _unusable("--cpus", "" if cpus is None else str(cpus), "must be at least 1")
    dump = _read_slabinfo(file)
    findings = check_dump(dump.rows, allocator, cpus)
    for damage in dump.damaged:
        _say(f"{file}:{damage.line}: {damage.reason}: {damage.text.strip()}")
    _print_grid(dump_grid(findings, len(dump.damaged)))
    return VIOLATED if totals(findings)[Verdict.DISAGREES] else GOOD


def _read_slabinfo(file: Path) -> Slabinfo:
    """Return the dump in a file.

    Raises
    ------
    ScenarioError
        When it cannot be read, is of an unknown version, or has no line of a cache.
    """
    from rcusim.formats.slabinfo import parse  # noqa: PLC0415

    try:
        dump = parse(file.read_bytes().decode("utf-8", "backslashreplace"))
    except OSError as error:
        rule = f"cannot be read: {error.strerror}"
        raise ScenarioError(str(file), [Problem("file", "", rule)]) from None
    except ValueError as error:
        raise ScenarioError(str(file), [Problem("file", "", str(error))]) from None
    if not dump.rows:
        shown = dump.damaged[:SHOWN_DAMAGES]
        problems = [Problem("file", "", "has no line of a cache")]
        problems += [Problem(f"line {damage.line}", "", damage.reason) for damage in shown]
        raise ScenarioError(str(file), problems)
    return dump


def _with_seeds(scenarios: Sequence[Scenario], seeds: int) -> Iterator[Scenario]:
    """Yield each scenario with `seeds` seeds."""
    last = scenarios[0].seed + seeds - 1
    if not 1 <= seeds <= MOST_SEEDS or last >= 1 << 63:
        rule = f"must be from 1 to {MOST_SEEDS}, and the last seed below 2^63"
        raise ScenarioError("run", [Problem("--seeds", str(seeds), rule)])
    for scenario in scenarios:
        for seed in range(scenario.seed, scenario.seed + seeds):
            yield attrs.evolve(scenario, seed=seed)


def _simulate_all(jobs: Sequence[Scenario], done: list[RunResult]) -> None:
    """Run scenarios one after the other and add each to `done`; an interrupted one is the last."""
    from rcusim import _jit  # noqa: PLC0415
    from rcusim.engine.stop import catching  # noqa: PLC0415
    from rcusim.simulation import simulate  # noqa: PLC0415

    if not _jit.COMPILED:
        _say("numba is absent or switched off: the same results, ten to twenty times slower")
    with _progress() as begin, catching() as stop:
        for number, job in enumerate(jobs, 1):
            meter = begin(f"{job.name} {job.variant} seed {job.seed} ({number}/{len(jobs)})")
            done.append(simulate(job, progress=meter))
            if done[-1].interrupted:
                return
            if stop.raised and number < len(jobs):
                raise Interrupted(f"stopped by a signal after {number} of {len(jobs)} runs")


def _show_result(result: Result, as_json: bool) -> None:
    if as_json:
        from rcusim.results.document import result_document  # noqa: PLC0415

        _out(json.dumps(result_document(result), indent=2))
    else:
        from rcusim.views.table import result_grid  # noqa: PLC0415

        _print_grid(result_grid(result))


def _verdict(runs: Sequence[RunResult], scenario: str, settings: Sequence[str]) -> int:
    """Return the exit code of runs; say how to see again what went wrong."""
    code = GOOD
    for run in runs:
        if run.complete and not run.violations:
            continue
        code = VIOLATED if run.violations or code == VIOLATED else LIMIT
        for reason in run.violations or (run.reason or "not complete",):
            _say(f"rcusim: {run.variant}, seed {run.seed}: {reason}")
        if not run.interrupted:
            _say(f"again: {_command(run, scenario, settings)}")
    return code


def _command(run: RunResult, scenario: str, settings: Sequence[str]) -> str:
    import shlex  # noqa: PLC0415

    words = ["rcusim", "run", scenario, "--variant", run.variant, "--seed", str(run.seed)]
    words += [word for setting in settings for word in ("--set", setting)]
    return shlex.join(words)


def _at_most(runs: list[RunResult], most: int) -> list[RunResult]:
    """Return runs, or when there are too many for a figure the first seed of each variant."""
    if len(runs) <= most:
        return runs
    firsts: dict[str, RunResult] = {}
    for run in runs:
        firsts.setdefault(run.variant, run)
    _say(f"{len(runs)} runs are too many for a figure: drawing the first seed of each variant")
    return list(firsts.values())


def _single(path: Path) -> RunResult:
    from rcusim.results import store  # noqa: PLC0415

    runs = store.load(path)
    if len(runs) != 1:
        names = ", ".join(file.parent.name for file in store.files(path))
        raise ScenarioError(
            str(path), [Problem("run", "", f"holds several runs; name one: {names}")]
        )
    return runs[0]


def _print_grid(grid: Grid) -> None:
    from rcusim.views.table import plain, rich_table  # noqa: PLC0415

    if not sys.stdout.isatty():
        _out(plain(grid))
        return
    from rich.console import Console  # noqa: PLC0415

    console = Console(markup=False, highlight=False)
    if grid.title:
        console.print(grid.title, style="bold")
    console.print(rich_table(grid))
    for note in grid.notes:
        console.print(note, soft_wrap=True)


@contextmanager
def _progress() -> Iterator[Callable[[str], Meter]]:
    """Give a function that begins a run by its name and returns its meter."""
    if not sys.stderr.isatty():
        yield _plain_meter
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% {task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )

    def begin(name: str) -> Meter:
        task = bar.add_task(name, total=None, rate="")
        began_s = time.monotonic()

        def meter(done: int, total: int) -> None:
            rate = _rate(done, time.monotonic() - began_s)
            bar.update(task, completed=done, total=total or None, rate=rate)

        return meter

    with bar:
        yield begin


def _plain_meter(name: str) -> Meter:
    """Write a line when a run begins and one now and then."""
    _say(name)
    began_s = last_s = time.monotonic()

    def meter(done: int, total: int) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s >= PLAIN_PROGRESS_S:
            last_s = now_s
            share = f"{100 * done // total}%" if total else f"{done} objects"
            _say(f"{name}: {share}, {_rate(done, now_s - began_s)}")

    return meter


def _rate(objects: int, seconds: float) -> str:
    return f"{objects / seconds / 1e6:.1f} M objects/s" if seconds > 0 else ""


def _out(text: str) -> None:
    """Write to standard output; when nobody reads it any more, go on without."""
    encoding = sys.stdout.encoding or "ascii"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except BrokenPipeError:
        _silence()
    except OSError as error:
        raise OutputLostError(error) from None


def _silence() -> None:
    """Send standard output nowhere, so that Python does not complain about it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _say(text: str) -> None:
    """Write to standard error; a stream that cannot be written is no reason to fail."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _complain(text: str, code: int) -> int:
    _say(text)
    return code
