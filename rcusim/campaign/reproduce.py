"""Published tables beside simulated ones, each number marked exact, calibrated or predicted.

Nothing is hidden when it misses: the table shows the error. A prediction never uses a price that was
fitted to the row it predicts.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Sequence
from importlib import resources

import attrs

from rcusim.campaign import slabinfo
from rcusim.errors import (
    Interrupted,
    LimitReached,
    Problem,
    PropertyViolation,
    ScenarioError,
)
from rcusim.formats.slabinfo import SlabinfoRow
from rcusim.results.model import RunResult
from rcusim.scenario import load
from rcusim.simulation import simulate

SEEDS = tuple(range(1, 10))
QUANTITIES = {"total_ns": "ns", "batches": "grace periods", "footprint_mb": "MiB"}

Progress = Callable[[str], None]


@attrs.frozen
class Row:
    """One number of a published table.

    Attributes
    ----------
    published, simulated : float
        The number as published, and the median of ours.
    error_pct : float or None
        ``simulated / published - 1`` in per cent; for a ratio the same.
    kind : str
        ``exact``, ``calibrated`` or ``predicted``.
    low, high : float
        Range of ours over the seeds.
    """

    table: str
    row: str
    quantity: str
    unit: str
    published: float
    simulated: float
    error_pct: float | None
    kind: str
    low: float
    high: float


@attrs.frozen
class Reproduction:
    """A table: its rows, and how they were made."""

    table: str
    rows: tuple[Row, ...]
    how: str


def tables() -> list[str]:
    """Return the names of the tables that can be reproduced."""
    return sorted(_TABLES)


def reproduce(
    table: str | None = None, *, full: bool = False, progress: Progress = lambda _: None
) -> list[Reproduction]:
    """Simulate published tables.

    Parameters
    ----------
    table : str or None
        Which one; None is all.
    full : bool
        Run the published size instead of a scaled one, for one seed.
    progress : callable
        Told what is being run.

    Raises
    ------
    ScenarioError
        When there is no such table.
    """
    if table is not None and table not in _TABLES:
        raise ScenarioError(
            "reproduce", [Problem("TABLE", table, f"must be one of {', '.join(tables())}")]
        )
    return [_TABLES[name](full, progress) for name in tables() if table in (None, name)]


def _published(name: str) -> list[dict[str, str]]:
    text = (resources.files("rcusim") / "campaign" / "published" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _kfree_bulk(full: bool, progress: Progress) -> Reproduction:
    """Uladzislau Rezki's kfree_bulk measurement on a HiKey 960 (December 2019)."""
    published = {row["variant"]: row for row in _published("kfree_bulk_hikey960.csv")}
    loops_published = int(published["baseline_kfree"]["loops"])
    overrides = [f"workload.kfree_loops={loops_published}"] if full else []
    seeds = SEEDS[:1] if full else SEEDS
    runs: dict[str, list[dict[str, float]]] = {variant: [] for variant in published}
    for seed in seeds:
        for scenario in load("hikey960", overrides, seed=seed):
            progress(f"{scenario.variant}, seed {seed}")
            run = simulate(scenario)
            runs[scenario.variant].append(_scaled(run, loops_published))
    rows = [
        _row(
            variant,
            quantity,
            float(published[variant][quantity]),
            [run[quantity] for run in runs[variant]],
        )
        for variant in published
        for quantity in QUANTITIES
    ]
    before, after = published["baseline_kfree"], published["kfree_bulk"]
    for quantity in QUANTITIES:
        ratios = [
            new[quantity] / old[quantity]
            for old, new in zip(runs["baseline_kfree"], runs["kfree_bulk"], strict=True)
        ]
        rows.append(
            _row("ratio", quantity, float(after[quantity]) / float(before[quantity]), ratios)
        )
    return Reproduction("kfree-bulk", tuple(rows), _how(full, loops_published, seeds))


def _how(full: bool, loops_published: int, seeds: Sequence[int]) -> str:
    if full:
        return f"{loops_published} loops as published, seed {seeds[0]}"
    loops = load("hikey960")[0].workload
    shipped = getattr(loops, "kfree_loops", 0)
    return (
        f"{shipped} of {loops_published} loops; time and grace periods scaled by {loops_published // shipped}; "
        f"median of seeds {seeds[0]}..{seeds[-1]}"
    )


def _scaled(run: RunResult, loops_published: int) -> dict[str, float]:
    line = run.rcuscale
    where = f"{run.variant}, seed {run.seed}: "
    if run.violations:
        raise PropertyViolation("reproduce", run.virtual_ns, where + run.violations[0])
    if run.interrupted:
        raise Interrupted(where + run.reason)
    if line is None or not run.complete:
        raise LimitReached(where + run.reason)
    factor = loops_published / line.loops
    return {
        "total_ns": line.total_ns * factor,
        "batches": line.batches * factor,
        "footprint_mb": float(line.footprint_mb),
    }


def _row(row: str, quantity: str, published: float, simulated: Sequence[float]) -> Row:
    median = statistics.median(simulated)
    return Row(
        table="kfree-bulk",
        row=row,
        quantity=quantity,
        unit="" if row == "ratio" else QUANTITIES[quantity],
        published=published,
        simulated=median,
        error_pct=100 * (median / published - 1),
        kind="calibrated" if row == "baseline_kfree" else "predicted",
        low=min(simulated),
        high=max(simulated),
    )


def _slabinfo(full: bool, progress: Progress) -> Reproduction:
    """Joonsoo Kim's tables of three generations of SLAB (2013); always of the published size."""
    del full
    tables: dict[str, list[SlabinfoRow]] = {}
    for columns in _published("slabinfo_joonsoo.csv"):
        tables.setdefault(columns["generation"], []).append(slabinfo.published_row(columns))
    lines: list[slabinfo.Line] = []
    for generation, table in tables.items():
        progress(f"{generation}, {len(table)} caches")
        lines += slabinfo.simulated_lines(generation, table)
    equal = sum(line.published == line.simulated for line in lines)
    how = (
        "one CPU, all caches of a generation in one machine, driven to the published slabs and objects in use; "
        f"whole lines of /proc/slabinfo that are equal: {equal} of {len(lines)}"
    )
    rows = tuple(_exact(line, column) for line in lines for column in slabinfo.COMPARED)
    return Reproduction("slabinfo", rows, how)


def _exact(line: slabinfo.Line, column: str) -> Row:
    published, simulated = getattr(line.published, column), getattr(line.simulated, column)
    return Row(
        table="slabinfo",
        row=f"{line.generation} {line.published.name}",
        quantity=column,
        unit="bytes" if column == "objsize" else "",
        published=published,
        simulated=simulated,
        error_pct=_error_pct(published, simulated),
        kind="exact",
        low=simulated,
        high=simulated,
    )


def _error_pct(published: int, simulated: int) -> float | None:
    """Return the error; of a published 0 it is 0 or nothing that could be said in per cent."""
    if published:
        return 100 * (simulated / published - 1)
    return None if simulated else 0.0


_TABLES: dict[str, Callable[[bool, Progress], Reproduction]] = {
    "kfree-bulk": _kfree_bulk,
    "slabinfo": _slabinfo,
}
