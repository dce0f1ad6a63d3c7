"""What counts as a quiescent state in the tick, and when the core is raised."""

from __future__ import annotations

import pytest

from rcusim.machine.context import CpuContext
from rcusim.rcu.config import RcuConfig
from tests.rcu.world import World

KERNEL = CpuContext(cpu=0)
READER = CpuContext(cpu=0, preempt_off=True)
USER = CpuContext(cpu=0, user=True)
IDLE = CpuContext(cpu=0, idle=True)
SOFTIRQ = CpuContext(cpu=0, softirq=True)
SOFTIRQ_ON_IDLE = CpuContext(cpu=0, idle=True, softirq=True)


@pytest.mark.parametrize(
    ("context", "preempt_rcu", "otherwise"),
    [
        (KERNEL, True, False),
        (READER, False, False),
        (USER, True, True),
        (IDLE, False, True),
        (SOFTIRQ, False, False),
        (SOFTIRQ_ON_IDLE, False, False),
    ],
)
def test_which_ticks_are_quiescent(context: CpuContext, preempt_rcu: bool, otherwise: bool) -> None:
    for preempt, expected in (("full", preempt_rcu), ("none", otherwise), ("voluntary", otherwise)):
        world = World(RcuConfig(cpus=1, preempt=preempt))
        world.rcu.data[0].context = context
        world.rcu.ticks[0].step()
        assert world.rcu.data[0].cpu_no_qs is not expected


@pytest.mark.parametrize(
    ("context", "switch"), [(KERNEL, True), (READER, True), (USER, False), (IDLE, False)]
)
def test_urgent_request_asks_for_a_switch_unless_user_or_idle(
    context: CpuContext, switch: bool
) -> None:
    world = World(RcuConfig(cpus=1, preempt="none"))
    data = world.rcu.data[0]
    data.context = context
    data.rcu_urgent_qs = True
    world.rcu.ticks[0].step()
    assert (context.need_resched, data.rcu_urgent_qs) == (switch, False)
    context.need_resched = False


def test_core_is_raised_for_each_kind_of_work_and_for_nothing_else() -> None:
    world = World(RcuConfig(cpus=1))
    tick, core, data = world.rcu.ticks[0], world.rcu.cores[0], world.rcu.data[0]
    world.tick(0)
    assert core.asleep
    assert not tick.enabled()
    world.call(0)
    assert tick.pending()  # unassigned callbacks, no grace period
    world.tick(0)
    world.core(0)
    assert not tick.pending()
    world.gp()
    world.gp()
    assert not tick.pending()  # begun, but the leaf does not know
    world.rcu.gp.step()
    assert data.core_needs_qs
    data.cpu_no_qs = True
    assert not tick.pending()  # noticed, no quiescent state yet
    data.record_qs()
    assert tick.pending()  # to be reported
    data.core_needs_qs = False
    world.call(0)
    assert not tick.pending()  # unassigned, but a grace period is in progress
    data.leaf.gp_seq += 3
    assert tick.pending()  # to be noticed
    data.gp_seq = data.leaf.gp_seq
    data.cblist.accelerate(0)
    data.cblist.advance(0)
    assert tick.pending()  # to be invoked


def test_hidden_ticks_change_nothing() -> None:
    world = World(RcuConfig(cpus=1))
    world.tick(0)
    data = world.rcu.data[0]
    assert not world.rcu.ticks[0].enabled()
    before = (data.cpu_no_qs, data.rcu_urgent_qs, world.rcu.cores[0].asleep)
    world.rcu.ticks[0].step()
    assert (data.cpu_no_qs, data.rcu_urgent_qs, world.rcu.cores[0].asleep) == before
