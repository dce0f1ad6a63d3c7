from __future__ import annotations

import attrs
import pytest

from rcusim.scenario import BurstWorkload, KernelTable, ReadersTable
from rcusim.simulation import simulate
from rcusim.slab.reaper import rounded_delay
from tests.simulation.rig import burst


@pytest.mark.parametrize(
    ("now", "delay", "hz", "cpu", "expected"),
    [
        (0, 250, 250, 0, 250),  # a whole second already
        (10, 250, 250, 0, 240),  # a little late: rounded down
        (100, 500, 250, 0, 650),  # far behind: rounded up
        (0, 250, 250, 2, 244),  # the third CPU comes six jiffies earlier
        (999, 1000, 1000, 1, 998),
    ],
)
def test_delays_end_at_whole_seconds_with_a_skew_for_each_cpu(
    now: int, delay: int, hz: int, cpu: int, expected: int
) -> None:
    assert rounded_delay(now, delay, hz, cpu) == expected


def test_idle_arrays_and_slabs_are_given_back_while_a_world_goes_on() -> None:
    workload = BurstWorkload(duration_ms=5, pause_ms=30_000, bursts=2, rate_per_second=1_000_000)
    awake = ReadersTable(
        threads=2, section_us=6_000, gap_us=200_000
    )  # an idle CPU is not woken to reap
    scenario = attrs.evolve(
        burst("G1"), workload=workload, kernel=KernelTable(hz=250), readers=awake
    )
    run = simulate(scenario)
    assert run.complete, run.reason
    counters = run.statistics.counters
    assert counters["kmalloc-128/reaps"] >= 2 * 13  # two CPUs, every two seconds
    assert counters["kmalloc-128/drains"] > 0
    # during the pause nearly everything goes back
    late = len(run.series.max_bytes) * 6 // 7
    assert run.series.max_bytes[late] < 6 * 4096 < max(run.series.max_bytes)


def test_an_idle_cpu_is_not_woken_to_reap() -> None:
    workload = BurstWorkload(duration_ms=5, pause_ms=30_000, bursts=2, rate_per_second=1_000_000)
    scenario = attrs.evolve(burst("G1"), workload=workload, kernel=KernelTable(hz=250))
    run = simulate(scenario)
    assert run.statistics.counters["kmalloc-128/reaps"] <= 2
    late = len(run.series.max_bytes) * 6 // 7
    assert run.series.max_bytes[late] > 20 * 4096
