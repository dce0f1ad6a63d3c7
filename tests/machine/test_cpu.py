from __future__ import annotations

from typing import ClassVar

import pytest

from rcusim.abc import Hold
from rcusim.engine.steps import Timer, state
from tests.machine.rig import JIFFY_NS, Rig, SoftirqScript


@pytest.mark.parametrize("inline", [True, False])
async def test_a_thread_from_idle_pays_wake_up_and_switch_then_its_steps(inline: bool) -> None:
    rig = Rig(inline=inline)
    rig.thread("a", [100, 50, 10])
    assert await rig.run(100_000) == [(2_500, "a"), (2_600, "a"), (2_650, "a")]
    spent = rig.scheduler.cpus[0].spent_ns
    assert spent == {"idle": 500 + 100_000 - 2_660, "switch": 2_000, "a": 160}
    assert rig.rcu.log == ["idle 0", "busy 0", "switch 0", "switch 0", "idle 0"]


async def test_a_slow_cpu_pays_more_for_the_same_step() -> None:
    rig = Rig(cpus=2, slowdown=(1000, 2500))
    rig.thread("fast", [1000, 1])
    rig.thread("slow", [1000, 1], cpu=1)
    log = await rig.run(100_000)
    assert log == [(2_500, "fast"), (3_500, "fast"), (6_250, "slow"), (8_750, "slow")]


async def test_a_nice_0_thread_that_wakes_preempts_a_nice_19_one_at_once() -> None:
    rig = Rig()
    rig.thread("low", [1_000_000, 10], nice=19)
    high = rig.thread("high", [300, 20], asleep=True)
    rig.at(100_000, high.wake)
    assert await rig.run(2_000_000) == [
        (2_500, "low"),
        (102_000, "high"),
        (102_300, "high"),
        (2_500 + 1_000_000 + 2_000 + 320 + 2_000, "low"),
    ]


async def test_without_preemption_it_waits_for_the_end_of_the_step() -> None:
    rig = Rig(preempt="none")
    rig.thread("low", [1_000_000, 10], nice=19)
    high = rig.thread("high", [300, 20], asleep=True)
    rig.at(100_000, high.wake)
    log = await rig.run(2_000_000)
    assert log == [(2_500, "low"), (1_004_500, "high"), (1_004_800, "high"), (1_006_820, "low")]


async def test_a_step_that_may_not_be_left_is_not_left() -> None:
    rig = Rig()
    low = rig.thread("low", [1_000_000, 10], nice=19)
    low.preempt_off = True
    high = rig.thread("high", [300, 20], asleep=True)
    rig.at(100_000, high.wake)
    log = await rig.run(2_000_000)
    assert log[1] == (1_004_500, "high")


async def test_cond_resched_is_reported_only_without_preemption() -> None:
    rig = Rig(preempt="voluntary")
    rig.thread("a", [100, 100, 100])
    await rig.run(100_000)
    assert rig.rcu.log.count("cond_resched 0") == 2


async def test_a_tick_steals_time_and_comes_each_jiffy() -> None:
    rig = Rig()
    rig.thread("a", [5_000_000, 5_000_000, 1])
    log = await rig.run(20_000_000)
    # ticks at 4 and 8 ms, 1 us each
    assert log == [(2_500, "a"), (5_003_500, "a"), (10_004_500, "a")]
    assert rig.scheduler.cpus[0].spent_ns["irq"] == 2_000


async def test_equal_threads_share_by_slices_of_the_latency() -> None:
    rig = Rig()
    rig.thread("a", [1_000_000] * 30)
    rig.thread("b", [1_000_000] * 30)
    await rig.run(40_000_000)
    spent = rig.scheduler.cpus[0].spent_ns
    assert abs(spent["a"] - spent["b"]) <= 8_000_000
    assert spent["a"] + spent["b"] > 39_000_000


async def test_nice_19_keeps_its_share_beside_nice_0() -> None:
    rig = Rig()
    rig.thread("low", [100_000] * 100_000, nice=19)
    rig.thread("high", [100_000] * 100_000)
    await rig.run(4_000_000_000)
    spent = rig.scheduler.cpus[0].spent_ns
    assert 0.010 < spent["low"] / (spent["low"] + spent["high"]) < 0.025  # 15 / (15 + 1024) = 1.4 %


async def test_an_unpinned_thread_goes_to_an_idle_cpu() -> None:
    rig = Rig(cpus=3)
    rig.thread("a", [1_000_000, 1])
    mover = rig.thread("m", [100, 1], asleep=True, pinned=False)
    rig.at(50_000, mover.wake)
    log = await rig.run(1_000_000)
    assert (mover.cpu, log[1]) == (1, (52_500, "m"))


async def test_with_no_cpu_idle_it_goes_to_whichever_of_home_and_waker_was_less_loaded() -> None:
    rig = Rig(cpus=2)
    rig.thread("light", [200_000_000, 1], cpu=0, nice=19)
    rig.thread("heavy", [200_000_000, 1], cpu=1)
    mover = rig.thread("m", [100, 1], cpu=1, asleep=True, pinned=False)
    rig.at(100_000_000, mover.wake)  # woken from CPU 0
    await rig.run(101_000_000)
    assert mover.cpu == 0


async def test_averages_decide_not_what_runs_at_the_instant() -> None:
    rig = Rig(cpus=2)
    rig.thread("was heavy", [90_000_000, 1], cpu=0)
    rig.thread("light", [200_000_000, 1], cpu=0, nice=19)
    rig.thread("was light", [200_000_000, 1], cpu=1, nice=19)
    newcomer = rig.thread("newly heavy", [50_000_000, 1], cpu=1, asleep=True)
    mover = rig.thread("m", [100, 1], cpu=1, asleep=True, pinned=False)
    rig.at(99_000_000, newcomer.wake)
    rig.at(100_000_000, mover.wake)  # woken from CPU 0, where nothing heavy runs now
    await rig.run(101_000_000)
    assert mover.cpu == 1


async def test_softirqs_run_at_the_end_of_the_tick_on_top_of_the_thread() -> None:
    rig = Rig()
    rig.thread("a", [5_000_000, 1])
    softirq = rig.raised[0]
    timer = Timer(name="x", armed=rig.armed, fire=softirq.wake)
    softirq.script = [700, 10]
    rig.at(3_000_000, lambda: timer.arm(0, 1))
    log = await rig.run(20_000_000)
    # armed in jiffy 0 for one whole jiffy: fires at the tick that begins jiffy 2, at 8 ms... of an idle CPU
    assert log[0] == (2_500, "a")
    assert (8_001_100, "softirq0") in log
    assert rig.scheduler.cpus[0].spent_ns["softirq"] == 100 + 710


async def test_a_softirq_raised_outside_of_interrupts_is_left_to_ksoftirqd() -> None:
    rig = Rig()
    rig.thread("a", [30_000_000, 1], nice=19)
    softirq = rig.raised[0]
    softirq.script = [10, 10]
    rig.at(1_000_000, softirq.wake)
    log = await rig.run(3_000_000)
    # wake-up preempts the nice-19 thread; a switch of 2 us, then a step each, 50 ns of ksoftirqd's own
    assert log[1:] == [(1_002_000, "softirq0"), (1_002_060, "softirq0")]
    assert rig.scheduler.cpus[0].spent_ns["softirq"] == 120
    assert "softirq qs 0" in rig.rcu.log


async def test_a_softirq_that_raises_itself_again_is_restarted_ten_times_then_left_to_ksoftirqd() -> (
    None
):
    rig = Rig()
    rig.thread("a", [30_000_000, 1], nice=19)

    @state
    class Restless(SoftirqScript):
        def step(self) -> int:
            self.rig.log.append((self.rig.engine.now_ns, self.name))
            self.sleep()
            if len(self.rig.log) < 16:
                self.wake()
            return 100

    restless = Restless(
        name="restless", outbox=rig.outbox, prices={}, cpu=0, asleep=True, rig=rig, script=[]
    )
    rig.scheduler.cpus[0].softirqs.append(restless)
    rig.machines.append(restless)
    timer = Timer(name="x", armed=rig.armed, fire=restless.wake)
    rig.at(1_000_000, lambda: timer.arm(0, 0))
    log = await rig.run(6_000_000)
    times = [ns for ns, name in log if name == "restless"]
    in_softirq = [ns for ns in times if ns < 4_000_000 + 1_000 + 100 + 10 * 100]
    assert len(times) == 15
    assert (
        len(in_softirq) == 9
    )  # ten passes (MAX_SOFTIRQ_RESTART), the first is the timer softirq alone
    assert times[len(in_softirq)] - in_softirq[-1] > 2_000  # a switch to ksoftirqd lies between


@pytest.mark.parametrize(
    ("delay", "fires_at_jiffy"), [(0, 1), (1, 2), (5, 6), (62, 63), (63, 64), (64, 72), (512, 576)]
)
async def test_the_wheel_never_fires_early_and_is_coarse_when_far(
    delay: int, fires_at_jiffy: int
) -> None:
    rig = Rig()
    fired: list[int] = []
    timer = Timer(name="x", armed=rig.armed, fire=lambda: fired.append(rig.engine.now_ns))
    rig.at(1_000_000, lambda: timer.arm(0, delay))
    await rig.run(600 * JIFFY_NS)
    assert [ns // JIFFY_NS for ns in fired] == [fires_at_jiffy]


async def test_a_cancelled_or_moved_timer_fires_not_or_once() -> None:
    rig = Rig()
    fired: list[int] = []
    timer = Timer(
        name="x", armed=rig.armed, fire=lambda: fired.append(rig.engine.now_ns // JIFFY_NS)
    )
    rig.at(1_000_000, lambda: timer.arm(0, 2))
    rig.at(2_000_000, lambda: timer.arm(0, 5))
    await rig.run(20 * JIFFY_NS)
    assert fired == [6]


async def test_an_idle_cpu_has_no_ticks() -> None:
    rig = Rig(cpus=2)
    rig.thread("a", [100_000_000, 1])
    await rig.run(100_000_000)
    assert "irq 1" not in rig.rcu.log


async def test_a_wait_for_a_lock_is_paid() -> None:
    rig = Rig(cpus=2)
    lock = Hold(name="list_lock")
    a = rig.thread("a", [1_000, 1])
    b = rig.thread("b", [1_000, 1], cpu=1)
    a.held.append((lock, 600))
    b.held.append((lock, 600))
    log = await rig.run(100_000)
    assert log == [(2_500, "a"), (2_500, "b"), (3_500, "a"), (4_100, "b")]
    assert lock.wait_ns == 600


# -- rarer turns -------------------------------------------------------------------------------------


async def test_schedule_counts_as_a_context_switch_even_when_the_same_thread_goes_on() -> None:
    rig = Rig(preempt="none")
    rig.thread("a", [1_000, 1_000, 1_000])
    context = rig.scheduler.cpus[0].context
    rig.at(3_000, lambda: setattr(context, "need_resched", True))
    log = await rig.run(100_000)
    assert log == [(2_500, "a"), (3_500, "a"), (4_500, "a")]  # no time is lost
    # from idle, the schedule() that chose the same thread, and to idle
    assert rig.rcu.log.count("switch 0") == 3
    assert not context.need_resched


async def test_more_wake_ups_do_not_postpone_the_first_on_an_idle_cpu() -> None:
    rig = Rig()
    for i in range(4):
        made = rig.thread(f"t{i}", [10, 1], asleep=True)
        rig.at(10_000 + 100 * i, made.wake)
    log = await rig.run(100_000)
    assert log[0] == (10_000 + 500 + 2_000, "t0")


async def test_a_wake_up_during_a_context_switch_is_not_forgotten() -> None:
    rig = Rig()
    rig.thread("low", [1_000_000, 1], nice=19)
    high = rig.thread("high", [100, 1], asleep=True)
    rig.scheduler.threads["low"].vruntime_ns = 10_000_000  # it has had its share
    rig.at(1_000, high.wake)  # low is being switched in from 500 to 2,500
    log = await rig.run(2_000_000)
    assert log[0] == (4_500, "high")


async def test_an_idle_cpu_in_an_interrupt_wants_to_reschedule_when_somebody_wakes() -> None:
    rig = Rig()
    softirq = rig.raised[0]
    softirq.script = [50_000, 10]
    timer = Timer(name="x", armed=rig.armed, fire=softirq.wake)
    made = rig.thread("a", [10, 1], asleep=True)
    seen: list[bool] = []
    context = rig.scheduler.cpus[0].context
    rig.at(1_000_000, lambda: timer.arm(0, 0))
    rig.at(4_010_000, made.wake)
    rig.at(4_010_001, lambda: seen.append(context.need_resched))
    log = await rig.run(6_000_000)
    assert seen == [True]
    assert log[-1][1] == "a"


async def test_ticks_on_top_of_a_softirq_are_booked_as_interrupts() -> None:
    rig = Rig()
    softirq = rig.raised[0]
    softirq.script = [10_000_000, 10]
    timer = Timer(name="x", armed=rig.armed, fire=softirq.wake)
    rig.at(1_000_000, lambda: timer.arm(0, 0))
    await rig.run(30_000_000)
    spent = rig.scheduler.cpus[0].spent_ns
    # the tick at 4 ms, and those at 8 and 12 ms on top of the softirq
    assert spent["irq"] == 3_000
    assert spent["softirq"] == 100 + 10_000_010
    assert sum(spent.values()) == 30_000_000


async def test_an_idle_cpu_is_not_woken_for_a_timer_that_was_cancelled() -> None:
    rig = Rig(cpus=2)
    timer = Timer(name="x", armed=rig.armed, fire=lambda: None)
    rig.thread("a", [1_000_000, 1], cpu=1)

    def arm_and_cancel() -> None:
        timer.arm(1, 5)

    rig.at(100_000, arm_and_cancel)
    rig.at(200_000, timer.cancel)
    await rig.run(100_000_000)
    assert "irq 1" not in rig.rcu.log


async def test_ksoftirqd_is_not_switched_in_the_middle_of_a_pass() -> None:
    rig = Rig(preempt="none")

    @state
    class TwoSteps(SoftirqScript):
        STEPS: ClassVar[tuple[str, ...]] = ("one", "two")

        at: str = "one"

        def step(self) -> int:
            self.rig.log.append((self.rig.engine.now_ns, self.at))
            if self.at == "two":
                self.sleep()
            self.at = "two" if self.at == "one" else "one"
            return 10_000

    handler = TwoSteps(
        name="two", outbox=rig.outbox, prices={}, cpu=0, asleep=True, rig=rig, script=[]
    )
    rig.scheduler.cpus[0].softirqs.append(handler)
    rig.machines.append(handler)
    rig.at(1_000, handler.wake)
    urgent = rig.thread("urgent", [10, 1], nice=-20, asleep=True)
    rig.at(5_000, urgent.wake)
    log = await rig.run(100_000)
    assert [name for _ns, name in log] == ["one", "two", "urgent", "urgent"]
