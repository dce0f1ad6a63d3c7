"""A clockless world around RCU: CPUs with readers and callbacks, any enabled step at any moment."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rcusim.abc import Hold
from rcusim.engine.steps import Machine, Price, Timer
from rcusim.machine.context import CpuContext
from rcusim.probes import Probes
from rcusim.rcu.config import RcuConfig
from rcusim.rcu.rcu import Parts, Rcu
from rcusim.rcu.state import INIT

PRICES: dict[str, dict[str, Price]] = {
    "Reporter": {"report_up": (50, 0)},
    "GpKthread": dict.fromkeys(
        (
            "wait_request",
            "start",
            "init_node",
            "wait_fqs",
            "fqs_leaf",
            "clear_fqs",
            "cleanup",
            "end",
        ),
        (100, 1),
    ),
    "RcuCore": {"notice": (30, 0), "report": (40, 0), "accelerate": (20, 0), "invoke": (0, 1)},
    "RcuTick": {"tick": (10, 0)},
}


class LawBrokenError(Exception):
    """A grace period ended, or a callback became ready, before a reader that was older than it."""


class HangError(Exception):
    """Something was owed, and a fair schedule did not bring it about."""


@attrs.define(eq=False)
class Run:
    """A run of callbacks that remembers the readers it has to wait for."""

    world: World
    count: int
    cpu: int = 0
    price_ns: int = 10
    held: list[tuple[Hold, int]] = attrs.field(factory=list)
    older: set[str] = attrs.field(factory=set)
    ready_at: list[int] = attrs.field(factory=list)
    invoked: list[int] = attrs.field(factory=list)

    def ready(self) -> None:
        late = self.older & self.world.open_readers
        if late:
            raise LawBrokenError(f"callbacks are ready while {sorted(late)} read")
        self.ready_at.append(self.world.rcu.completed)  # by the leaf, before the official end

    def invoke(self, cpu: int, limit: int, budget_ns: int) -> tuple[int, int]:
        assert cpu == self.cpu
        assert len(self.ready_at) == 1, "invoked before its grace period, or twice ready"
        invoked = 0
        while invoked < min(limit, self.count):
            invoked += 1
            if 0 < budget_ns <= invoked * self.price_ns and invoked % 32 == 0:
                break
        self.count -= invoked
        self.invoked.append(invoked)
        return invoked, invoked * self.price_ns


@attrs.define(eq=False)
class World:
    """CPUs 0..n-1; each is idle, reading, or in the kernel outside of readers."""

    config: RcuConfig
    parts: Parts = attrs.field(factory=Parts)
    outbox: list[Machine] = attrs.field(factory=list)
    armed: list[Timer] = attrs.field(factory=list)
    contexts: list[CpuContext] = attrs.field(init=False)
    rcu: Rcu = attrs.field(init=False)
    reading: dict[int, str] = attrs.field(factory=dict)
    in_irq: set[int] = attrs.field(factory=set)
    older: set[str] = attrs.field(factory=set)
    runs: list[Run] = attrs.field(factory=list)
    names: int = 0

    def __attrs_post_init__(self) -> None:
        probes = Probes()
        self.contexts = [CpuContext(cpu=cpu) for cpu in range(self.config.cpus)]
        self.rcu = Rcu.build(
            self.config,
            outbox=self.outbox,
            armed=self.armed,
            prices=PRICES,
            probes=probes,
            cpus=self.contexts,
            parts=self.parts,
        )
        probes.gp_started.subscribe(lambda _gp_seq: self.older.update(self.open_readers))
        probes.gp_ended.subscribe(self._check_law)

    @property
    def open_readers(self) -> set[str]:
        return set(self.reading.values())

    def _check_law(self, gp_seq: int) -> None:
        late = self.older & self.open_readers
        if late:
            raise LawBrokenError(f"grace period {gp_seq:#x} ended while {sorted(late)} read")
        self.older.clear()

    # -- what a CPU may do ---------------------------------------------------------------------

    def in_softirq(self, cpu: int) -> bool:
        return self.rcu.cores[cpu].at != "notice"

    def lock(self, cpu: int) -> None:
        self.names += 1
        self.reading[cpu] = f"reader{self.names}"
        self.contexts[cpu].preempt_off = True
        self.rcu.read_lock(cpu, self.reading[cpu])

    def unlock(self, cpu: int) -> None:
        self.rcu.read_unlock(cpu, self.reading.pop(cpu))
        self.contexts[cpu].preempt_off = False

    def switch(self, cpu: int) -> None:
        assert cpu not in self.reading
        self.contexts[cpu].need_resched = False
        self.rcu.note_context_switch(cpu)

    def call(self, cpu: int, count: int = 1, price_ns: int = 10) -> Run:
        run = Run(self, count, cpu, price_ns, older=set(self.open_readers))
        self.runs.append(run)
        self.rcu.call(cpu, run)
        return run

    def idle_enter(self, cpu: int) -> None:
        self.switch(cpu)
        self.contexts[cpu].idle = True
        self.rcu.idle_enter(cpu)

    def idle_exit(self, cpu: int) -> None:
        self.rcu.idle_exit(cpu)
        self.contexts[cpu].idle = False

    def tick(self, cpu: int) -> None:
        if self.contexts[cpu].idle and cpu not in self.in_irq:
            self.in_irq.add(cpu)
            self.rcu.irq_enter(cpu)
        self.contexts[cpu].softirq = self.in_softirq(cpu)
        self.rcu.ticks[cpu].step()
        self.contexts[cpu].softirq = False
        self._leave_irq(cpu)

    def core(self, cpu: int) -> None:
        self.rcu.cores[cpu].step()
        self._leave_irq(cpu)

    def _leave_irq(self, cpu: int) -> None:
        if cpu in self.in_irq and self.rcu.cores[cpu].asleep:
            self.in_irq.remove(cpu)
            self.rcu.irq_exit(cpu)

    def free_cpu(self) -> int | None:
        """A CPU on which the kthread can run, first of all the one where it is."""
        candidates: list[int] = [self.rcu.gp.cpu, *range(self.config.cpus)]
        for cpu in candidates:
            if cpu not in self.reading and not self.in_softirq(cpu) and cpu not in self.in_irq:
                return cpu
        return None

    def gp(self) -> None:
        cpu = self.free_cpu()
        assert cpu is not None
        idle = self.contexts[cpu].idle
        if idle:
            self.idle_exit(cpu)
        self.rcu.gp.cpu = cpu
        self.rcu.gp.step()
        if idle:
            self.idle_enter(cpu)

    def timers(self) -> list[Timer]:
        return [self.rcu.gp.fqs_timer, self.rcu.gp.age_timer]

    # -- schedules -----------------------------------------------------------------------------

    def enabled(self) -> list[Callable[[], None]]:
        """Everything that may happen next."""
        moves: list[Callable[[], None]] = [t.expire for t in self.timers() if t.pending]
        if not self.rcu.gp.asleep and self.free_cpu() is not None:
            moves += [self.gp] * 3
        for cpu in range(self.config.cpus):
            moves += self._moves(cpu)
        return moves

    def _moves(self, cpu: int) -> list[Callable[[], None]]:
        moves: list[Callable[[], None]] = []
        if self.rcu.ticks[cpu].enabled():
            moves.append(lambda: self.tick(cpu))
        if not self.rcu.cores[cpu].asleep:
            moves += [lambda: self.core(cpu)] * 2
        if self.in_softirq(cpu) or cpu in self.in_irq:
            return moves
        if self.contexts[cpu].idle:
            moves.append(lambda: self.idle_exit(cpu))
        elif cpu in self.reading:
            moves.append(lambda: self.unlock(cpu))
        else:
            moves.append(lambda: self.switch(cpu))
            moves.append(lambda: self.lock(cpu))
            moves.append(lambda: self.call_some(cpu))
            moves.append(lambda: self.idle_enter(cpu))
        return moves

    def call_some(self, cpu: int) -> None:
        if len(self.runs) < 12 + 2 * self.config.cpus:
            self.call(cpu, 1 + len(self.runs) % 3)

    def owed(self) -> bool:
        """Whether callbacks wait, or a grace period is wanted or in progress."""
        rcu = self.rcu.state
        waiting = any(data.cblist.n_cbs for data in self.rcu.data)
        return waiting or rcu.gp_in_progress or bool(rcu.gp_flags & INIT)

    def settle(self, rounds: int = 150) -> int:
        """Let everybody go on fairly until nothing is owed; return the number of rounds."""
        for cpu in list(self.reading):
            if not self.in_softirq(cpu):
                self.unlock(cpu)
        for count in range(rounds):
            if not self.owed():
                return count
            self.round()
        raise HangError("; ".join(self.rcu.describe()))

    def round(self, *, unlock: bool = True) -> None:
        """Let each timer, the kthread, and each CPU do what it can once."""
        for timer in self.timers():
            if timer.pending:
                timer.expire()
        for _ in range(4 + len(self.rcu.state.nodes)):
            if not self.rcu.gp.asleep and self.free_cpu() is not None:
                self.gp()
        for cpu in range(self.config.cpus):
            if not self.contexts[cpu].idle or self.rcu.needs_cpu(cpu) or cpu in self.in_irq:
                self.tick(cpu)
            for _ in range(20):
                if not self.rcu.cores[cpu].asleep:
                    self.core(cpu)
            if not self.in_softirq(cpu):
                self._task(cpu, unlock=unlock)

    def _task(self, cpu: int, *, unlock: bool) -> None:
        if cpu not in self.reading and not self.contexts[cpu].idle:
            self.switch(cpu)
        elif unlock and cpu in self.reading:
            self.unlock(cpu)

    def finish(self) -> None:
        """Settle, then check that every callback was invoked once, behind its grace period."""
        self.settle()
        for run in self.runs:
            assert run.count == 0
            assert len(run.ready_at) == 1
        for data in self.rcu.data:
            data.cblist.check()
            assert data.blimit == self.config.blimit
