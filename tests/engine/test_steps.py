from __future__ import annotations

import pytest

from rcusim.abc import Hold
from rcusim.engine.steps import Machine, Timer, state, step_prices


@state
class Lamp(Machine):
    on: bool = False

    def switch(self) -> int | None:
        self.on = not self.on
        return 3 if self.on else None


@state
class Floodlight(Lamp):
    pass


def lamp(outbox: list[Machine]) -> Lamp:
    return Lamp(name="lamp", outbox=outbox, prices={"switch": (10, 2)}, at="switch")


def test_a_step_runs_the_method_named_by_at_and_returns_its_price() -> None:
    machine = lamp([])
    assert (machine.step(), machine.on) == (16, True)
    assert (machine.step(), machine.on) == (10, False)


def test_a_wake_of_somebody_awake_does_nothing() -> None:
    outbox: list[Machine] = []
    machine = lamp(outbox)
    machine.wake()
    assert outbox == []
    machine.sleep()
    machine.wake()
    machine.wake()
    assert outbox == [machine]
    assert not machine.asleep


def test_a_lock_is_a_serial_resource() -> None:
    lock = Hold(name="list_lock")
    waits = [
        lock.acquire(100, 50, cpu=0),
        lock.acquire(120, 50, cpu=1),
        lock.acquire(300, 5, cpu=0),
    ]
    assert waits == [0, 30, 0]
    assert lock.wait_ns == 30


def test_a_cpu_does_not_wait_for_itself_but_others_wait_for_all_it_holds() -> None:
    lock = Hold(name="krc.lock")
    assert [lock.acquire(100, 50, cpu=0), lock.acquire(110, 50, cpu=0)] == [0, 0]
    assert lock.acquire(120, 5, cpu=1) == 80


def test_a_timer_is_moved_by_arming_and_forgotten_by_cancelling() -> None:
    fired: list[str] = []
    armed: list[Timer] = []
    timer = Timer(name="t", armed=armed, fire=lambda: fired.append("t"))
    assert not timer.pending
    timer.arm(1, 5)
    first = timer.token
    timer.arm(0, 0)
    assert (timer.pending, timer.cpu, timer.token > first) == (True, 0, True)
    timer.cancel()
    assert not timer.pending
    timer.arm(0, 0)
    timer.expire()
    assert (fired, timer.pending) == (["t"], False)


def test_a_subclass_inherits_the_prices_of_its_base() -> None:
    table = {"Lamp": {"switch": (10, 0), "dim": (5, 0)}, "Floodlight": {"switch": (99, 1)}}
    assert step_prices(table, Floodlight) == {"switch": (99, 1), "dim": (5, 0)}
    assert step_prices(table, Lamp) == {"switch": (10, 0), "dim": (5, 0)}


def test_an_unknown_step_is_an_error() -> None:
    machine = lamp([])
    machine.at = "explode"
    with pytest.raises(KeyError):
        machine.step()
