"""Tables of results, as one would paste them into a patch description.

A :class:`Grid` is a table in words. :func:`plain` sets it in fixed columns of ASCII,
:func:`rich_table` for a terminal; both show the same cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from rcusim.results.compare import Comparison, Spread, compare, quantities, spreads
from rcusim.results.model import Result, RunResult
from rcusim.slab.dump import Finding, totals

if TYPE_CHECKING:
    from rich.table import Table

GAP = "  "


@attrs.frozen
class Grid:
    """A table in words.

    Parameters
    ----------
    title : str
        One line above; may be empty.
    columns : tuple of str
        Headings. The first column is set flush left, as are those of `left`.
    rows : tuple of tuple of str
        Cells.
    notes : tuple of str
        Lines below.
    left : tuple of int
        Further columns that are words rather than numbers.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left: tuple[int, ...] = (1,)

    def is_left(self, column: int) -> bool:
        """Return whether a column is set flush left."""
        return column == 0 or column in self.left


def plain(grid: Grid) -> str:
    """Return a grid as lines of fixed columns, without a newline at the end."""
    widths = [
        max(len(row[column]) for row in (grid.columns, *grid.rows))
        for column in range(len(grid.columns))
    ]
    lines = [grid.title, ""] if grid.title else []
    for row in (grid.columns, *grid.rows):
        cells = [
            cell.ljust(width) if grid.is_left(column) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(GAP.join(cells).rstrip())
    return "\n".join([*lines, *([""] if grid.notes else []), *grid.notes])


def rich_table(grid: Grid) -> Table:
    """Return a grid as a table of rich; title and notes are left to the caller."""
    from rich import box  # noqa: PLC0415 - only on a terminal
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(grid.columns):
        table.add_column(Text(column), justify="left" if grid.is_left(number) else "right")
    for row in grid.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def result_grid(result: Result) -> Grid:
    """Return the table at the end of ``rcusim run``: quantities down, variants across.

    With several seeds a cell is the median and, in brackets, the range. With two variants there is
    a column for the change from the first to the second.
    """
    variants: dict[str, list[RunResult]] = {}
    for run in result.runs:
        variants.setdefault(run.variant, []).append(run)
    columns = {name: _by_key(spreads(runs)) for name, runs in variants.items()}
    keys = [(entry.name, entry.unit) for entry in quantities(result.runs[0], result.runs)]
    with_change = len(columns) == 2
    rows = []
    for key in keys:
        entries = [column.get(key) for column in columns.values()]
        if not _of_interest(key[0], [entry.high for entry in entries if entry is not None]):
            continue
        unit, cells = _cells(key[1], entries)
        change = (_change(entries[0], entries[1]),) if with_change else ()
        rows.append((key[0], unit, *cells, *change))
    heads = ("", "unit", *columns, *(("change",) if with_change else ()))
    return Grid(_title(result), heads, tuple(rows), _notes(result))


def compare_grid(first: RunResult, second: RunResult) -> Grid:
    """Return two runs side by side with the ratio of the second to the first."""
    rows = []
    for entry in compare(first, second):
        if not _of_interest(entry.name, [entry.first, entry.second]):
            continue
        unit, divisor, decimals = scale(entry.unit, [entry.first, entry.second])
        cells = (_fixed(entry.first, divisor, decimals), _fixed(entry.second, divisor, decimals))
        rows.append((entry.name, unit, *cells, _ratio(entry)))
    heads = (f"{run.name} {run.variant} {run.seed}" for run in (first, second))
    digests = tuple(f"digest {run.digest}" for run in (first, second))
    return Grid("", ("", "unit", *heads, "ratio"), tuple(rows), digests)


def reproduce_grid(title: str, rows: Sequence[Mapping[str, object]], how: str = "") -> Grid:
    """Return published numbers beside simulated ones.

    Parameters
    ----------
    title : str
        Name of the table.
    rows : sequence of mapping
        With the keys of ``rcusim reproduce --json``; ``low`` and ``high``, if there, are the range.
    how : str
        How the simulated numbers were made.
    """
    heads = ("row", "quantity", "unit", "published", "simulated", "range", "error", "kind")
    cells = []
    for row in rows:
        error = row["error_pct"]
        low, high = row.get("low"), row.get("high")
        cells.append(
            (
                *(str(row[key]) for key in ("row", "quantity", "unit")),
                _number(row["published"]),
                _number(row["simulated"]),
                "" if low is None or low == high else f"{_number(low)} .. {_number(high)}",
                f"{error:+.1f}%" if isinstance(error, int | float) else "-",
                str(row["kind"]),
            )
        )
    return Grid(title, heads, tuple(cells), (how,) if how else (), left=(1, 2, 7))


def dump_grid(findings: Sequence[Finding], damaged: int = 0) -> Grid:
    """Return the caches of a real slabinfo beside our geometry; the last line sums up.

    Parameters
    ----------
    findings : sequence of Finding
        In the order of the dump.
    damaged : int
        Lines of the dump that could not be understood.
    """
    heads = ("cache", "objsize", "objects", "pages", "ours", "verdict", "why")
    cells = [
        (
            finding.row.name,
            str(finding.row.objsize),
            str(finding.row.objperslab) if finding.row.objperslab else "-",
            str(finding.row.pagesperslab),
            " or ".join(f"{objects}/{pages}" for objects, pages in finding.ours) or "-",
            str(finding.verdict),
            finding.why,
        )
        for finding in findings
    ]
    counts = [
        f"{count} {_VERBS.get(verdict, verdict)}" for verdict, count in totals(findings).items()
    ]
    caches = "1 cache" if len(findings) == 1 else f"{len(findings)} caches"
    lines = "1 damaged line" if damaged == 1 else f"{damaged} damaged lines"
    summary = f"{caches}: {', '.join(counts)}; {lines}"
    return Grid("", heads, tuple(cells), (summary,), left=(5, 6))


_VERBS = {"agrees": "agree", "disagrees": "disagree"}


def scale(unit: str, values: Sequence[int | None]) -> tuple[str, int, int]:
    """Return a unit to show values in, what to divide them by, and how many decimals.

    Examples
    --------
    >>> scale("ns", [2_500_000, None]), scale("bytes", [3 << 20]), scale("", [7])
    (('ms', 1000000, 3), ('MiB', 1048576, 1), ('', 1, 0))
    """
    largest = max((abs(value) for value in values if value is not None), default=0)
    if unit == "ns":
        steps = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000))
        return next(((name, size, 3) for name, size in steps if largest >= size), ("ns", 1, 0))
    if unit == "bytes":
        return ("MiB", 1 << 20, 1) if largest >= 1 << 20 else ("KiB", 1 << 10, 1)
    return ("%", 10, 1) if unit == "permille" else (unit, 1, 0)


def _by_key(entries: Sequence[Spread]) -> dict[tuple[str, str], Spread]:
    return {(entry.name, entry.unit): entry for entry in entries}


def _of_interest(name: str, values: Sequence[int | None]) -> bool:
    """Return whether a row says anything: parts and consumers that are 0 everywhere do not."""
    if name.startswith(("at peak: ", "CPU: ")):
        return any(values)
    return any(value is not None for value in values)


def _cells(unit: str, entries: Sequence[Spread | None]) -> tuple[str, list[str]]:
    values = [entry.high for entry in entries if entry is not None]
    shown_unit, divisor, decimals = scale(unit, values)
    cells = []
    for entry in entries:
        if entry is None:
            cells.append("-")
            continue
        low, middle, high = (
            _fixed(value, divisor, decimals) for value in (entry.low, entry.median, entry.high)
        )
        cells.append(middle if low == high else f"{middle} [{low} .. {high}]")
    return shown_unit, cells


def _fixed(value: int | None, divisor: int, decimals: int) -> str:
    """Return value / divisor with so many decimals, rounded half away from zero, in integers."""
    if value is None:
        return "-"
    shift = 10**decimals
    scaled = (2 * abs(value) * shift + divisor) // (2 * divisor)
    sign = "-" if value < 0 and scaled else ""
    whole, rest = divmod(scaled, shift)
    return f"{sign}{whole}.{rest:0{decimals}d}" if decimals else f"{sign}{whole}"


def _change(first: Spread | None, second: Spread | None) -> str:
    if first is None or second is None or first.median <= 0:
        return "-"
    difference = second.median - first.median
    sign = "-" if difference < 0 else "+"
    return f"{sign}{_fixed(abs(difference) * 100, first.median, 1)}%"


def _ratio(entry: Comparison) -> str:
    ratio = entry.ratio_permille
    return "-" if ratio is None else _fixed(ratio, 1000, 3)


def _number(value: object) -> str:
    """Return a number as a table of published values shows it: no decimals from a thousand on."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() or abs(value) >= 1000 else f"{value:.3f}"
    return "-" if value is None else str(value)


def _title(result: Result) -> str:
    seeds = sorted({run.seed for run in result.runs})
    first, last = seeds[0], seeds[-1]
    shown = f"seed {first}" if first == last else f"seeds {first} to {last}: median [range]"
    return f"{result.scenario}, {shown}"


def _notes(result: Result) -> tuple[str, ...]:
    notes = []
    for run in result.runs:
        name = f"{run.variant}, seed {run.seed}"
        if run.rcuscale is not None:
            notes.append(f"{name}: {run.rcuscale.line}")
        if not run.complete:
            notes.append(f"{name}: INCOMPLETE: {run.reason or 'the run did not end'}")
        notes += [f"{name}: VIOLATED: {violation}" for violation in run.violations]
    return (*notes, *_safety(result), f"digest {result.digest}")


def _safety(result: Result) -> tuple[str, ...]:
    """Return what the oracles of all runs looked at, where they said so."""
    counters = [run.statistics.counters for run in result.runs]
    if not all("objects_checked" in counts for counts in counters):
        return ()
    frees, sections, recounts = (
        sum(counts[name] for counts in counters)
        for name in ("objects_checked", "sections", "recounts")
    )
    violations = sum(len(run.violations) for run in result.runs)
    return (
        (
            f"safety: {frees} frees checked against the ledger and {sections} read-side sections, "
            f"{recounts} recounts of all memory, {violations} violations"
        ),
    )
