from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from rcusim.engine.clock import Actor, Engine, Program
from rcusim.engine.steps import Machine, state, wiring
from rcusim.errors import Hang, Interrupted, PropertyViolation


@state
class Walker(Machine):
    """Takes `left` steps, each of its own price."""

    log: list[tuple[int, str]] = wiring()
    engine: Engine = wiring()
    left: int = 3

    def walk(self) -> None:
        self.log.append((self.engine.now_ns, self.name))
        self.left -= 1


@attrs.define(eq=False)
class Road(Actor):
    """Lets one machine step whenever it has paid."""

    machine: Machine = attrs.field(kw_only=True)
    engine: Engine = attrs.field(kw_only=True)

    def fire(self) -> Machine | None:
        if self.machine.asleep or (isinstance(self.machine, Walker) and not self.machine.left):
            return None
        return self.machine

    def charge(self, machine: Machine, price_ns: int) -> None:
        del machine
        self.engine.schedule(self, self.engine.now_ns + price_ns)


@attrs.define(eq=False)
class End(Actor):
    engine: Engine = attrs.field(kw_only=True)

    def fire(self) -> Machine | None:
        self.engine.finish()
        return None


def no_steps() -> list[tuple[int, str]]:
    return []


def walkers(engine: Engine, log: list[tuple[int, str]]) -> list[Machine]:
    machines: list[Machine] = []
    for index, price in enumerate((10, 10, 7)):
        walker = Walker(
            name=f"w{index}",
            outbox=[],
            prices={"walk": (price, 0)},
            at="walk",
            log=log,
            engine=engine,
        )
        engine.schedule(Road(9 - index, walker.name, machine=walker, engine=engine), 0)
        machines.append(walker)
    return machines


EXPECTED = [
    (0, "w2"), (0, "w1"), (0, "w0"), (7, "w2"), (10, "w1"), (10, "w0"), (14, "w2"), (20, "w1"), (20, "w0"),
]  # fmt: skip


@pytest.mark.parametrize("inline", [True, False])
async def test_order_is_time_then_actor_id(inline: bool) -> None:
    for _ in range(5):
        engine, log = Engine(inline=inline), no_steps()
        machines = walkers(engine, log)
        engine.schedule(End(99, "end", engine=engine), 100)
        await engine.run(machines)
        assert log == EXPECTED
        assert (engine.handovers > 9) is (not inline)


def test_order_does_not_depend_on_trios_shuffle() -> None:
    for seed in range(10):
        random.seed(seed)  # Trio shuffles its batches with this generator
        engine, log = Engine(inline=False), no_steps()
        machines = walkers(engine, log)
        engine.schedule(End(99, "end", engine=engine), 100)
        trio.run(engine.run, machines)
        assert log == EXPECTED


def program(engine: Engine, body: Callable[[Program], Awaitable[None]]) -> Program:
    made: Program
    made = Program(name="p", outbox=[], prices={}, engine=engine, body=lambda: body(made))
    return made


async def test_a_coroutine_pays_and_goes_on() -> None:
    engine, log = Engine(), list[int]()

    async def body(me: Program) -> None:
        log.append(engine.now_ns)
        await me.pay(5)
        log.append(engine.now_ns)
        await me.pay(6)
        log.append(engine.now_ns)

    made = program(engine, body)
    engine.schedule(Road(1, "road", machine=made, engine=engine), 0)
    engine.schedule(End(2, "end", engine=engine), 50)
    await engine.run([made])
    assert log == [0, 5, 11]


async def test_a_forgotten_appointment_does_not_happen() -> None:
    engine, log = Engine(), no_steps()
    machines = walkers(engine, log)
    late = End(98, "late", engine=engine)
    engine.schedule(late, 12)
    engine.schedule(late, 1000)
    engine.schedule(End(99, "end", engine=engine), 100)
    await engine.run(machines)
    assert engine.now_ns == 100


async def test_nothing_left_is_a_hang_that_says_who_waits() -> None:
    engine = Engine(waiting=lambda: "gp waits at wait_fqs")
    with pytest.raises(Hang, match="gp waits at wait_fqs"):
        await engine.run(walkers(engine, []))


@pytest.mark.parametrize("inline", [True, False])
async def test_an_error_in_a_step_ends_the_run_with_time_and_place(inline: bool) -> None:
    engine = Engine(inline=inline)

    @state
    class Faulty(Machine):
        def fail(self) -> None:
            raise ZeroDivisionError("broken")

    faulty = Faulty(name="f", outbox=[], prices={"fail": (1, 0)}, at="fail")
    engine.schedule(Road(1, "road", machine=faulty, engine=engine), 42)
    with pytest.raises(ZeroDivisionError) as caught:
        await engine.run([faulty])
    assert "at 42 ns of virtual time, in a step of road" in caught.value.__notes__


async def test_a_violation_gets_the_time() -> None:
    engine = Engine()

    @state
    class Liar(Machine):
        def lie(self) -> None:
            raise PropertyViolation("I6", -1, "a bit is left")

    liar = Liar(name="l", outbox=[], prices={"lie": (1, 0)}, at="lie")
    engine.schedule(Road(1, "road", machine=liar, engine=engine), 17)
    with pytest.raises(PropertyViolation, match="I6 violated at 17 ns: a bit is left"):
        await engine.run([liar])


async def test_a_stop_request_is_honoured_between_steps() -> None:
    engine = Engine(stop=lambda: True)
    log: list[tuple[int, str]] = []
    walker = Walker(
        name="w", outbox=[], prices={"walk": (1, 0)}, at="walk", log=log, engine=engine, left=10**9
    )
    engine.schedule(Road(1, "road", machine=walker, engine=engine), 0)
    with pytest.raises(Interrupted, match="of virtual time"):
        await engine.run([walker])
    assert len(log) > 1000


async def test_a_run_can_be_cancelled_from_outside() -> None:
    engine = Engine()
    walker = Walker(
        name="w", outbox=[], prices={"walk": (1, 0)}, at="walk", log=[], engine=engine, left=10**9
    )
    engine.schedule(Road(1, "road", machine=walker, engine=engine), 0)
    with trio.move_on_after(0.2) as scope:
        await engine.run([walker])
    assert scope.cancelled_caught
