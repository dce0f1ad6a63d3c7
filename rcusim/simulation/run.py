"""Running a world and keeping what was seen: the only place that reads the host's clock.

A signal sets a flag that the engine reads between steps; what was recorded until then is kept and marked.
A violated property, a limit and a hang end the run in the same way, each with its own mark.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs
import trio

from rcusim import _jit
from rcusim.engine.stop import catching
from rcusim.errors import Interrupted, LimitReached, PropertyViolation
from rcusim.results.model import ObjectCounts, RcuscaleResult, RunResult, Statistics
from rcusim.results.series import SeriesBuilder
from rcusim.scenario import MachineTable, RcuscaleWorkload, Scenario, SlabTable, resolved
from rcusim.simulation.watch import LimitWatch, StallWatch, Watch, describe
from rcusim.simulation.world import Parts, World, build
from rcusim.units import MS_NS
from rcusim.workloads.rcuscale import KfreeTest

Progress = Callable[[int, int], None]

LATE_ID = 1 << 40
"""Actor ids of watches: behind everything of the model."""


@attrs.define
class _Ending:
    """How a run ended."""

    violations: list[str] = attrs.field(factory=list)
    reason: str = ""
    interrupted: bool = False


def simulate(
    scenario: Scenario, *, progress: Progress | None = None, parts: Parts | None = None
) -> RunResult:
    """Run one scenario.

    Parameters
    ----------
    scenario : Scenario
        One resolved variant.
    progress : callable or None
        Now and then told how many objects were freed and how many there will be.
    parts : Parts or None
        Other classes for some roles.

    Returns
    -------
    RunResult
        Marked as incomplete when a property was violated, a limit was reached or a signal came.

    Raises
    ------
    ScenarioError
        When parts of the scenario do not fit together.
    """
    with catching() as flag:
        compile_s = _warm_up(scenario.slab.allocator)
        world = build(scenario, parts)
        watch = Watch.attach(world, SeriesBuilder())
        world.engine.stop = flag.is_raised
        world.engine.waiting = lambda: describe(world)
        if progress is not None:
            total = world.objects_total()
            world.engine.progress = lambda: progress(world.books.freed, total)
        began_s = time.perf_counter()
        ending = _run(world, watch)
        wall_s = time.perf_counter() - began_s
    return _result(world, watch, ending, wall_s, compile_s)


def _warm_up(allocator: str) -> float:
    """Compile the kernels, or load them, on tiny worlds; return the seconds that took."""
    if not _jit.COMPILED or allocator in _warm:
        return 0.0
    began_s = time.perf_counter()
    _warm.append(allocator)
    try:
        _run_small_worlds(allocator)
    except _jit.CACHE_ERRORS:
        # files of the compile cache are damaged, or there is no room for new ones
        _jit.forget_cache()
        _run_small_worlds(allocator)
    return time.perf_counter() - began_s


def _run_small_worlds(allocator: str) -> None:
    small = Scenario(
        name="warm-up",
        machine=MachineTable(cpus=1, memory_mib=64),
        slab=SlabTable(allocator=allocator),
        workload=RcuscaleWorkload(kfree_alloc_num=600, kfree_loops=4),
    )
    for generation in ("G1", "G2"):
        run = simulate(
            attrs.evolve(small, reclaim=attrs.evolve(small.reclaim, generation=generation))
        )
        if run.interrupted:
            raise Interrupted("stopped by a signal while kernels were compiled")


_warm: list[str] = []
"""Allocators whose kernels are compiled in this process."""


def _run(world: World, watch: Watch) -> _Ending:
    ending = _Ending()
    engine = world.engine
    stall = StallWatch(LATE_ID, "stall watch", world=world, interval=watch.interval)
    engine.schedule(stall, 0)
    limit_ms = world.scenario.run.limit_ms
    if limit_ms:
        engine.schedule(LimitWatch(LATE_ID + 1, "limit", world=world), limit_ms * MS_NS)
    try:
        world.start()
        trio.run(engine.run, world.machines)
        watch.conservation.drained()
    except PropertyViolation as error:
        ending.violations.append(str(error))
        ending.reason = str(error)
    except Interrupted as error:
        ending.interrupted = True
        ending.reason = str(error)
    except LimitReached as error:
        ending.reason = str(error)
    if world.outcome.failed and not ending.reason:
        names = ", ".join(world.outcome.failed)
        ending.reason = f"out of memory: {names} got no page for 10 s and ended with -ENOMEM"
    return ending


def _result(
    world: World, watch: Watch, ending: _Ending, wall_s: float, compile_s: float
) -> RunResult:
    books = world.books
    now_ns = world.engine.now_ns
    violated = bool(ending.violations)
    return RunResult(
        scenario=resolved(world.scenario),
        complete=not ending.reason,
        virtual_ns=now_ns,
        wall_s=wall_s,
        compile_s=compile_s,
        objects=ObjectCounts(
            allocated=books.allocated,
            queued=books.queued,
            freed=books.freed,
            emergency=books.emergency,
            in_flight_peak=books.in_flight_peak,
        ),
        grace_periods=world.rcu.completed,
        series=watch.series.finish(now_ns, None if violated else watch.parts_bytes),
        cpu_ns=_cpu_ns(world),
        rcuscale=_rcuscale(world),
        violations=tuple(ending.violations),
        interrupted=ending.interrupted,
        reason=ending.reason,
        statistics=_statistics(world, watch),
        slabinfo=(
            None if watch.slabinfo is None else watch.slabinfo.finish(now_ns, known=not violated)
        ),
    )


def _cpu_ns(world: World) -> dict[str, int]:
    """Return CPU time by consumer over all CPUs."""
    spent_ns: dict[str, int] = {}
    for cpu in world.scheduler.cpus:
        cpu.account()
        for consumer, time_ns in cpu.spent_ns.items():
            spent_ns[consumer] = spent_ns.get(consumer, 0) + time_ns
    return dict(sorted(spent_ns.items()))


def _rcuscale(world: World) -> RcuscaleResult | None:
    if not isinstance(world.workload, KfreeTest) or world.workload.line is None:
        return None
    line = world.workload.line
    return RcuscaleResult(
        total_ns=line.total_ns,
        loops=line.loops,
        batches=line.batches,
        footprint_mb=line.footprint_mb,
    )


def _statistics(world: World, watch: Watch) -> Statistics:
    books = world.books
    entries = books.blocks_filled * world.scenario.reclaim.block_entries
    ended = world.rcu.completed
    counters = {
        "steps": watch.conservation.steps,
        "recounts": watch.conservation.recounts,
        "sections": watch.interval.sections,
        "objects_checked": watch.interval.checked,
        "objects_freed_under_reader": watch.interval.under_reader,
        "pages_refused": world.pages.refused,
    }
    for lock in world.allocator.locks():
        counters[f"{lock.name} wait_ns"] = lock.wait_ns
    counters.update(world.allocator.counters())
    return Statistics(
        block_fill_permille=books.block_objects * 1000 // entries if entries else None,
        worker_wakeups=sum(worker.wakeups for worker in world.kworkers),
        oldest_age_ns_max=books.wait_ns_max,
        oldest_age_ns_mean=(
            watch.oldest_ns_sum // watch.oldest_samples if watch.oldest_samples else None
        ),
        wait_ns_mean=books.wait_ns_sum // books.freed if books.freed else None,
        gp_ns_max=watch.gp_ns_max if ended else None,
        gp_ns_mean=watch.gp_ns_sum // ended if ended else None,
        frees_by_path=dict(sorted(books.freed_by.items())),
        counters=counters,
    )
