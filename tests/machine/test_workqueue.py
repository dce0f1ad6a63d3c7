from __future__ import annotations

from typing import ClassVar

from rcusim.engine.steps import Machine, Timer, state, wiring
from rcusim.machine.workqueue import Kworker, WorkItem, delayed_work


@state
class Chore(WorkItem):
    STEPS: ClassVar[tuple[str, ...]] = ("work",)

    log: list[str] = wiring()
    left: int = 2

    def work(self) -> None:
        self.log.append(f"{self.name} on {self.cpu}")
        self.left -= 1
        if not self.left:
            self.left = 2
            self.sleep()


def workers(outbox: list[Machine], n: int = 2) -> list[Kworker]:
    return [
        Kworker(name=f"kw{cpu}", outbox=outbox, prices={"take": (5, 0)}, cpu=cpu, asleep=True)
        for cpu in range(n)
    ]


def chore(name: str, outbox: list[Machine], log: list[str]) -> Chore:
    return Chore(
        name=name, outbox=outbox, prices={"work": (100, 0)}, asleep=True, first="work", log=log
    )


def test_items_run_one_after_the_other_and_pay_for_being_taken() -> None:
    outbox: list[Machine] = []
    log: list[str] = []
    kworkers = workers(outbox)
    a, b = chore("a", outbox, log), chore("b", outbox, log)
    kworkers[1].queue_item(a)
    kworkers[1].queue_item(b)
    assert outbox == [kworkers[1]]  # woken once
    assert [kworkers[1].step() for _ in range(4)] == [105, 100, 105, 100]
    assert log == ["a on 1", "a on 1", "b on 1", "b on 1"]
    assert kworkers[1].asleep
    assert kworkers[1].wakeups == 1


def test_delayed_work_runs_on_the_cpu_whose_timer_fired_and_is_not_moved_while_pending() -> None:
    outbox: list[Machine] = []
    armed: list[Timer] = []
    log: list[str] = []
    kworkers = workers(outbox)
    work = delayed_work(kworkers, chore("a", outbox, log), armed)
    assert work.schedule(1, 5)
    assert not work.schedule(0, 1)
    assert (work.timer.cpu, work.timer.delay_jiffies) == (1, 5)
    work.timer.expire()
    assert kworkers[0].asleep
    kworkers[1].step()
    assert log == ["a on 1"]
    assert work.schedule(0, 1)
