"""The RCU core: order of its steps, quiescent states, batches of callbacks."""

from __future__ import annotations

import pytest

from rcusim.abc import Hold
from rcusim.errors import InternalError
from rcusim.rcu import seq
from rcusim.rcu.config import RcuConfig
from rcusim.rcu.segcblist import DONE
from tests.rcu.world import Run, World


def core_pass(world: World, cpu: int = 0) -> list[str]:
    """Step the core through one pass; return where each step was taken."""
    core, seen = world.rcu.cores[cpu], []
    while True:
        seen.append(core.at if core.at != "notice" else core.next_due("") or "notice")
        core.step()
        if core.at == "notice":
            return seen


def done(world: World, counts: list[int], price_ns: int = 10) -> list[Run]:
    """Give CPU 0 runs of callbacks whose grace period is over, and raise its core."""
    runs = [Run(world, count, 0, price_ns) for count in counts]
    cblist = world.rcu.data[0].cblist
    for run in runs:
        cblist.enqueue(run)
    cblist.accelerate(seq.INITIAL)
    cblist.advance(seq.INITIAL)
    world.rcu.cores[0].wake()
    return runs


def busy_world(**options: int) -> World:
    return World(RcuConfig(cpus=1, **options))  # type: ignore[arg-type] # integers only


def started(cpus: int) -> World:
    """A world in which a grace period has begun and the kthread waits."""
    world = World(RcuConfig(cpus=cpus))
    world.call(0)
    world.tick(0)
    world.core(0)
    while not world.rcu.gp.asleep:
        world.rcu.gp.step()
    return world


def test_core_sleeps_until_raised_and_goes_past_empty_steps() -> None:
    world = busy_world()
    core = world.rcu.cores[0]
    assert core.asleep
    world.call(0)
    world.tick(0)
    assert (core.asleep, core.raised, world.outbox) == (False, True, [core])
    assert core_pass(world) == ["accelerate"]
    assert (core.asleep, core.raised) == (True, False)


def test_pass_with_nothing_to_do_is_one_step() -> None:
    world = busy_world()
    world.rcu.cores[0].wake()
    assert core_pass(world) == ["notice"]
    assert world.rcu.cores[0].asleep


def test_notice_record_and_report_are_three_things() -> None:
    world = started(2)
    data = world.rcu.data[1]
    world.switch(1)  # before the CPU has noticed: does not count
    world.tick(1)
    assert core_pass(world, 1) == ["notice"]
    assert (data.cpu_no_qs, data.core_needs_qs) == (True, True)
    world.switch(1)  # records, reports nothing
    assert (data.cpu_no_qs, world.rcu.state.root.qsmask) == (False, 3)
    assert world.rcu.cores[1].asleep
    world.tick(1)
    assert core_pass(world, 1) == ["report"]
    assert (data.core_needs_qs, world.rcu.state.root.qsmask) == (False, 1)


def test_quiescent_state_during_a_pass_is_reported_in_another_pass() -> None:
    world = started(2)
    world.tick(1)
    core, data = world.rcu.cores[1], world.rcu.data[1]
    data.cblist.enqueue(Run(world, 1, 1))
    data.cblist.accelerate(seq.INITIAL)
    data.cblist.advance(seq.INITIAL)  # so that the pass goes on behind noticing
    core.step()
    assert core.at == "invoke"
    world.switch(1)
    world.tick(1)  # the softirq was interrupted: raises the core for the quiescent state
    core.step()
    assert (core.at, core.asleep) == ("notice", False)
    assert core_pass(world, 1) == ["report"]


def test_report_of_a_grace_period_that_is_over_is_refused() -> None:
    world = started(2)
    world.tick(1)
    core_pass(world, 1)
    world.switch(1)
    data = world.rcu.data[1]
    core = world.rcu.cores[1]
    core.wake()
    core.at = core.next_due("")
    assert core.at == "report"
    data.leaf.gp_seq = seq.end(data.leaf.gp_seq)
    core.step()
    assert (data.cpu_no_qs, data.leaf.qsmask) == (True, 3)


def test_report_lets_new_callbacks_use_the_next_grace_period() -> None:
    world = started(2)
    world.tick(1)
    core_pass(world, 1)
    world.call(1)
    world.switch(1)
    world.tick(1)
    assert core_pass(world, 1) == ["report"]
    cblist = world.rcu.data[1].cblist
    assert not cblist.unassigned
    assert cblist.gp_seq[1] == seq.INITIAL + 2 * seq.GP & seq.MASK
    assert world.rcu.data[1].leaf.gp_seq_needed == cblist.gp_seq[1]


def test_urgency_is_withdrawn_by_the_report() -> None:
    world = started(2)
    world.tick(1)
    core_pass(world, 1)
    data = world.rcu.data[1]
    data.rcu_urgent_qs = data.rcu_need_heavy_qs = True
    world.rcu.softirq_qs(1)
    world.rcu.cores[1].wake()
    core_pass(world, 1)
    assert (data.rcu_urgent_qs, data.rcu_need_heavy_qs) == (False, False)


def test_raising_during_a_pass_asks_for_another_one() -> None:
    world = busy_world(callbacks_per_step=4)
    done(world, [10])
    world.outbox.clear()
    core = world.rcu.cores[0]
    core.step()
    core.wake()
    assert world.outbox == []
    core.step()
    core.step()
    assert (core.at, core.asleep, core.raised) == ("notice", False, True)
    assert world.outbox == [core]


def test_core_notes_the_lock_of_the_leaf() -> None:
    world = started(2)
    world.tick(1)
    world.rcu.cores[1].step()
    assert world.rcu.cores[1].held == [(world.rcu.state.root.lock, 30)]


# -- batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("callbacks", "first_batch"),
    [(5, 5), (10, 10), (500, 10), (1280, 10), (12_800, 100), (100_000, 781)],
)
def test_limit_of_a_busy_cpu(callbacks: int, first_batch: int) -> None:
    world = busy_world(callbacks_per_step=1000)
    (run,) = done(world, [callbacks])
    core_pass(world)
    assert callbacks - run.count == first_batch
    assert world.rcu.data[0].cblist.n_cbs == run.count
    assert world.rcu.cores[0].asleep is (run.count == 0)


def test_idle_cpu_without_need_for_a_switch_invokes_everything() -> None:
    world = busy_world()
    (run,) = done(world, [1200])
    world.contexts[0].idle = True
    assert core_pass(world) == ["invoke"] * 3
    assert (run.count, run.invoked) == (0, [510, 510, 180])


def test_need_for_a_switch_ends_the_batch_of_an_idle_cpu() -> None:
    world = busy_world()
    (run,) = done(world, [1200])
    world.contexts[0].idle = True
    world.rcu.cores[0].step()
    world.contexts[0].need_resched = True
    world.rcu.cores[0].step()
    assert run.invoked == [510, 1]  # the rule is looked at behind a callback
    assert world.rcu.cores[0].at == "notice"


def test_rest_goes_back_in_front_and_the_core_is_raised_again() -> None:
    world = busy_world()
    first, second = done(world, [7, 7])
    core_pass(world)
    cblist = world.rcu.data[0].cblist
    assert (first.count, second.count, cblist.n_cbs) == (0, 4, 4)
    assert [entry.count for entry in cblist.segments[DONE]] == [4]
    core = world.rcu.cores[0]
    assert (core.asleep, core.raised, world.outbox) == (False, True, [core, core])
    core_pass(world)
    assert (second.invoked, cblist.n_cbs, core.asleep) == ([3, 4], 0, True)


def test_length_is_lowered_behind_the_whole_batch() -> None:
    world = busy_world(callbacks_per_step=4)
    done(world, [10])
    lengths = []
    for _ in range(3):
        world.rcu.cores[0].step()
        lengths.append(world.rcu.data[0].cblist.n_cbs)
    assert lengths == [10, 10, 0]


def test_price_of_a_step_is_that_of_its_callbacks() -> None:
    world = busy_world(callbacks_per_step=4)
    done(world, [3, 3], price_ns=7)
    assert [world.rcu.cores[0].step() for _ in range(2)] == [28, 14]


def test_large_batch_ends_at_the_first_check_behind_its_time() -> None:
    world = busy_world(rcu_resched_ns=1_000_000, callbacks_per_step=1000)
    (run,) = done(world, [100_000], price_ns=20_000)
    core_pass(world)
    assert run.invoked == [64]  # 50 callbacks use up the time, which is looked at every 32


def test_slow_cpu_has_as_much_time_and_does_less() -> None:
    world = busy_world(rcu_resched_ns=1_000_000, callbacks_per_step=1000)
    world.rcu.data[0].context.slowdown_permille = 2000
    (run,) = done(world, [100_000], price_ns=20_000)
    core_pass(world)
    assert run.invoked == [32]


def test_time_is_checked_in_step_with_the_batch_over_several_runs() -> None:
    world = busy_world(rcu_resched_ns=1_000_000, callbacks_per_step=1000)
    first, second, _rest = done(world, [40, 60, 100_000], price_ns=20_000)
    core_pass(world)
    assert (first.invoked, second.invoked) == ([40], [24])


def test_small_batch_has_no_limit_in_time() -> None:
    world = busy_world(rcu_resched_ns=1_000_000)
    (run,) = done(world, [80], price_ns=1_000_000)
    world.contexts[0].idle = True
    core_pass(world)
    assert run.count == 0


def test_divisor_zero_takes_everything() -> None:
    world = busy_world(rcu_divisor=0, callbacks_per_step=1000)
    (run,) = done(world, [900])
    core_pass(world)
    assert run.count == 0


def test_flood_limit_is_taken_back_when_the_list_is_short() -> None:
    world = busy_world()
    done(world, [300])
    data = world.rcu.data[0]
    data.blimit, data.qlen_last_fqs_check = 10_000, 20_000
    world.rcu.state.n_force_qs = 3
    world.rcu.cores[0].step()
    assert (data.blimit, data.qlen_last_fqs_check, data.n_force_qs_snap) == (10, 0, 3)


def test_mark_of_overload_follows_a_list_that_shrinks() -> None:
    world = busy_world(callbacks_per_step=1000)
    done(world, [5000])
    data = world.rcu.data[0]
    data.qlen_last_fqs_check = 14_961
    core_pass(world)
    assert data.qlen_last_fqs_check == 14_961  # 4,961 left
    data.qlen_last_fqs_check = 16_000
    core_pass(world)
    assert data.qlen_last_fqs_check == data.cblist.n_cbs


def test_locks_of_callbacks_are_those_of_the_step() -> None:
    world = busy_world()
    (run,) = done(world, [2])
    lock = Hold(name="list_lock")
    run.held.append((lock, 5))
    core_pass(world)
    assert world.rcu.cores[0].held == [(lock, 5)]
    assert run.held == []


class Reposting(Run):
    """A callback that queues itself again, twice at most."""

    def invoke(self, cpu: int, limit: int, budget_ns: int) -> tuple[int, int]:
        result = super().invoke(cpu, limit, budget_ns)
        if len(self.invoked) < 3:
            self.count = 1
            self.ready_at.clear()
            self.world.rcu.call(cpu, self)
        return result


def test_callback_may_queue_itself_again() -> None:
    world = World(RcuConfig(cpus=2))
    run = Reposting(world, 1)
    world.rcu.call(0, run)
    world.settle()
    assert (run.invoked, run.count, world.rcu.completed) == ([1, 1, 1], 0, 3)


class Broken(Run):
    """A run that claims to have invoked nothing."""

    def invoke(self, cpu: int, limit: int, budget_ns: int) -> tuple[int, int]:
        return super().invoke(cpu, limit, budget_ns)[0] - limit, 0


def test_run_that_invokes_nothing_is_our_mistake() -> None:
    world = busy_world()
    world.rcu.call(0, Broken(world, 1))
    with pytest.raises(InternalError, match="0 callbacks invoked of 1"):
        world.settle()
