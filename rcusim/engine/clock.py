"""Virtual time: one heap of events, Trio tasks for everything that acts, one of them at a time.

Every machine (thread, softirq handler) has a Trio task in one nursery, and all of them park. Whoever
holds the turn *pumps*: takes the next event from the heap, lets its actor fire, and takes the steps of
plain machines inline. Only where a task has code of its own to run, a workload written as a coroutine,
or every machine with ``inline=False``, is the turn handed over. Both ways give the same bytes.

Order is (time, priority, static actor id, sequence). Trio's own order never matters: exactly one task
is runnable at any time, and nothing is dispatched before all tasks have parked.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

import attrs
import trio

from rcusim.engine.steps import Machine, state, wiring
from rcusim.errors import Hang, Interrupted, LimitReached, PropertyViolation

SLICE_EVENTS = 5_000
"""Events between two looks at Trio and at the interrupt flag (costs nothing measurable)."""


@attrs.define(eq=False)
class Actor:
    """Something with an appointment in virtual time.

    Parameters
    ----------
    id : int
        Decides among actors that are due at the same time with the same priority; given by the
        builder of the world, never by the order in which tasks start.
    name : str
        For reports.
    """

    priority: ClassVar[int] = 1

    id: int
    name: str
    entry: int = -1

    def fire(self) -> Machine | None:
        """Let the appointment happen; return a machine that is to take a step now, if any."""
        raise NotImplementedError

    def charge(self, machine: Machine, price_ns: int) -> None:
        """Take note that `machine`, which :meth:`fire` returned, has taken a step for `price_ns`."""
        raise NotImplementedError


@state
class Program(Machine):
    """A machine whose steps are the code between two awaits of a coroutine.

    Parameters
    ----------
    body : callable
        The coroutine function; it awaits :meth:`pay` and what is built on it, and nothing of Trio's own.
    """

    body: Callable[[], Awaitable[None]] = wiring()
    engine: Engine = wiring()

    async def pay(self, price_ns: int, *, resched: bool = True) -> None:
        """End a step: let `price_ns` of CPU time pass, then go on.

        Parameters
        ----------
        price_ns : int
            What the step costs.
        resched : bool
            Whether a non-preemptible kernel may switch to another thread here.
        """
        self.resched = resched
        self.engine.charge(self, price_ns)
        await self.engine.park(self)


@attrs.define(eq=False)
class Engine:
    """The clock.

    Parameters
    ----------
    inline : bool
        Take the steps of plain machines without a task switch. The results are the same.
    stop : callable
        Looked at between slices of events; true asks for a clean stop (a signal came).
    progress : callable
        Called between slices of events.
    waiting : callable
        Says who waits for what, for the report of a hang.
    advancing : callable
        Told the instant to which time is about to go on, while the world is as it was.
    """

    inline: bool = True
    stop: Callable[[], bool] = attrs.field(default=lambda: False)
    progress: Callable[[], None] = attrs.field(default=lambda: None)
    waiting: Callable[[], str] = attrs.field(default=lambda: "")
    advancing: Callable[[int], None] = attrs.field(default=lambda _: None)
    now_ns: int = 0
    handovers: int = 0
    events: int = 0
    finished: bool = False
    _heap: list[tuple[int, int, int, int, Actor]] = attrs.field(factory=list)
    _sequence: int = 0
    _actor: Actor | None = None
    _tasks: dict[str, trio.lowlevel.Task] = attrs.field(factory=dict)
    _main: trio.lowlevel.Task | None = None
    _unparked: int = 0

    def schedule(self, actor: Actor, at_ns: int) -> None:
        """Give `actor` an appointment; an earlier one that has not come is forgotten."""
        self._sequence += 1
        actor.entry = self._sequence
        heapq.heappush(self._heap, (at_ns, actor.priority, actor.id, self._sequence, actor))

    def cancel(self, actor: Actor) -> None:
        """Forget the appointment of `actor`."""
        actor.entry = -1

    def finish(self) -> None:
        """End the run after the current step."""
        self.finished = True

    def charge(self, machine: Machine, price_ns: int) -> None:
        """Charge a step that a coroutine took to the actor that let it."""
        assert self._actor is not None
        self._actor.charge(machine, price_ns)

    async def run(self, machines: Sequence[Machine]) -> None:
        """Run until :meth:`finish`, an error or an interrupt.

        Parameters
        ----------
        machines : sequence of Machine
            Everything that takes steps; each gets a Trio task.

        Raises
        ------
        Hang
            When no event is left.
        Interrupted
            When `stop` became true.
        """
        self._main = trio.lowlevel.current_task()
        self._unparked = len(machines)
        try:
            async with trio.open_nursery() as nursery:
                for machine in machines:
                    nursery.start_soon(self._host, machine, name=machine.name)
                if machines:
                    await _wait_for_turn()
                await self.park(None)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise self._with_time(_only(group)) from None

    async def _host(self, machine: Machine) -> None:
        """Be the task of one machine."""
        self._tasks[machine.name] = trio.lowlevel.current_task()
        self._unparked -= 1
        if self._unparked == 0:
            assert self._main is not None
            trio.lowlevel.reschedule(self._main)
        await _wait_for_turn()
        if isinstance(machine, Program):
            await machine.body()
            machine.sleep()
            self.charge(machine, 0)
            await self.park(machine)
            raise AssertionError(f"{machine.name} was woken after its end")
        while True:
            self.charge(machine, machine.step())
            await self.park(machine)

    async def park(self, me: Machine | None) -> None:
        """Give the turn away; return when it has come back to `me` (None: when the run is over)."""
        while True:
            chosen = self._pump()
            if chosen is _SLICE_OVER:
                await trio.lowlevel.checkpoint()
                self.progress()
                if self.stop():
                    raise Interrupted(f"stopped by a signal at {self.now_ns} ns of virtual time")
                continue
            if chosen is me:
                return
            self.handovers += 1
            task = self._main if chosen is None else self._tasks[chosen.name]
            assert task is not None
            trio.lowlevel.reschedule(task)
            await _wait_for_turn()
            return

    def _with_time(self, error: BaseException) -> BaseException:
        """Return the error that ended a run, with time and place where it has none."""
        if (
            isinstance(error, PropertyViolation) and error.time_ns < 0
        ):  # raised where no clock is known
            return PropertyViolation(error.rule, self.now_ns, error.what)
        if isinstance(error, Exception) and not isinstance(error, PropertyViolation | LimitReached):
            actor = self._actor.name if self._actor else "nobody"
            error.add_note(f"at {self.now_ns} ns of virtual time, in a step of {actor}")
        return error

    def _pump(self) -> Machine | None:
        """Let events happen until a task has to run; return its machine, None at the end."""
        heap = self._heap
        for _ in range(SLICE_EVENTS):
            if self.finished:
                return None
            if not heap:
                raise Hang(f"nothing can happen after {self.now_ns} ns: {self.waiting()}")
            at_ns, _priority, _id, sequence, actor = heapq.heappop(heap)
            if actor.entry != sequence:
                continue
            actor.entry = -1
            if at_ns != self.now_ns:
                self.advancing(at_ns)
                self.now_ns = at_ns
            self.events += 1
            self._actor = actor
            machine = actor.fire()
            if machine is not None:
                if not self.inline or isinstance(machine, Program):
                    return machine
                actor.charge(machine, machine.step())
        return _SLICE_OVER


_SLICE_OVER = Machine(name="slice over", outbox=[], prices={})


async def _wait_for_turn() -> None:
    await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one exception that ended the run; only one actor runs, so only one can raise."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
