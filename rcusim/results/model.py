"""Results are values: frozen, comparable, and the same bytes wherever they were made.

All numbers of the model are exact integers; the only floats are wall-clock times, which no digest
covers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from rcusim.results.slabinfo import SlabinfoSeries

PARTS = (
    "live",
    "collecting_list",
    "collecting_blocks",
    "waiting_gp",
    "waiting_worker",
    "slab_slack",
    "block_pages",
    "other",
)
"""Where a byte of the footprint is, in the order in which parts are kept and drawn.

An object is ``live`` until it is queued, then ``collecting_list`` or ``collecting_blocks``, then
``waiting_gp`` until its grace period ends, then ``waiting_worker`` until it is freed.
``slab_slack`` is the rest of the slabs' pages, ``block_pages`` the blocks', ``other`` what was in
use before.
"""

CONSUMERS = ("producer", "reader", "worker", "softirq", "gp_kthread", "irq", "switch", "idle")
"""Who uses CPU time, in the order of tables; a run may name others."""


@attrs.frozen(kw_only=True)
class Footprint:
    """Memory that the page allocator has given out.

    Parameters
    ----------
    peak_bytes : int
        The largest total, exact.
    peak_ns : int
        When it was first reached.
    mean_bytes : int
        Time-weighted mean from the first start to the last end of the workload, rounded down.
    end_bytes : int
        Total after the drain.
    parts_at_peak : tuple of int
        Bytes of each of :data:`PARTS` at the peak; their sum is the peak.
    """

    peak_bytes: int
    peak_ns: int
    mean_bytes: int
    end_bytes: int
    parts_at_peak: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Series:
    """The footprint over time, in bins of equal width that begin at time 0.

    Parameters
    ----------
    bin_ns : int
        Width of a bin; the last may be cut short by `end_ns`.
    end_ns : int
        When the run ended.
    min_bytes, mean_bytes, max_bytes : tuple of int
        Of the total, for each bin; the mean is time-weighted and rounded down.
    at_ns : tuple of int
        For each bin the instant at which `parts_bytes` was taken, -1 where none was: nothing
        happened in such a bin, and nobody looked.
    parts_bytes : tuple of tuple of int
        For each of :data:`PARTS` its bytes at that instant, for each bin.
    gp_ends : tuple of int
        Grace periods that ended, for each bin.
    emergency_uses : tuple of int
        Uses of an emergency list, that is, blocks that could not be had, for each bin.
    footprint : Footprint
        The exact numbers of the whole run.
    """

    bin_ns: int
    end_ns: int
    min_bytes: tuple[int, ...]
    mean_bytes: tuple[int, ...]
    max_bytes: tuple[int, ...]
    at_ns: tuple[int, ...]
    parts_bytes: tuple[tuple[int, ...], ...]
    gp_ends: tuple[int, ...]
    emergency_uses: tuple[int, ...]
    footprint: Footprint


@attrs.frozen(kw_only=True)
class ObjectCounts:
    """Objects of a run.

    Parameters
    ----------
    allocated, queued, freed : int
        By the workload, by ``kfree_rcu()``, by reclaim.
    emergency : int
        Objects ever linked on an emergency list.
    in_flight_peak : int
        Most objects that were queued and not yet freed.
    """

    allocated: int = 0
    queued: int = 0
    freed: int = 0
    emergency: int = 0
    in_flight_peak: int = 0


@attrs.frozen(kw_only=True)
class RcuscaleResult:
    """What the kernel's test prints at its end.

    Parameters
    ----------
    total_ns : int
        From the last finisher's own start to its end.
    loops : int
        The parameter.
    batches : int
        Grace periods between the last start and the last end (``rcu_seq_diff``).
    footprint_mb : int
        The last finisher's samples, combined as a version of the test does; may be negative.
    """

    total_ns: int
    loops: int
    batches: int
    footprint_mb: int

    @property
    def line(self) -> str:
        """The line as ``kfree_scale_thread`` prints it."""
        return (
            f"Total time taken by all kfree'ers: {self.total_ns} ns, loops: {self.loops}, "
            f"batches: {self.batches}, memory footprint: {self.footprint_mb}MB"
        )


@attrs.frozen(kw_only=True)
class Statistics:
    """Numbers that explain a run; None where a run has none.

    Parameters
    ----------
    block_fill_permille : int or None
        Mean fill of the blocks that were handed to a grace period, in thousandths of a block.
    worker_wakeups : int or None
        How often a kworker was woken.
    oldest_age_ns_max, oldest_age_ns_mean : int or None
        Age of the oldest object that waits between ``kfree_rcu()`` and its free; the mean is over
        the ends of grace periods.
    wait_ns_mean : int or None
        Mean time of an object between ``kfree_rcu()`` and its free.
    gp_ns_max, gp_ns_mean : int or None
        Length of grace periods.
    frees_by_path : mapping
        Objects freed, by the path on which they were.
    counters : mapping
        Whatever else was counted, by name.
    """

    block_fill_permille: int | None = None
    worker_wakeups: int | None = None
    oldest_age_ns_max: int | None = None
    oldest_age_ns_mean: int | None = None
    wait_ns_mean: int | None = None
    gp_ns_max: int | None = None
    gp_ns_mean: int | None = None
    frees_by_path: Mapping[str, int] = attrs.field(factory=dict)
    counters: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class RunResult:
    """One run: a variant of a scenario with one seed.

    Parameters
    ----------
    scenario : mapping
        The resolved scenario as plain dicts, lists, ints and strings, with variant and seed.
    complete : bool
        Whether the workload ended and everything was drained.
    virtual_ns : int
        End of the drain.
    wall_s, compile_s : float
        Seconds of the host from the built world to the result, and for compilation before.
    cpu_ns : mapping
        CPU time by consumer.
    rcuscale : RcuscaleResult or None
        The kernel's own line, when the workload was its test and the test ended.
    violations : tuple of str
        Properties that did not hold.
    interrupted : bool
        A signal ended the run.
    reason : str
        Why a run is not complete.
    slabinfo : SlabinfoSeries or None
        What ``/proc/slabinfo`` showed; None where the allocator does not tell.
    digest : str
        SHA-256 over the resolved scenario, the series and the counters; see :func:`digest_of`.
    """

    scenario: Mapping[str, Any]
    complete: bool
    virtual_ns: int
    wall_s: float
    compile_s: float
    objects: ObjectCounts
    grace_periods: int
    series: Series
    cpu_ns: Mapping[str, int]
    rcuscale: RcuscaleResult | None = None
    violations: tuple[str, ...] = ()
    interrupted: bool = False
    reason: str = ""
    statistics: Statistics = attrs.field(factory=Statistics)
    slabinfo: SlabinfoSeries | None = None
    digest: str = attrs.field(init=False)

    @digest.default
    def _compute_digest(self) -> str:
        slabinfo = {} if self.slabinfo is None else {"slabinfo": attrs.asdict(self.slabinfo)}
        return digest_of(
            {
                **slabinfo,
                "scenario": self.scenario,
                "virtual_ns": self.virtual_ns,
                "objects": attrs.asdict(self.objects),
                "grace_periods": self.grace_periods,
                "series": attrs.asdict(self.series),
                "cpu_ns": self.cpu_ns,
                "rcuscale": None if self.rcuscale is None else attrs.asdict(self.rcuscale),
                "statistics": attrs.asdict(self.statistics),
            }
        )

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.scenario["name"])

    @property
    def variant(self) -> str:
        """Name of the variant."""
        return str(self.scenario["variant"])

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.scenario["seed"])

    @property
    def footprint(self) -> Footprint:
        """The exact numbers of the memory footprint."""
        return self.series.footprint


@attrs.frozen(kw_only=True)
class Result:
    """All runs of a scenario: one for each variant and seed.

    Parameters
    ----------
    scenario : str
        Name of the scenario.
    runs : tuple of RunResult
        In the order of the file's variants, then of the seeds.
    digest : str
        SHA-256 over the digests of the runs.
    """

    scenario: str
    runs: tuple[RunResult, ...]
    digest: str = attrs.field(init=False)

    @digest.default
    def _compute_digest(self) -> str:
        return digest_of({"runs": [run.digest for run in self.runs], "scenario": self.scenario})


def canonical(document: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return a document as JSON with sorted keys and without spaces."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document's canonical JSON, in hexadecimal.

    Raises
    ------
    TypeError
        When there is a float in it: floats have no place in a digest.

    Examples
    --------
    >>> digest_of({"b": 1, "a": [2, 3]}) == digest_of({"a": (2, 3), "b": 1})
    True
    """
    _refuse_floats(document)
    return hashlib.sha256(canonical(document).encode("ascii")).hexdigest()


def _refuse_floats(value: object) -> None:
    if isinstance(value, float):
        raise TypeError(f"{value} is a float: only integers and words make a digest")
    if isinstance(value, Mapping):
        for entry in value.values():
            _refuse_floats(entry)
    elif isinstance(value, list | tuple) and not all(type(entry) is int for entry in value):
        for entry in value:
            _refuse_floats(entry)
