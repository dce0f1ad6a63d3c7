"""Results as JSON documents and back.

Format 1. ``rcusim run --json`` prints the documents of this module; ``run.json`` holds one run with
all that belongs to it. A document that was not written by rcusim, or was changed since, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rcusim.errors import Problem, ScenarioError
from rcusim.results.model import (
    PARTS,
    Footprint,
    ObjectCounts,
    RcuscaleResult,
    Result,
    RunResult,
    Series,
    Statistics,
)
from rcusim.results.slabinfo import SlabinfoSeries

FORMAT = 1

Document = dict[str, Any]


def run_document(run: RunResult) -> Document:
    """Return a run as ``rcusim run --json`` shows it."""
    footprint = run.footprint
    return {
        "variant": run.variant,
        "seed": run.seed,
        "complete": run.complete,
        "digest": run.digest,
        "virtual_ns": run.virtual_ns,
        "wall_s": run.wall_s,
        "compile_s": run.compile_s,
        "objects": attrs.asdict(run.objects),
        "grace_periods": run.grace_periods,
        "footprint_bytes": {
            "peak": footprint.peak_bytes,
            "mean": footprint.mean_bytes,
            "end": footprint.end_bytes,
            "parts_at_peak": dict(zip(PARTS, footprint.parts_at_peak, strict=True)),
        },
        "cpu_ns": dict(run.cpu_ns),
        "rcuscale": None if run.rcuscale is None else attrs.asdict(run.rcuscale),
        "violations": list(run.violations),
    }


def result_document(result: Result) -> Document:
    """Return all runs as ``rcusim run --json`` prints them."""
    return {
        "format": FORMAT,
        "scenario": result.scenario,
        "digest": result.digest,
        "runs": [run_document(run) for run in result.runs],
    }


def full_document(run: RunResult) -> Document:
    """Return a run with everything that belongs to it, for ``run.json``."""
    series = attrs.asdict(run.series, filter=lambda field, _: field.name != "footprint")
    series["peak_ns"] = run.footprint.peak_ns
    return {
        "format": FORMAT,
        **run_document(run),
        "interrupted": run.interrupted,
        "reason": run.reason,
        "statistics": attrs.asdict(run.statistics),
        "scenario": dict(run.scenario),
        "series": series,
        "slabinfo": None if run.slabinfo is None else attrs.asdict(run.slabinfo),
    }


def run_from(document: object, source: str) -> RunResult:
    """Return the run of a ``run.json`` document.

    Raises
    ------
    ScenarioError
        When the document is no run of this format, or its digest is not that of its content.
    """
    if not isinstance(document, dict) or "series" not in document:
        raise ScenarioError(source, [Problem("file", "", "is not a run that rcusim saved")])
    if document.get("format") != FORMAT:
        value = str(document.get("format"))
        raise ScenarioError(source, [Problem("format", value, f"must be {FORMAT}")])
    try:
        run = _run(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        rule = f"is not a run that rcusim saved: {type(error).__name__}: {error}"
        raise ScenarioError(source, [Problem("file", "", rule)]) from None
    if run.digest != document.get("digest"):
        rule = f"does not match the content, whose digest is {run.digest}"
        raise ScenarioError(source, [Problem("digest", str(document.get("digest")), rule)])
    return run


def _run(document: Mapping[str, Any]) -> RunResult:
    line = document["rcuscale"]
    return RunResult(
        scenario=dict(document["scenario"]),
        complete=_flag(document["complete"]),
        virtual_ns=_integer(document["virtual_ns"]),
        wall_s=float(document["wall_s"]),
        compile_s=float(document["compile_s"]),
        objects=ObjectCounts(**_counts(document["objects"])),
        grace_periods=_integer(document["grace_periods"]),
        series=_series(document["series"], document["footprint_bytes"]),
        cpu_ns=_counts(document["cpu_ns"]),
        rcuscale=None if line is None else RcuscaleResult(**_counts(line)),
        violations=tuple(str(entry) for entry in document["violations"]),
        interrupted=_flag(document["interrupted"]),
        reason=str(document["reason"]),
        statistics=Statistics(**document["statistics"]),
        slabinfo=_slabinfo(document.get("slabinfo")),
    )


def _series(document: Mapping[str, Any], footprint: Mapping[str, Any]) -> Series:
    columns = {name: entry for name, entry in document.items() if isinstance(entry, list)}
    parts = columns.pop("parts_bytes")
    series = Series(
        bin_ns=_integer(document["bin_ns"]),
        end_ns=_integer(document["end_ns"]),
        parts_bytes=tuple(_integers(column) for column in parts),
        footprint=Footprint(
            peak_bytes=_integer(footprint["peak"]),
            peak_ns=_integer(document["peak_ns"]),
            mean_bytes=_integer(footprint["mean"]),
            end_bytes=_integer(footprint["end"]),
            parts_at_peak=tuple(_integer(footprint["parts_at_peak"][part]) for part in PARTS),
        ),
        **{name: _integers(column) for name, column in columns.items()},
    )
    lengths = {len(column) for column in (*columns.values(), *series.parts_bytes)}
    if len(lengths) != 1 or len(series.parts_bytes) != len(PARTS) or series.bin_ns < 1:
        raise ValueError("the columns of the series differ in length")
    return series


def _slabinfo(document: Mapping[str, Any] | None) -> SlabinfoSeries | None:
    """Return the states of slabinfo; runs of allocators that do not tell have none."""
    if document is None:
        return None
    series = SlabinfoSeries(
        names=tuple(str(name) for name in document["names"]),
        fixed=tuple(_integers(columns) for columns in document["fixed"]),
        step_ns=_integer(document["step_ns"]),
        at_ns=_integers(document["at_ns"]),
        states=tuple(_integers(state) for state in document["states"]),
    )
    series.check()
    return series


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an integer")
    return value


def _integers(values: list[object]) -> tuple[int, ...]:
    return tuple(_integer(value) for value in values)


def _counts(table: Mapping[str, object]) -> dict[str, int]:
    return {name: _integer(value) for name, value in table.items()}
