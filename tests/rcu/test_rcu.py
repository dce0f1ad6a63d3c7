"""The face of RCU: building, hooks, queueing and overload, readers."""

from __future__ import annotations

import ast
from pathlib import Path

import attrs
import pytest

import rcusim.rcu.gp
from rcusim.errors import InternalError, PropertyViolation
from rcusim.machine.context import CpuContext
from rcusim.probes import Probes
from rcusim.rcu import seq
from rcusim.rcu.config import MAX_BLIMIT, RcuConfig
from rcusim.rcu.core import RcuCore
from rcusim.rcu.gp import GpKthread
from rcusim.rcu.rcu import Parts, Rcu
from rcusim.rcu.reporter import Reporter, checked_prices
from rcusim.rcu.state import FQS, INIT
from rcusim.rcu.tick import RcuTick
from tests.rcu.world import PRICES, Run, World


def world_of(cpus: int = 1, **options: int | str) -> World:
    return World(RcuConfig(cpus=cpus, **options))  # type: ignore[arg-type] # mixed options


def started(cpus: int = 2, **options: int | str) -> World:
    """A world in which a grace period has begun and the kthread waits."""
    world = world_of(cpus, **options)
    world.call(0)
    world.tick(0)
    world.core(0)
    while not world.rcu.gp.asleep:
        world.rcu.gp.step()
    return world


# -- building -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "step", "machine"),
    [("Reporter", "report_up", "GpKthread"), ("RcuCore", "invoke", "RcuCore")],
)
def test_missing_price_is_named(group: str, step: str, machine: str) -> None:
    prices = {name: dict(steps) for name, steps in PRICES.items()}
    del prices[group][step]
    with pytest.raises(KeyError, match=f"no price for step {step} of {machine}"):
        Rcu.build(
            RcuConfig(cpus=1),
            outbox=[],
            armed=[],
            prices=prices,
            probes=Probes(),
            cpus=[CpuContext(cpu=0)],
        )


def test_mutant_inherits_prices_and_replaces_one_role() -> None:
    class Mine(RcuTick):
        """A user's tick."""

    world = World(RcuConfig(cpus=1), attrs.evolve(Parts(), tick=Mine))
    assert type(world.rcu.ticks[0]) is Mine
    assert world.rcu.ticks[0].step() == 10


def test_number_of_contexts_must_be_that_of_cpus() -> None:
    with pytest.raises(InternalError, match="0 contexts for 3 CPUs"):
        Rcu.build(RcuConfig(cpus=3), outbox=[], armed=[], prices=PRICES, probes=Probes(), cpus=[])


@pytest.mark.parametrize("machine", [GpKthread, RcuCore, RcuTick])
def test_every_position_assigned_in_the_source_is_a_step(
    machine: type[GpKthread | RcuCore | RcuTick],
) -> None:
    source = Path(rcusim.rcu.gp.__file__).parent
    assigned = {
        node.value.value
        for name in ("gp.py", "core.py", "tick.py", "reporter.py")
        for node in ast.walk(ast.parse((source / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and node.targets[0].attr == "at"
        and isinstance(node.value, ast.Constant)
    }
    assert assigned <= {*GpKthread.STEPS, *RcuCore.STEPS, *RcuTick.STEPS}
    assert len(assigned) >= 9
    assert set(machine.STEPS) == set(checked_prices(PRICES, machine, machine.STEPS))


def test_step_without_a_method_is_our_mistake() -> None:
    with pytest.raises(InternalError, match="Reporter has no method for its step fly"):
        checked_prices(PRICES, Reporter, ("fly",))


def test_large_tree_is_wired() -> None:
    world = world_of(1025)
    assert [data.leaf.grplo for data in world.rcu.data] == [cpu // 16 * 16 for cpu in range(1025)]
    for data in world.rcu.data:
        assert data.leaf.qsmaskinit & data.grpmask


# -- queueing and overload ----------------------------------------------------------------------


def test_last_run_of_next_may_grow() -> None:
    world = world_of()
    assert world.rcu.next_tail(0) is None
    run = world.call(0, count=2)
    assert world.rcu.next_tail(0) is run
    run.count += 5
    world.rcu.extend(0, 5)
    assert world.rcu.data[0].cblist.n_cbs == 7
    world.tick(0)
    world.core(0)
    assert world.rcu.next_tail(0) is None
    assert world.rcu.needs_cpu(0)
    world.finish()
    assert not world.rcu.needs_cpu(0)


def test_flood_without_a_grace_period_requests_one_at_once() -> None:
    world = world_of(qhimark=100)
    world.call(0, count=100)
    assert world.rcu.state.gp_flags == 0
    world.call(0, count=1)
    assert world.rcu.state.gp_flags == INIT
    assert world.rcu.data[0].blimit == 10
    assert not world.rcu.data[0].cblist.unassigned


def test_flood_during_a_grace_period_raises_the_limit_and_forces_a_scan() -> None:
    world = started(qhimark=100)
    data, state = world.rcu.data[0], world.rcu.state
    run = world.call(0, count=99)
    assert (data.blimit, state.gp_flags) == (10, 0)
    run.count += 1
    world.rcu.extend(0, 1)
    assert (data.blimit, state.gp_flags, data.qlen_last_fqs_check) == (MAX_BLIMIT, FQS, 101)
    assert not world.rcu.gp.asleep
    world.gp()
    world.gp()
    world.gp()
    assert state.n_force_qs == 1
    world.call(0, count=101)  # somebody has forced since: only remembered
    assert (state.gp_flags, data.n_force_qs_snap, data.qlen_last_fqs_check) == (0, 1, 202)
    world.call(0, count=101)
    assert state.gp_flags == FQS
    world.finish()


def test_first_waiting_callback_forces_no_scan() -> None:
    world = started(cpus=2, qhimark=1)
    data = world.rcu.data[1]
    data.cblist.enqueue(Run(world, 5, 1))
    data.cblist.accelerate(seq.INITIAL)
    data.cblist.advance(seq.INITIAL)
    world.call(1)
    assert (data.blimit, world.rcu.state.gp_flags) == (MAX_BLIMIT, 0)


def test_overloaded_cpu_is_marked_at_its_leaf_until_it_has_caught_up() -> None:
    world = world_of(qhimark=10)
    leaf = world.rcu.data[0].leaf
    world.call(0, count=20)
    assert leaf.cbovldmask == 0  # looked at before the callbacks are queued
    world.call(0)
    assert leaf.cbovldmask == 1
    world.settle()
    world.call(0)
    assert leaf.cbovldmask == 0


def test_cleanup_takes_back_the_mark_of_overload() -> None:
    world = world_of(cpus=2, qhimark=10)
    world.rcu.data[1].leaf.cbovldmask = 2
    world.call(0)
    world.settle()
    assert world.rcu.data[1].leaf.cbovldmask == 0


def test_callback_queued_on_a_cpu_that_is_not_watched_raises_the_core() -> None:
    world = world_of()
    world.idle_enter(0)
    world.call(0)
    assert not world.rcu.cores[0].asleep


def test_snapshot_starts_nothing() -> None:
    world = world_of()
    assert world.rcu.snapshot() == (seq.INITIAL + seq.GP) & seq.MASK
    assert (world.rcu.gp_seq, world.rcu.state.gp_flags) == (seq.INITIAL, 0)


def test_second_requester_stops_where_the_first_one_has_asked() -> None:
    world = World(RcuConfig(cpus=4, rcu_fanout_leaf=2, rcu_fanout=2))
    state, wanted = world.rcu.state, world.rcu.snapshot()
    assert state.start_this_gp(state.leaves[0], world.rcu.data[0], wanted)
    assert not state.start_this_gp(state.leaves[0], world.rcu.data[1], wanted)
    assert not state.start_this_gp(state.leaves[1], world.rcu.data[2], wanted)
    assert [node.gp_seq_needed for node in state.nodes] == [wanted] * 3


def test_request_for_a_later_grace_period_spares_others_the_walk() -> None:
    world = World(RcuConfig(cpus=4, rcu_fanout_leaf=2, rcu_fanout=2))
    state, wanted = world.rcu.state, world.rcu.snapshot()
    state.start_this_gp(state.leaves[0], world.rcu.data[0], wanted + seq.GP)
    assert not state.start_this_gp(state.leaves[1], world.rcu.data[2], wanted)
    assert state.leaves[1].gp_seq_needed == wanted + seq.GP
    assert world.rcu.data[2].gp_seq_needed == wanted + seq.GP


def test_number_already_asked_for_needs_no_lock() -> None:
    world = world_of(cpus=2)
    world.call(0)
    data = world.rcu.data[0]
    data.gp_seq_needed = world.rcu.snapshot()
    world.tick(0)
    world.core(0)
    assert world.rcu.cores[0].held == []
    assert not data.cblist.unassigned


# -- hooks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("preempt", "helps"), [("full", False), ("voluntary", True)])
def test_context_switch_answers_urgent_requests(preempt: str, helps: bool) -> None:
    world = world_of(preempt=preempt)
    data = world.rcu.data[0]
    data.rcu_urgent_qs = data.rcu_need_heavy_qs = True
    world.switch(0)
    assert not data.cpu_no_qs
    assert (data.rcu_urgent_qs, data.rcu_need_heavy_qs) == (not helps, not helps)
    assert data.watching == (3 if helps else 1)


def test_cond_resched_helps_only_when_that_is_urgent() -> None:
    world = world_of(preempt="none")
    data = world.rcu.data[0]
    world.rcu.cond_resched(0)
    assert data.cpu_no_qs
    data.rcu_urgent_qs = True
    world.rcu.cond_resched(0)
    assert (data.cpu_no_qs, data.rcu_urgent_qs, data.watching) == (False, False, 1)


def test_cond_resched_does_nothing_in_a_preemptible_kernel() -> None:
    world = world_of(preempt="full")
    world.rcu.data[0].rcu_urgent_qs = True
    world.rcu.cond_resched(0)
    assert world.rcu.data[0].cpu_no_qs


def test_momentary_idle_credits_the_cpu_at_the_next_scan() -> None:
    world = started(preempt="none")
    for _ in range(2):
        world.rcu.gp.fqs_timer.expire()
        while not world.rcu.gp.asleep:
            world.rcu.gp.step()
    data = world.rcu.data[1]
    data.rcu_urgent_qs = data.rcu_need_heavy_qs = True
    world.rcu.cond_resched(1)
    world.rcu.gp.fqs_timer.expire()
    while not world.rcu.gp.asleep:
        world.rcu.gp.step()
    assert world.rcu.state.root.qsmask == 1


def test_idle_cpu_is_watched_during_interrupts() -> None:
    world = world_of()
    rcu, data = world.rcu, world.rcu.data[0]
    counters = [data.watching]
    for hook in (
        rcu.irq_enter,
        rcu.irq_exit,
        rcu.idle_enter,
        rcu.irq_enter,
        rcu.irq_enter,
        rcu.irq_exit,
        rcu.irq_exit,
        rcu.idle_exit,
    ):
        hook(0)
        counters.append(data.watching)
    assert counters == [1, 1, 1, 2, 3, 3, 3, 4, 5]


def test_idle_cannot_be_entered_twice_or_left_within_an_interrupt() -> None:
    world = world_of()
    with pytest.raises(InternalError, match="cpu0"):
        world.rcu.idle_exit(0)
    world.rcu.idle_enter(0)
    with pytest.raises(InternalError, match="cpu0"):
        world.rcu.idle_enter(0)
    world.rcu.irq_enter(0)
    with pytest.raises(InternalError, match="cpu0"):
        world.rcu.idle_enter(0)


# -- readers ------------------------------------------------------------------------------------


def test_only_outermost_readers_are_announced() -> None:
    world = world_of()
    seen: list[tuple[str, str, int]] = []
    world.rcu.probes.reader_locked.subscribe(lambda name, cpu: seen.append(("lock", name, cpu)))
    world.rcu.probes.reader_unlocked.subscribe(lambda name, cpu: seen.append(("unlock", name, cpu)))
    for hook in (
        world.rcu.read_lock,
        world.rcu.read_lock,
        world.rcu.read_unlock,
        world.rcu.read_unlock,
    ):
        hook(0, "r")
    assert seen == [("lock", "r", 0), ("unlock", "r", 0)]
    assert world.rcu.nesting == {}


def test_reader_on_an_idle_cpu_is_found() -> None:
    world = world_of()
    world.idle_enter(0)
    with pytest.raises(PropertyViolation, match="invariant I12"):
        world.rcu.read_lock(0, "r")


def test_unlock_without_lock_is_found() -> None:
    world = world_of()
    with pytest.raises(PropertyViolation, match="r unlocks what it did not lock"):
        world.rcu.read_unlock(0, "r")


def test_description_names_who_is_waited_for() -> None:
    world = started(cpus=2)
    assert world.rcu.describe() == [
        "gp asleep at wait_fqs, gp_seq 0xfffffffffffffb51, flags 0",
        "node 0 (CPUs 0-1): waits for 0x3",
        "cpu0: callbacks [0, 1, 0, 0], core asleep at notice",
    ]
