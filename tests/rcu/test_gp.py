"""The grace-period kthread, step by step."""

from __future__ import annotations

import pytest

from rcusim.errors import PropertyViolation
from rcusim.rcu import seq
from rcusim.rcu.config import RcuConfig
from rcusim.rcu.state import FQS, INIT
from tests.rcu.world import World


def two_leaves(**options: int) -> World:
    """Four CPUs in two leaves below a root, all in the kernel and outside of readers."""
    return World(RcuConfig(cpus=4, rcu_fanout_leaf=2, rcu_fanout=2, **options))  # type: ignore[arg-type] # integers only


def request(world: World, cpu: int = 0) -> None:
    """Queue a callback and let the tick and the core ask for a grace period."""
    world.call(cpu)
    world.tick(cpu)
    while not world.rcu.cores[cpu].asleep:
        world.core(cpu)


def positions(world: World, steps: int) -> list[str]:
    """Step the kthread, and return where each step was taken."""
    seen = []
    for _ in range(steps):
        if world.rcu.gp.asleep:
            break
        seen.append(world.rcu.gp.at)
        world.gp()
    return seen


def start(world: World) -> list[str]:
    """Request a grace period and let the kthread go until it waits for a scan."""
    request(world)
    return positions(world, 50)


def test_call_rcu_alone_starts_nothing() -> None:
    world = two_leaves()
    world.call(0)
    assert (world.outbox, world.rcu.state.gp_flags) == ([], 0)
    world.tick(0)
    world.core(0)
    assert world.rcu.state.gp_flags == INIT
    assert world.outbox[-1] is world.rcu.gp


def test_start_then_each_node_then_wait() -> None:
    world = two_leaves()
    assert start(world) == ["wait_request", "start", "init_node", "init_node", "init_node"]
    gp, rcu = world.rcu.gp, world.rcu.state
    assert (gp.at, gp.asleep, gp.fqs_timer.delay_jiffies) == ("wait_fqs", True, 1)
    assert gp.age_timer.delay_jiffies == 25
    assert [node.qsmask for node in rcu.nodes] == [3, 3, 3]
    assert rcu.gp_seq == seq.INITIAL + 1


def test_number_goes_up_before_the_nodes_and_ends_behind_them() -> None:
    world = two_leaves()
    request(world)
    positions(world, 2)
    rcu = world.rcu.state
    assert [seq.running(n) for n in (rcu.gp_seq, *(node.gp_seq for node in rcu.nodes))] == [
        True,
        False,
        False,
        False,
    ]
    positions(world, 9)
    for leaf in rcu.leaves:
        leaf.qsmask = 0
    rcu.root.qsmask = 0
    rcu.gp_flags |= FQS
    rcu.wake_kthread()
    assert positions(world, 2) == ["wait_fqs", "cleanup"]
    assert [seq.running(n) for n in (rcu.gp_seq, *(node.gp_seq for node in rcu.nodes))] == [
        True,
        False,
        True,
        True,
    ]
    assert positions(world, 9) == ["cleanup", "cleanup", "end"]
    assert (world.rcu.completed, rcu.gp_flags) == (1, 0)
    assert not world.rcu.gp.age_timer.pending


def test_idle_cpus_are_credited_at_the_first_scan_and_the_last_report_ends_it() -> None:
    world = two_leaves()
    for cpu in (1, 2, 3):
        world.idle_enter(cpu)
    start(world)
    world.rcu.gp.fqs_timer.expire()
    assert positions(world, 9) == ["wait_fqs", "fqs_leaf", "fqs_leaf", "report_up"]
    assert [node.qsmask for node in world.rcu.state.nodes] == [1, 1, 0]
    assert world.rcu.gp.asleep
    world.tick(0)  # noticed by the kthread already: records and raises
    world.core(0)
    assert world.rcu.cores[0].at == "report_up"
    assert world.rcu.gp.asleep
    world.core(0)
    assert world.rcu.state.gp_flags == FQS
    assert positions(world, 9) == ["wait_fqs", "cleanup", "cleanup", "cleanup", "end"]
    assert world.rcu.completed == 1
    assert not world.rcu.gp.fqs_timer.pending


def test_cpu_that_was_idle_after_the_snapshot_is_credited_at_the_second_scan() -> None:
    world = two_leaves()
    start(world)
    world.rcu.gp.fqs_timer.expire()
    positions(world, 9)
    assert world.rcu.state.leaves[0].qsmask == 3
    world.idle_enter(1)
    world.idle_exit(1)
    world.rcu.gp.fqs_timer.expire()
    positions(world, 9)
    assert world.rcu.state.leaves[0].qsmask == 1


def test_idle_period_before_the_snapshot_counts_for_nothing() -> None:
    world = two_leaves()
    start(world)
    world.idle_enter(1)
    world.idle_exit(1)
    for _ in range(2):
        world.rcu.gp.fqs_timer.expire()
        positions(world, 9)
    assert world.rcu.state.leaves[0].qsmask == 3


def test_first_scan_may_come_at_once() -> None:
    world = two_leaves(jiffies_till_first_fqs=0)
    assert start(world)[-2:] == ["fqs_leaf", "fqs_leaf"]
    assert world.rcu.gp.fqs_timer.delay_jiffies == 1


def test_wake_up_without_a_cause_is_slept_over() -> None:
    world = two_leaves()
    start(world)
    token = world.rcu.gp.fqs_timer.token
    world.rcu.gp.wake()
    assert positions(world, 9) == ["wait_fqs"]
    assert (world.rcu.gp.asleep, world.rcu.gp.fqs_timer.token) == (True, token)


def test_forced_scan_withdraws_the_request() -> None:
    world = two_leaves()
    world.rcu.state.force_quiescent_state()
    assert world.rcu.state.gp_flags == 0  # nothing to force
    start(world)
    world.rcu.state.force_quiescent_state()
    assert positions(world, 9) == ["wait_fqs", "fqs_leaf", "fqs_leaf", "clear_fqs"]
    assert (world.rcu.state.gp_flags, world.rcu.state.n_force_qs) == (0, 1)


def test_overload_shortens_waits_and_scans_twice_at_once() -> None:
    world = World(RcuConfig(cpus=4, rcu_fanout_leaf=2, rcu_fanout=2, hz=1000))
    start(world)
    assert world.rcu.gp.fqs_timer.delay_jiffies == 3
    world.rcu.state.leaves[1].cbovldmask = 1
    world.rcu.gp.fqs_timer.expire()
    positions(world, 9)
    # seen by this scan, in force from the next one on
    assert (world.rcu.state.cbovld, world.rcu.state.cbovldnext) == (False, True)
    assert world.rcu.gp.fqs_timer.delay_jiffies == 3
    world.rcu.gp.fqs_timer.expire()
    positions(world, 9)
    assert world.rcu.state.cbovld
    assert world.rcu.gp.fqs_timer.delay_jiffies == 1  # (3 + 2) / 3
    assert all(data.rcu_need_heavy_qs for data in world.rcu.data)


def test_overload_carries_over_to_the_first_scan_of_the_next_grace_period() -> None:
    world = two_leaves()
    world.rcu.state.cbovld = True
    seen = start(world)
    assert seen[-2:] == ["fqs_leaf", "fqs_leaf"]
    assert world.rcu.state.n_force_qs == 1


def test_requests_grow_more_urgent_with_age() -> None:
    world = two_leaves(hz=1000)
    start(world)
    gp, data = world.rcu.gp, world.rcu.data[3]

    def scan() -> tuple[bool, bool, bool]:
        gp.fqs_timer.expire()
        positions(world, 9)
        return data.rcu_urgent_qs, data.rcu_need_heavy_qs, data.context.need_resched

    scan()
    assert scan() == (False, False, False)
    gp.age_timer.expire()
    assert gp.age_timer.delay_jiffies == 100
    assert scan() == (True, False, False)
    gp.age_timer.expire()
    assert scan() == (True, True, False)
    for _ in range(103):
        gp.age_timer.expire()
    assert scan() == (True, True, True)
    data.context.need_resched = False
    assert scan() == (True, True, False)  # once for each 100 jiffies
    gp.age_timer.expire()
    assert scan() == (True, True, True)


def test_price_of_a_scan_counts_the_holdouts_and_locks_are_noted() -> None:
    world = two_leaves()
    start(world)
    gp = world.rcu.gp
    gp.held.clear()
    gp.fqs_timer.expire()
    assert gp.step() == 100
    assert gp.step() == 102
    assert [(lock.name, ns) for lock, ns in gp.held] == [("rcu_node 1", 100)]


def test_request_during_a_grace_period_needs_the_next_one() -> None:
    world = two_leaves()
    first = world.call(0)
    request(world)
    positions(world, 9)
    second = world.call(1)
    world.settle()
    # the kthread notices for its own CPU before the official end, CPU 1 notices behind it
    assert (first.ready_at, second.ready_at) == ([0], [2])


def test_request_while_the_nodes_are_cleaned_up_is_seen() -> None:
    world = two_leaves()
    for cpu in (1, 2, 3):
        world.idle_enter(cpu)
    start(world)
    world.rcu.gp.fqs_timer.expire()
    positions(world, 9)
    world.tick(0)
    world.core(0)
    world.core(0)
    assert positions(world, 4) == ["wait_fqs", "cleanup", "cleanup", "cleanup"]
    root = world.rcu.state.root
    root.gp_seq_needed = seq.snap(world.rcu.gp_seq)
    assert positions(world, 1) == ["end"]
    assert (world.rcu.gp.at, world.rcu.gp.asleep) == ("start", False)


def test_spurious_start_goes_back_to_wait() -> None:
    world = two_leaves()
    request(world)
    positions(world, 1)
    world.rcu.state.gp_flags = 0
    assert positions(world, 9) == ["start", "wait_request"]
    assert world.rcu.gp_seq == seq.INITIAL


def test_cleanup_with_a_holdout_is_found() -> None:
    world = two_leaves()
    start(world)
    world.rcu.state.root.qsmask = 0
    world.rcu.gp.wake()
    with pytest.raises(PropertyViolation, match=r"invariant I6.*node 1 still waits for 0x3"):
        positions(world, 9)


def test_single_node_is_root_and_leaf() -> None:
    world = World(RcuConfig(cpus=1))
    assert start(world) == ["wait_request", "start", "init_node"]
    assert world.rcu.data[0].core_needs_qs  # noticed by the kthread on its own CPU
    world.tick(0)
    world.core(0)
    assert positions(world, 9) == ["wait_fqs", "cleanup", "end"]
    assert world.rcu.data[0].cblist.ready
