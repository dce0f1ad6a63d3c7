"""Quantities of runs: what tables show, medians over seeds, and two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rcusim.results.model import CONSUMERS, PARTS, RunResult


@attrs.frozen
class Quantity:
    """One number of a run.

    Parameters
    ----------
    name : str
        What a table calls it.
    unit : str
        ``ns``, ``bytes``, ``permille``, or empty for a count.
    value : int or None
        None where the run has no such number.
    """

    name: str
    unit: str
    value: int | None


@attrs.frozen
class Spread:
    """One quantity over several runs.

    Parameters
    ----------
    median : int
        The middle value; of an even number of runs the lower of the two.
    low, high : int
        The smallest and the largest.
    """

    name: str
    unit: str
    median: int
    low: int
    high: int
    runs: int


@attrs.frozen
class Comparison:
    """One quantity of two runs; the ratio is second / first, in thousandths, rounded down."""

    name: str
    unit: str
    first: int | None
    second: int | None

    @property
    def ratio_permille(self) -> int | None:
        """Second by first; None when one is missing or the first is 0."""
        if not self.first or self.second is None:
            return None
        return self.second * 1000 // self.first


def quantities(run: RunResult, among: Sequence[RunResult] = ()) -> list[Quantity]:
    """Return the numbers of a run in the order of a table.

    Consumers of CPU time and paths of frees are those that occur in the run or in one of `among`.
    """
    runs = (run, *among)
    paths = sorted({path for each in runs for path in each.statistics.frees_by_path})
    line, counts, footprint, statistics = run.rcuscale, run.objects, run.footprint, run.statistics
    found = [
        Quantity("total time (rcuscale)", "ns", None if line is None else line.total_ns),
        Quantity("batches (rcuscale)", "", None if line is None else line.batches),
        Quantity("footprint (rcuscale)", "MB", None if line is None else line.footprint_mb),
        Quantity("virtual time", "ns", run.virtual_ns),
        Quantity("objects freed", "", counts.freed),
        Quantity("objects per second", "", _throughput(run)),
        Quantity("emergency list", "", counts.emergency),
        Quantity("in flight, peak", "", counts.in_flight_peak),
        Quantity("grace periods", "", run.grace_periods),
        Quantity("footprint, peak", "bytes", footprint.peak_bytes),
        Quantity("footprint, mean", "bytes", footprint.mean_bytes),
        Quantity("footprint, end", "bytes", footprint.end_bytes),
    ]
    found += [
        Quantity(f"at peak: {part}", "bytes", size)
        for part, size in zip(PARTS, footprint.parts_at_peak, strict=True)
    ]
    found += [
        Quantity("block fill, mean", "permille", statistics.block_fill_permille),
        Quantity("worker wake-ups", "", statistics.worker_wakeups),
        Quantity("worker wake-ups per second", "", _rate(statistics.worker_wakeups, run)),
        Quantity("oldest object, max", "ns", statistics.oldest_age_ns_max),
        Quantity("oldest object, mean", "ns", statistics.oldest_age_ns_mean),
        Quantity("wait of an object, mean", "ns", statistics.wait_ns_mean),
        Quantity("grace period, max", "ns", statistics.gp_ns_max),
        Quantity("grace period, mean", "ns", statistics.gp_ns_mean),
    ]
    found += [Quantity(f"CPU: {name}", "ns", run.cpu_ns.get(name)) for name in consumers(runs)]
    found += [
        Quantity(f"freed by {path}", "", statistics.frees_by_path.get(path)) for path in paths
    ]
    return found


def per_second(objects: int, time_ns: int) -> int | None:
    """Return a rate; None when no time has passed."""
    return objects * 1_000_000_000 // time_ns if time_ns else None


def _throughput(run: RunResult) -> int | None:
    """Return objects per second of the kernel's own time, or of the whole run with its drain."""
    line = run.rcuscale
    if line is None:
        return per_second(run.objects.freed, run.virtual_ns)
    return per_second(run.objects.allocated, line.total_ns)


def _rate(count: int | None, run: RunResult) -> int | None:
    return None if count is None else per_second(count, run.virtual_ns)


def consumers(runs: Sequence[RunResult]) -> list[str]:
    """Return the consumers of CPU time that occur in runs, the known ones first."""
    occurring = {name for run in runs for name in run.cpu_ns}
    return [*(name for name in CONSUMERS if name in occurring), *sorted(occurring - set(CONSUMERS))]


def spreads(runs: Sequence[RunResult]) -> list[Spread]:
    """Return median and range of each quantity over runs of one variant."""
    columns: dict[tuple[str, str], list[int]] = {}
    for run in runs:
        for quantity in quantities(run):
            if quantity.value is not None:
                columns.setdefault((quantity.name, quantity.unit), []).append(quantity.value)
    return [
        Spread(name, unit, median(values), min(values), max(values), len(values))
        for (name, unit), values in columns.items()
    ]


def median(values: Sequence[int]) -> int:
    """Return the middle value; of an even number the lower of the two: a value that occurred.

    Examples
    --------
    >>> median([3, 1, 2]), median([4, 1, 2, 3])
    (2, 2)
    """
    return sorted(values)[(len(values) - 1) // 2]


def compare(first: RunResult, second: RunResult) -> list[Comparison]:
    """Return the quantities of two runs side by side; those that neither has are left out."""
    both = (first, second)
    pairs = zip(quantities(first, both), quantities(second, both), strict=True)
    return [
        Comparison(left.name, left.unit, left.value, right.value)
        for left, right in pairs
        if left.value is not None or right.value is not None
    ]
