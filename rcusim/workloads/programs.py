"""Threads written as coroutines: pay CPU time, sleep, hold a read-side critical section."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType

import attrs

from rcusim.engine.clock import Program
from rcusim.machine.cpu import Alarm
from rcusim.workloads.base import Field

SLEEP_PRICE_NS = 0


@attrs.define(eq=False)
class ReadSide:
    """``async with thread.read_side(): ...`` is an outermost read-side critical section.

    Leaving it by an exception touches nothing: the world has ended then.
    """

    thread: ProgramThread

    async def __aenter__(self) -> None:
        program = self.thread.program
        program.preempt_off = True
        self.thread.field.rcu.read_lock(program.cpu, program.name)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            program = self.thread.program
            self.thread.field.rcu.read_unlock(program.cpu, program.name)
            program.preempt_off = False


@attrs.define(eq=False)
class ProgramThread:
    """A thread whose code is an async function."""

    field: Field
    program: Program
    alarm: Alarm

    @classmethod
    def build(
        cls,
        field: Field,
        name: str,
        cpu: int,
        body: Callable[[ProgramThread], Awaitable[None]],
        *,
        actor_id: int,
    ) -> ProgramThread:
        """Return a thread on `cpu` that is asleep until it is woken."""
        program = Program(
            name=name,
            outbox=field.outbox,
            prices={},
            cpu=cpu,
            asleep=True,
            engine=field.engine,
            body=lambda: body(thread),
        )
        alarm = Alarm(actor_id, f"{name}/alarm", machine=program, scheduler=field.scheduler)
        thread = cls(field, program, alarm)
        return thread

    async def run(self, price_ns: int, *, resched: bool = True) -> None:
        """Use `price_ns` of CPU time at the platform's base speed."""
        await self.program.pay(price_ns, resched=resched)

    async def run_for(self, duration_ns: int) -> None:
        """Use CPU time for `duration_ns` whatever the speed of the CPU, without a point to switch at."""
        slowdown = self.field.scheduler.cpus[self.program.cpu].slowdown_permille
        await self.program.pay(duration_ns * 1000 // slowdown, resched=False)

    async def sleep_until(self, at_ns: int) -> None:
        """Sleep until an instant; one that has passed is a point to switch at and nothing else."""
        if at_ns > self.field.now_ns():
            self.program.sleep()
            self.field.engine.schedule(self.alarm, at_ns)
        await self.program.pay(SLEEP_PRICE_NS)

    def read_side(self) -> ReadSide:
        """Return a read-side critical section to enter."""
        return ReadSide(self)
