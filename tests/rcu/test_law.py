"""The grace-period law under any schedule, and broken machines that must be caught."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcusim.engine.choices import Stream
from rcusim.errors import PropertyViolation
from rcusim.rcu import seq
from rcusim.rcu.config import RcuConfig
from rcusim.rcu.core import RcuCore
from rcusim.rcu.gp import GpKthread
from rcusim.rcu.rcu import Parts
from rcusim.rcu.state import FQS, RcuData, RcuState
from rcusim.rcu.tick import RcuTick
from rcusim.rcu.tree import RcuNode
from tests.rcu.world import HangError, LawBrokenError, World

CONFIGS = {
    "one": RcuConfig(cpus=1),
    "leaf": RcuConfig(cpus=3),
    "leaf, none": RcuConfig(cpus=3, preempt="none"),
    "two leaves": RcuConfig(cpus=4, rcu_fanout_leaf=2, rcu_fanout=2),
    "three levels": RcuConfig(cpus=8, rcu_fanout_leaf=2, rcu_fanout=2, preempt="voluntary"),
    "17": RcuConfig(cpus=17),
}


def drive(world: World, schedule: list[int]) -> None:
    """Take the moves that a schedule chooses, then let everything come to its end."""
    for choice in schedule:
        moves = world.enabled()
        moves[choice % len(moves)]()
    world.finish()


# -- the law holds ------------------------------------------------------------------------------


@pytest.mark.parametrize("cpus", [1, 8, 17, 64])
@pytest.mark.parametrize("fanout", [(16, 64), (8, 8)])
@pytest.mark.parametrize("preempt", ["none", "full"])
def test_every_request_is_answered(cpus: int, fanout: tuple[int, int], preempt: str) -> None:
    leaf, inner = fanout
    config = RcuConfig(cpus=cpus, rcu_fanout_leaf=leaf, rcu_fanout=inner, preempt=preempt)
    world = World(config)
    for cpu in range(0, cpus, 3):
        world.call(cpu, count=1 + cpu)
    world.round()
    late = world.call(cpus - 1)
    world.finish()
    assert late.ready_at
    assert 2 <= world.rcu.completed <= 3


def test_idle_cpus_do_not_hold_a_grace_period_up() -> None:
    world = World(RcuConfig(cpus=64))
    for cpu in range(1, 64):
        world.idle_enter(cpu)
    world.call(0)
    world.finish()
    assert world.rcu.completed == 1
    assert all(world.rcu.data[cpu].gp_seq == seq.INITIAL for cpu in range(1, 64))


def test_idle_cpu_with_callbacks_needs_its_tick_and_gets_them_invoked() -> None:
    world = World(RcuConfig(cpus=2))
    run = world.call(1)
    world.idle_enter(1)
    assert world.rcu.needs_cpu(1)
    world.finish()
    assert run.count == 0


@pytest.mark.parametrize("preempt", ["none", "full"])
def test_reader_holds_the_grace_period_up_as_long_as_it_reads(preempt: str) -> None:
    world = World(RcuConfig(cpus=2, preempt=preempt))
    world.lock(1)
    world.call(0)
    for _ in range(40):
        world.round(unlock=False)
    assert world.rcu.completed == 0
    assert world.contexts[1].need_resched  # what an old grace period asks for
    world.unlock(1)
    world.finish()
    assert world.rcu.completed == 1


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, (1 << 32) - 1), steps=st.integers(0, 600))
def test_law_holds_under_any_schedule(name: str, seed: int, steps: int) -> None:
    world = World(CONFIGS[name])
    stream = Stream.named(seed, "any")
    drive(world, [stream.below(1 << 16) for _ in range(steps)])
    assert not world.owed()
    assert not world.older


def test_numbers_may_wrap() -> None:
    world = World(RcuConfig(cpus=2))
    wrapped = False
    for _ in range(310):
        run = world.call(1)
        world.settle()
        assert run.count == 0
        wrapped |= world.rcu.gp_seq < seq.HALF
    assert wrapped
    assert world.rcu.completed >= 310


def test_same_schedule_gives_the_same_steps() -> None:
    stream = Stream.named(1, "determinism")
    schedule = [stream.below(1 << 16) for _ in range(400)]
    seen = []
    for _ in range(2):
        world = World(CONFIGS["two leaves"])
        drive(world, schedule)
        seen.append((world.rcu.gp_seq, world.names, [run.invoked for run in world.runs]))
    assert seen[0] == seen[1]


# -- broken machines ----------------------------------------------------------------------------


class EndWithoutWaiting(GpKthread):
    """Does not wait for quiescent states; nor do its nodes."""

    def wait_fqs(self) -> None:
        for node in self.rcu.nodes:
            node.qsmask = 0
        super().wait_fqs()


class ForgetsACpu(GpKthread):
    """Initialises the leaves without their second CPU."""

    def init_node(self) -> None:
        node = self.rcu.nodes[self.node]
        super().init_node()
        if node.is_leaf:
            node.qsmask &= ~2


class DoesNotLookAgain(GpKthread):
    """Cleanup overlooks requests for the next grace period."""

    def wanted(self) -> bool:
        return False


class KeepsOldSnapshots(GpKthread):
    """Compares with the idle counter of an earlier grace period (M26)."""

    def snapshot(self, data: RcuData) -> bool:
        if not data.watching_snap:
            return super().snapshot(data)
        return self.recheck(data)


class CleansUpBusyNodes(GpKthread):
    """Ends the wait at a time-out, whoever has not reported."""

    def wait_fqs(self) -> None:
        if self.fqs_due and not self.first_fqs:
            self.at, self.need_gp = "cleanup", False
            return
        super().wait_fqs()


class ReportsWithoutRecord(RcuData):
    """A quiescent state from before the notice counts (M25)."""

    def note_gp_changes(self) -> bool:
        before = self.cpu_no_qs
        wake = super().note_gp_changes()
        self.cpu_no_qs &= before
        return wake


class NeverNeedsAQs(RcuData):
    """Noticing does not see that the grace period waits for this CPU (M07)."""

    def note_gp_changes(self) -> bool:
        wake = super().note_gp_changes()
        self.core_needs_qs = False
        return wake


class NeverRecords(RcuData):
    """Quiescent states are lost (M08)."""

    def record_qs(self) -> None:
        return


class JoinsTheRunningOne(RcuState):
    """A request is content with the grace period in progress (M24)."""

    def snapshot(self) -> int:
        return (
            (self.gp_seq + seq.STATE_MASK) & ~seq.STATE_MASK & seq.MASK
            if (self.gp_in_progress)
            else super().snapshot()
        )


class LosesWakeUps(RcuState):
    """Flags are set, and nobody is told."""

    def wake_kthread(self) -> None:
        return


class IgnoresOthers(RcuCore):
    """The first report passes through the node (M06)."""

    def clear_bits(self, node: RcuNode, mask: int, gp_seq: int) -> None:
        super().clear_bits(node, node.qsmask or mask, gp_seq)


class StopsAtTheLeaf(RcuCore):
    """Reports are not passed on to the parent."""

    def report_up(self) -> None:
        self.reported()


class RecordsInReaders(RcuTick):
    """Every tick is a quiescent state (M02)."""

    def quiescent(self) -> bool:
        return True


MUTANTS = {
    "end without waiting": (attrs.evolve(Parts(), gp=EndWithoutWaiting), "leaf", LawBrokenError),
    "a CPU's bit forgotten": (attrs.evolve(Parts(), gp=ForgetsACpu), "leaf", LawBrokenError),
    "no second look": (attrs.evolve(Parts(), gp=DoesNotLookAgain), "leaf", HangError),
    "old idle snapshot": (attrs.evolve(Parts(), gp=KeepsOldSnapshots), "leaf", LawBrokenError),
    "ends at a time-out": (attrs.evolve(Parts(), gp=CleansUpBusyNodes), "leaf", PropertyViolation),
    "old quiescent state": (
        attrs.evolve(Parts(), data=ReportsWithoutRecord),
        "leaf",
        LawBrokenError,
    ),
    "no need seen": (attrs.evolve(Parts(), data=NeverNeedsAQs), "leaf", HangError),
    "nothing recorded": (attrs.evolve(Parts(), data=NeverRecords), "leaf", HangError),
    "joins the running one": (
        attrs.evolve(Parts(), state=JoinsTheRunningOne),
        "leaf",
        LawBrokenError,
    ),
    "lost wake-ups": (attrs.evolve(Parts(), state=LosesWakeUps), "leaf", HangError),
    "first report passes": (
        attrs.evolve(Parts(), core=IgnoresOthers),
        "two leaves",
        LawBrokenError,
    ),
    "report stops": (attrs.evolve(Parts(), core=StopsAtTheLeaf), "two leaves", HangError),
    "tick in readers": (attrs.evolve(Parts(), tick=RecordsInReaders), "leaf", LawBrokenError),
}


def hunt(
    config: RcuConfig, parts: Parts, expected: type[Exception] | None, runs: int = 600
) -> set[type[Exception]]:
    """Drive random schedules until one goes wrong as expected; return how they went wrong."""
    found: set[type[Exception]] = set()
    for run in range(runs):
        stream = Stream.named(run, "schedule")
        try:
            drive(World(config, parts), [stream.below(1 << 16) for _ in range(150)])
        except (LawBrokenError, HangError, PropertyViolation) as error:
            found.add(type(error))
        if expected in found:
            break
    return found


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name: str) -> None:
    parts, config, expected = MUTANTS[name]
    assert expected in hunt(CONFIGS[config], parts, expected)


@pytest.mark.parametrize("config", CONFIGS)
def test_correct_machines_are_not(config: str) -> None:
    assert hunt(CONFIGS[config], Parts(), None, runs=150) == set()


def test_forced_scan_of_a_finished_grace_period_does_no_harm() -> None:
    world = World(CONFIGS["leaf"])
    world.call(0)
    world.settle()
    world.rcu.state.gp_flags |= FQS
    world.rcu.state.wake_kthread()
    world.rcu.gp.step()
    assert world.rcu.gp.asleep
    world.call(0)
    world.finish()
    assert world.rcu.completed == 2
