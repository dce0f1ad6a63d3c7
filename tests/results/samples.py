"""Runs as a simulation could have made them, from a few lines of arithmetic."""

from __future__ import annotations

import functools
from typing import Any

from rcusim.results.model import ObjectCounts, RcuscaleResult, RunResult, Series, Statistics
from rcusim.results.series import SeriesBuilder
from rcusim.scenario import Scenario, resolved

MS_NS = 1_000_000
PAGE = 4096


class Flow:
    """Objects that collect for a drain time, wait for a grace period, and are freed at a rate."""

    def __init__(self, block_pages: bool, base_bytes: int) -> None:
        self.blocks = block_pages
        self.base = base_bytes
        self.collecting = self.waiting_gp = self.waiting_worker = 0
        self.slab = 0

    def parts(self) -> tuple[int, ...]:
        out = self.collecting + self.waiting_gp + self.waiting_worker
        self.slab = max(self.slab * 999 // 1000 // PAGE * PAGE, -(-out // PAGE) * PAGE)
        pages = out // 65536 * PAGE if self.blocks else 0
        lists = 0 if self.blocks else self.collecting
        blocks = self.collecting - lists
        slack = self.slab - out
        return (0, lists, blocks, self.waiting_gp, self.waiting_worker, slack, pages, self.base)

    def total(self) -> int:
        return sum(self.parts())


def series(
    *, blocks: bool = True, length_ms: int = 400, load_ms: int = 300, base_mib: int = 0
) -> Series:
    """Return the series of a load that ends, and its drain."""
    builder, flow = SeriesBuilder(), Flow(blocks, base_mib << 20)
    builder.mark_start(0)
    for tick in range(length_ms * 10):
        now_ns = tick * MS_NS // 10
        if tick < load_ms * 10:
            flow.collecting += 2048 * 128
        if tick % 200 == 0:
            flow.waiting_gp, flow.collecting = flow.waiting_gp + flow.collecting, 0
        if tick % 137 == 136:
            flow.waiting_worker += flow.waiting_gp
            flow.waiting_gp = 0
            builder.grace_period(now_ns)
        flow.waiting_worker -= min(flow.waiting_worker, (4096 if blocks else 2600) * 128)
        if blocks and tick % 1000 in range(300, 330):
            builder.emergency(now_ns)
        known = flow.parts()
        builder.observe(now_ns, sum(known), lambda known=known: known)  # type: ignore[misc] # default
        if tick == load_ms * 10:
            builder.mark_end(now_ns)
    return builder.finish(length_ms * MS_NS)


@functools.cache
def run(variant: str = "kfree_bulk", seed: int = 1, **changes: Any) -> RunResult:
    """Return a run; `changes` replace fields of :class:`RunResult`."""
    blocks = variant != "baseline_kfree"
    values: dict[str, Any] = {
        "scenario": resolved(Scenario(name="sample", variant=variant, seed=seed)),
        "complete": True,
        "virtual_ns": 400 * MS_NS,
        "wall_s": 1.25,
        "compile_s": 0.5,
        "objects": ObjectCounts(
            allocated=6_144_000,
            queued=6_144_000,
            freed=6_144_000,
            emergency=90 if blocks else 0,
            in_flight_peak=400_000 + seed,
        ),
        "grace_periods": 29 if blocks else 25,
        "series": series(blocks=blocks),
        "cpu_ns": {"producer": 2_000 * MS_NS, "worker": 700 * MS_NS, "idle": 500 * MS_NS},
        "rcuscale": RcuscaleResult(
            total_ns=300_000_000 + 1_000_000 * seed + (0 if blocks else 40_000_000),
            loops=2000,
            batches=30 if blocks else 26,
            footprint_mb=115 if blocks else 158,
        ),
        "statistics": Statistics(
            block_fill_permille=987 if blocks else None,
            worker_wakeups=120,
            frees_by_path={"bulk": 6_143_910, "list": 90} if blocks else {"list": 6_144_000},
        ),
    }
    return RunResult(**{**values, **changes})
