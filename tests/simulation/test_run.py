from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from bisect import bisect_right

import attrs
import pytest

from rcusim.formats.slabinfo import SlabinfoRow
from rcusim.results.model import RunResult
from rcusim.results.slabinfo import SlabinfoBuilder
from rcusim.scenario import (
    BurstWorkload,
    KernelTable,
    MachineTable,
    NoWorkload,
    ReadersTable,
    ReclaimTable,
    RunTable,
    Scenario,
    SlabTable,
    load,
    shipped,
)
from rcusim.simulation import Parts, simulate
from tests.doubles import SimpleAllocator
from tests.simulation.rig import burst, small, with_readers

GENERATIONS = ["G0", "G1", "G2"]


def footprints(run: RunResult) -> tuple[int, ...]:
    return run.series.max_bytes


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("preempt", ["none", "voluntary", "full"])
def test_a_flood_is_drained_and_every_object_is_freed_once(generation: str, preempt: str) -> None:
    run = simulate(small(generation, kernel=KernelTable(preempt=preempt)))
    assert run.complete, run.reason
    assert run.objects.allocated == run.objects.queued == run.objects.freed == 4 * 40 * 500
    assert run.rcuscale is not None
    assert run.rcuscale.loops == 40
    assert run.virtual_ns > run.rcuscale.total_ns > 0
    path = {"G0": "rcu_do_batch", "G1": "kfree", "G2": "kfree_bulk"}[generation]
    assert run.statistics.frees_by_path == {path: run.objects.freed}
    assert sum(run.footprint.parts_at_peak) == run.footprint.peak_bytes
    # every nanosecond of every CPU is somebody's
    assert sum(run.cpu_ns.values()) == 4 * run.virtual_ns


@pytest.mark.parametrize(
    "scenario",
    [small("G0"), with_readers("G1"), burst("G2", live_ms=3)],
    ids=["flood", "readers", "burst"],
)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_series(
    scenario: Scenario,
) -> None:
    run, again = simulate(scenario), simulate(scenario)
    assert run.digest == again.digest
    other = simulate(attrs.evolve(scenario, seed=2))
    assert footprints(other) != footprints(run)


@pytest.mark.parametrize(
    "scenario",
    [with_readers("G0"), with_readers("G2"), burst("G1", live_ms=3)],
    ids=["G0", "G2", "burst"],
)
def test_a_task_switch_for_every_step_changes_nothing(scenario: Scenario) -> None:
    assert simulate(scenario, parts=Parts(inline=False)).digest == simulate(scenario).digest


PROGRAM = """
    from tests.simulation.rig import burst, with_readers
    from rcusim.simulation import simulate
    print(*[simulate(s).digest for s in (with_readers("G0", loops=4), with_readers("G2", loops=4), burst("G1", bursts=1))])
"""


def digests(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_digests_do_not_depend_on_process_hash_seed_or_compilation() -> None:
    here = digests(PYTHONHASHSEED="1")
    assert here.count("\n") == 1
    assert len(here.split()) == 3
    assert digests(PYTHONHASHSEED="2") == here
    assert digests(RCUSIM_JIT="0", PYTHONHASHSEED="3") == here


def test_one_object_a_turn_is_allowed() -> None:
    coarse = small("G2", loops=4)
    fine = attrs.evolve(coarse, workload=attrs.evolve(coarse.workload, objects_per_turn=1))  # type: ignore[arg-type]
    run = simulate(fine)
    assert run.complete
    assert run.objects.freed == 4 * 4 * 500


def test_turns_of_different_length_tell_nearly_the_same_story() -> None:
    def total_ns(objects_per_turn: int) -> int:
        scenario = small("G2", loops=80)
        workload = attrs.evolve(scenario.workload, objects_per_turn=objects_per_turn)  # type: ignore[arg-type]
        line = simulate(attrs.evolve(scenario, workload=workload)).rcuscale
        assert line is not None
        return line.total_ns

    assert abs(total_ns(25) / total_ns(500) - 1) < 0.05


def test_without_a_workload_the_readers_run_for_their_time() -> None:
    readers = ReadersTable(threads=2, duration_ms=50, section_us=100, gap_us=100)
    run = simulate(
        Scenario(name="idle", machine=MachineTable(cpus=2), workload=NoWorkload(), readers=readers)
    )
    assert run.complete, run.reason
    assert 50_000_000 <= run.virtual_ns < 60_000_000
    assert run.statistics.counters["sections"] > 100
    assert run.objects.allocated == 0


@pytest.mark.parametrize("cpus", [1, 2, 17, 33])
def test_any_number_of_cpus(cpus: int) -> None:
    run = simulate(small("G2", cpus=cpus, loops=4))
    assert run.complete, run.reason
    assert run.objects.freed == cpus * 4 * 500


def test_a_long_reader_holds_the_footprint_up() -> None:
    short = ReadersTable(threads=1, section_us=20, gap_us=100)
    long = attrs.evolve(short, long_threads=1, long_section_ms=60, long_gap_ms=1)
    base = burst("G2", bursts=1, duration_ms=60, rate_per_second=500_000)
    peak = [
        simulate(attrs.evolve(base, readers=readers)).footprint.peak_bytes
        for readers in (short, long)
    ]
    assert peak[1] > 1.4 * peak[0]


def test_grace_periods_of_an_idle_machine_take_two_jiffies_and_sometimes_four() -> None:
    # as measured on a 6.18 kernel with HZ=250: median 8.1 ms, 90th percentile 16.1 ms
    scenario = burst("G2", bursts=3, duration_ms=1, pause_ms=100, rate_per_second=100_000)
    run = simulate(attrs.evolve(scenario, kernel=KernelTable(hz=250), machine=MachineTable(cpus=2)))
    assert run.statistics.gp_ns_mean is not None
    assert 7_500_000 <= run.statistics.gp_ns_mean <= 16_500_000


# -- shortage, limits, signals -----------------------------------------------------------------------


def test_an_emergency_list_is_used_only_when_memory_is_short() -> None:
    tight, plenty = (simulate(scenario) for scenario in load("low-memory"))
    assert tight.complete
    assert plenty.complete
    assert tight.objects.emergency >= tight.objects.queued // 10
    assert tight.objects.freed == tight.objects.queued == tight.objects.allocated
    assert plenty.objects.emergency == 0
    assert sum(tight.series.emergency_uses) > 0
    assert tight.scenario["machine"]["memory_mib"] * 8 == plenty.scenario["machine"]["memory_mib"]


def test_memory_that_never_comes_free_ends_the_thread_and_the_run_is_incomplete() -> None:
    workload = BurstWorkload(
        duration_ms=1000, bursts=1, pause_ms=0, rate_per_second=1_000_000, live_ms=60_000
    )
    scenario = Scenario(name="full", machine=MachineTable(cpus=1, memory_mib=16), workload=workload)
    run = simulate(scenario)
    assert not run.complete
    assert run.violations == ()
    assert "burst/0 got no page for 10 s and ended with -ENOMEM" in run.reason
    assert run.objects.freed == run.objects.allocated > 0  # what was had is given back all the same


def test_a_limit_of_virtual_time_ends_the_run() -> None:
    run = simulate(attrs.evolve(small("G1"), run=RunTable(limit_ms=5)))
    assert not run.complete
    assert "limit of 5 ms of virtual time (run.limit_ms)" in run.reason
    assert run.virtual_ns == 5_000_000
    assert run.objects.queued > 0


def test_a_signal_leaves_a_partial_result() -> None:
    sent: list[bool] = []
    before = signal.getsignal(signal.SIGINT)

    def progress(done: int, total: int) -> None:
        assert 0 <= done <= total
        if not sent:
            sent.append(True)
            signal.raise_signal(signal.SIGINT)

    run = simulate(small("G2", loops=100_000), progress=progress)
    assert run.interrupted
    assert not run.complete
    assert 0 < run.objects.queued < 4 * 100_000 * 500
    assert signal.getsignal(signal.SIGINT) is before


def test_a_reclaim_that_never_drains_is_a_hang_that_says_who_waits() -> None:
    scenario = small("G1", loops=2, reclaim=ReclaimTable(generation="G1"))

    def deaf(around: object) -> object:
        from rcusim.reclaim.g1 import BasicBatching  # noqa: PLC0415

        made = BasicBatching(around)  # type: ignore[arg-type]
        for krc in made.krcs:
            krc.monitor_todo = True  # nobody arms the monitor
        return made

    run = simulate(scenario, parts=Parts(generation=deaf))  # type: ignore[arg-type]
    assert not run.complete
    assert "the world hangs: 4000 objects are queued, 0 threads have not ended" in run.reason
    assert "gp asleep at wait_request" in run.reason
    assert run.virtual_ns < 200_000_000_000


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_shipped_scenario_runs_to_its_end(name: str) -> None:
    for scenario in load(name):
        run = simulate(scenario)
        assert run.complete, run.reason
        assert run.violations == ()
        assert run.objects.freed == run.objects.allocated > 0


@pytest.mark.parametrize(
    "scenario",
    [
        small("G1", slab=SlabTable(layout="gen1_struct_slab")),
        with_readers("G2"),
        burst("G0", sizes_bytes=(100, 500)),
    ],
    ids=["flood", "readers", "burst"],
)
def test_slabinfo_is_recorded_all_along(scenario: Scenario) -> None:
    run = simulate(scenario)
    series = run.slabinfo
    assert series is not None
    series.check()
    assert series.end_ns == run.virtual_ns
    assert 2 < len(series.at_ns) <= 256
    states = [series.at(at_ns).rows for at_ns in series.at_ns]
    assert not any(row.num_objs for row in states[0])
    for row in (row for rows in states for row in rows):
        assert row.num_objs == row.num_slabs * row.objperslab
        assert 0 <= row.sharedavail <= row.active_objs <= row.num_objs
        assert row.active_slabs <= row.num_slabs
    assert max(row.num_slabs for rows in states for row in rows) > 10


def test_what_slabinfo_recorded_was_true_at_its_instants(monkeypatch: pytest.MonkeyPatch) -> None:
    history: list[tuple[int, list[SlabinfoRow]]] = []

    class Eager(SlabinfoBuilder):
        def hold(self, until_ns: int) -> None:
            history.append((until_ns, list(self.rows())))
            super().hold(until_ns)

    monkeypatch.setattr("rcusim.simulation.watch.SlabinfoBuilder", Eager)
    series = simulate(burst("G2", sizes_bytes=(100, 500), bursts=1)).slabinfo
    assert series is not None
    ends = [until_ns for until_ns, _ in history]
    grid = range(0, series.end_ns, series.step_ns)
    assert 100 < len(grid) < 256
    for at_ns in grid:
        # the stretch that began at or before the instant and lasted beyond it
        assert list(series.at(at_ns).rows) == history[bisect_right(ends, at_ns)][1]


def test_an_allocator_that_does_not_tell_records_no_slabinfo() -> None:
    machine = MachineTable(cpus=2, memory_mib=64)
    scenario = small("G2", loops=2, machine=machine)
    parts = Parts(allocator=lambda _scenario, _platform, pages: SimpleAllocator(pages))
    run = simulate(scenario, parts=parts)
    assert run.complete
    assert run.slabinfo is None
