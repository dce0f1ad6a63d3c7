"""A machine without RCU: CPUs, scripted threads, and a log of who ran when."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rcusim.engine.clock import Actor, Engine
from rcusim.engine.steps import Level, Machine, Timer, state, wiring
from rcusim.machine.context import CpuContext
from rcusim.machine.cpu import Cpu, CpuPrices, Ksoftirqd, Scheduler, Tick, TimerSoftirq
from rcusim.machine.threads import CfsTunables

JIFFY_NS = 4_000_000


@attrs.define(eq=False)
class NoRcu:
    """Hooks that write down what they were told."""

    log: list[str] = attrs.field(factory=list)

    def note_context_switch(self, cpu: int) -> None:
        self.log.append(f"switch {cpu}")

    def cond_resched(self, cpu: int) -> None:
        self.log.append(f"cond_resched {cpu}")

    def idle_enter(self, cpu: int) -> None:
        self.log.append(f"idle {cpu}")

    def idle_exit(self, cpu: int) -> None:
        self.log.append(f"busy {cpu}")

    def irq_enter(self, cpu: int) -> None:
        self.log.append(f"irq {cpu}")

    def irq_exit(self, cpu: int) -> None:
        self.log.append(f"irq over {cpu}")

    def needs_cpu(self, cpu: int) -> bool:
        del cpu
        return False

    def softirq_qs(self, cpu: int) -> None:
        self.log.append(f"softirq qs {cpu}")


@state
class Script(Machine):
    """Steps with scripted prices; asleep when the script is over or says so with a price below zero."""

    rig: Rig = wiring()
    script: list[int] = wiring()

    def step(self) -> int:
        self.rig.log.append((self.rig.engine.now_ns, self.name))
        price_ns = self.script.pop(0)
        if not self.script or self.script[0] < 0:
            self.sleep()
            del self.script[:1]
        return abs(price_ns)


@state
class SoftirqScript(Script):
    STEPS: ClassVar[tuple[str, ...]] = ("run",)
    level: ClassVar[Level] = Level.SOFTIRQ

    at: str = "run"


@state
class QuietTick(Machine):
    level = Level.INTERRUPT

    def quiet(self) -> None:
        """Do nothing: there is no RCU."""


@attrs.define(eq=False)
class At(Actor):
    """Does something at an instant."""

    rig: Rig = attrs.field(kw_only=True)
    what: object = attrs.field(kw_only=True)

    def fire(self) -> Machine | None:
        assert callable(self.what)
        self.what()
        self.rig.scheduler.deliver(self.rig.scheduler.cpus[0])
        return None


@attrs.define(eq=False)
class Rig:
    cpus: int = 1
    preempt: str = "full"
    slowdown: tuple[int, ...] = (1000,)
    inline: bool = True
    log: list[tuple[int, str]] = attrs.field(factory=list)
    outbox: list[Machine] = attrs.field(factory=list)
    armed: list[Timer] = attrs.field(factory=list)
    rcu: NoRcu = attrs.field(factory=NoRcu)
    engine: Engine = attrs.field(init=False)
    scheduler: Scheduler = attrs.field(init=False)
    machines: list[Machine] = attrs.field(factory=list)
    raised: list[SoftirqScript] = attrs.field(factory=list)
    _ids: int = 0

    def __attrs_post_init__(self) -> None:
        self.engine = Engine(inline=self.inline)
        self.scheduler = Scheduler(
            engine=self.engine,
            jiffy_ns=JIFFY_NS,
            preempt=self.preempt,
            prices=CpuPrices(tick_ns=1_000, switch_ns=2_000, wake_idle_ns=500),
            cfs=CfsTunables.of(self.cpus),
            outbox=self.outbox,
            armed=self.armed,
            rcu=self.rcu,
        )
        for number in range(self.cpus):
            self._cpu(number)

    def _id(self) -> int:
        self._ids += 1
        return self._ids

    def _cpu(self, number: int) -> None:
        timers = TimerSoftirq(
            name=f"t{number}",
            outbox=self.outbox,
            prices={"expire": (100, 0)},
            cpu=number,
            at="expire",
            asleep=True,
        )
        extra = SoftirqScript(
            name=f"softirq{number}",
            outbox=self.outbox,
            prices={},
            cpu=number,
            asleep=True,
            rig=self,
            script=[],
        )
        self.raised.append(extra)
        softirqs: list[Machine] = [timers, extra]
        ksoftirqd = Ksoftirqd(
            name=f"ksoftirqd{number}", outbox=self.outbox, prices={"pass_on": (50, 0)}, cpu=number, asleep=True,
            preempt_off=True, softirqs=softirqs, rcu=self.rcu,
        )  # fmt: skip
        slow = self.slowdown[number % len(self.slowdown)]
        cpu = Cpu(
            self._id(), f"cpu{number}", context=CpuContext(cpu=number), scheduler=self.scheduler,
            slowdown_permille=slow, softirqs=softirqs,
            ksoftirqd=self.scheduler.add_thread(ksoftirqd, nice=0, consumer="softirq"),
        )  # fmt: skip
        self.scheduler.cpus.append(cpu)
        tick = QuietTick(
            name=f"tick{number}", outbox=self.outbox, prices={"quiet": (0, 0)}, at="quiet"
        )
        self.scheduler.ticks.append(
            Tick(self._id(), tick.name, cpu=cpu, machine=tick, timers=timers, phase_ns=0)
        )
        self.machines += [*softirqs, ksoftirqd, tick]

    def thread(
        self,
        name: str,
        script: list[int],
        *,
        cpu: int = 0,
        nice: int = 0,
        pinned: bool = True,
        asleep: bool = False,
    ) -> Script:
        made = Script(
            name=name,
            outbox=self.outbox,
            prices={},
            cpu=cpu,
            asleep=asleep,
            rig=self,
            script=list(script),
        )
        self.scheduler.add_thread(made, nice=nice, consumer=name, pinned=pinned)
        self.machines.append(made)
        return made

    def at(self, at_ns: int, what: object) -> None:
        self.engine.schedule(At(1000 + self._id(), "at", rig=self, what=what), at_ns)

    async def run(self, until_ns: int) -> list[tuple[int, str]]:
        awake = [
            machine
            for machine in self.machines
            if isinstance(machine, Script) and not machine.asleep
        ]
        self.at(until_ns, self.engine.finish)
        self.scheduler.start(awake)
        await self.engine.run(self.machines)
        for cpu in self.scheduler.cpus:
            cpu.account()
        return self.log
