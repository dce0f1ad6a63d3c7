"""CPUs that schedule CPU time: threads, softirqs, ticks and timers share each of them.

A step takes effect at the instant at which it begins; its price is then paid in CPU time. A tick
interrupts whatever is being paid, softirqs run when it ends, and what was interrupted goes on
afterwards or, where the kernel may preempt, gives way to another thread. In a non-preemptible kernel
threads change only where a step ends with ``cond_resched()``, at sleep, and from idle; with voluntary
preemption also within steps that pass ``might_sleep()`` again and again.

Models per-CPU CFS run queues, ``__do_softirq`` with its limits and ksoftirqd, the timer wheel with its
granularity (4.8 and later: a timer of n jiffies never fires before n whole jiffies), NO_HZ idle, and the
choice of a CPU for a waking thread (an idle one, else the previous or the waker's by average load).
Leaves out load balancing between wake-ups, frequency scaling, user mode, and real-time classes.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

import attrs

from rcusim.engine.clock import Actor, Engine
from rcusim.engine.steps import Level, Machine, Timer, state, wiring
from rcusim.machine.context import CpuContext
from rcusim.machine.load import LoadAverage
from rcusim.machine.threads import NICE_0_WEIGHT, CfsTunables, Thread
from rcusim.units import MS_NS

SOFTIRQ_RESTARTS = 10
SOFTIRQ_TIME_NS = 2 * MS_NS
WAKE_AFFINE_PCT = 100 + (117 - 100) // 2
"""How much lighter the waker's CPU may be taken for: half of the domain's ``imbalance_pct``."""
WHEEL_FIRST_LEVEL = 63
WHEEL_LEVEL_SHIFT = 3


class RcuHooks(Protocol):
    """What a CPU tells RCU; each call is one short atomic block of the kernel."""

    def note_context_switch(self, cpu: int) -> None:
        """Say that the CPU switches to another thread."""
        ...

    def cond_resched(self, cpu: int) -> None:
        """Say that a non-preemptible thread passed ``cond_resched()`` without being switched."""
        ...

    def idle_enter(self, cpu: int) -> None:
        """Say that the CPU becomes idle."""
        ...

    def idle_exit(self, cpu: int) -> None:
        """Say that the CPU leaves idle."""
        ...

    def irq_enter(self, cpu: int) -> None:
        """Say that an interrupt came while idle."""
        ...

    def irq_exit(self, cpu: int) -> None:
        """Say that the interrupt returns to idle."""
        ...

    def needs_cpu(self, cpu: int) -> bool:
        """Return whether the tick must go on although the CPU is idle."""
        ...

    def softirq_qs(self, cpu: int) -> None:
        """Say that ksoftirqd passed a point between two handlers."""
        ...


class Phase(enum.Enum):
    """What a CPU is paying for."""

    IDLE = "idle"
    SWITCH = "switch"
    TASK = "task"
    IRQ = "irq"
    SOFTIRQ = "softirq"


@attrs.frozen
class CpuPrices:
    """Prices of a CPU itself, ns.

    Attributes
    ----------
    tick_ns : int
        The tick's handler with the scheduler's part.
    switch_ns : int
        A context switch, cold caches included.
    wake_idle_ns : int
        From a wake-up to the first instruction on an idle CPU.
    """

    tick_ns: int
    switch_ns: int
    wake_idle_ns: int


@state
class TimerSoftirq(Machine):
    """``run_timer_softirq`` of a CPU: fires what has expired, one timer a step."""

    STEPS: ClassVar[tuple[str, ...]] = ("expire",)
    level: ClassVar[Level] = Level.SOFTIRQ

    expired: list[tuple[Timer, int]] = wiring(factory=list)

    def expire(self) -> None:
        """Fire the next timer unless it was cancelled or moved meanwhile."""
        timer, token = self.expired.pop(0)
        if timer.token == token and timer.pending:
            timer.expire()
        if not self.expired:
            self.sleep()


@state
class Ksoftirqd(Machine):
    """``ksoftirqd``: steps the pending softirqs of its CPU as an ordinary nice-0 thread."""

    STEPS: ClassVar[tuple[str, ...]] = ("pass_on",)

    softirqs: list[Machine] = wiring()
    rcu: RcuHooks = wiring()
    running: int = -1

    def step(self) -> int:
        """Take a step of the handler that runs, else of the first that is pending.

        Only between two passes can the kernel switch: a pass runs with bottom halves off.
        """
        if self.running < 0:
            self.running = next(
                index for index, machine in enumerate(self.softirqs) if not machine.asleep
            )
        machine = self.softirqs[self.running]
        price_ns = self.prices["pass_on"][0] + machine.step()
        self.held.extend(machine.held)
        machine.held.clear()
        self.resched = machine.at == machine.STEPS[0]
        if self.resched:
            self.running = -1
            self.rcu.softirq_qs(self.cpu)
            if all(machine.asleep for machine in self.softirqs):
                self.sleep()
        return price_ns


@attrs.define(eq=False)
class Cpu(Actor):
    """One CPU."""

    context: CpuContext = attrs.field(kw_only=True)
    scheduler: Scheduler = attrs.field(kw_only=True)
    slowdown_permille: int = attrs.field(kw_only=True)
    softirqs: list[Machine] = attrs.field(factory=list)
    ksoftirqd: Thread | None = None
    phase: Phase = Phase.IDLE
    interrupted: Phase = Phase.IDLE
    until_ns: int = 0
    since_ns: int = 0
    left_ns: int = 0
    irq_owed_ns: int = 0
    current: Thread | None = None
    queue: list[Thread] = attrs.field(factory=list)
    queue_weight: int = 0
    min_vruntime_ns: int = 0
    average: LoadAverage = attrs.field(factory=LoadAverage)
    spent_ns: dict[str, int] = attrs.field(factory=dict)
    batch: list[Machine] = attrs.field(factory=list)
    running_softirq: Machine | None = None
    softirq_began_ns: int = -1
    restarts: int = 0
    wheel: list[tuple[int, int, Timer, int]] = attrs.field(factory=list)
    deferrable: list[tuple[int, int, Timer, int]] = attrs.field(factory=list)

    # -- the engine's side -------------------------------------------------------------------

    def fire(self) -> Machine | None:
        """Go on: what was being paid is paid."""
        self.account()
        if self.phase is Phase.TASK:
            return self._task_paid()
        if self.phase is Phase.SWITCH:
            return self._resume()
        if self.phase is Phase.IDLE:
            return self._schedule()
        return self._softirq()

    def charge(self, machine: Machine, price_ns: int) -> None:
        """Begin to pay for a step of `machine`, waits for locks included; deliver whom it woke."""
        scheduler = self.scheduler
        now_ns = scheduler.engine.now_ns
        slow = self.slowdown_permille
        price_ns = price_ns * slow // 1000
        if machine.held:
            for lock, hold_ns in machine.held:
                price_ns += lock.acquire(now_ns, hold_ns * slow // 1000, self.context.cpu)
            machine.held.clear()
        self.until_ns = now_ns + price_ns
        scheduler.engine.schedule(self, self.until_ns)
        if self.phase is Phase.TASK:
            self.context.preempt_off = machine.preempt_off
        if scheduler.outbox or scheduler.armed:
            scheduler.deliver(self)
        if scheduler.stepped:
            scheduler.stepped(machine)

    # -- accounting --------------------------------------------------------------------------

    def account(self) -> None:
        """Book the time since the last booking on its consumer, and on the thread's run time."""
        now_ns = self.scheduler.engine.now_ns
        elapsed_ns = now_ns - self.since_ns
        if not elapsed_ns:
            return
        self.since_ns = now_ns
        if self.irq_owed_ns:  # interrupts that only prolonged what was going on
            irq_ns = min(self.irq_owed_ns, elapsed_ns)
            self.irq_owed_ns -= irq_ns
            elapsed_ns -= irq_ns
            self.spent_ns["irq"] = self.spent_ns.get("irq", 0) + irq_ns
        thread = self.current
        if self.phase is Phase.TASK:
            assert thread is not None
            consumer = thread.consumer
            thread.ran_ns += elapsed_ns
            thread.vruntime_ns += elapsed_ns * NICE_0_WEIGHT // thread.weight
            self._advance_min_vruntime(thread)
        else:
            consumer = self.phase.value
        self.spent_ns[consumer] = self.spent_ns.get(consumer, 0) + elapsed_ns

    def _advance_min_vruntime(self, thread: Thread) -> None:
        least_ns = thread.vruntime_ns
        for other in self.queue:
            least_ns = min(least_ns, other.vruntime_ns)
        self.min_vruntime_ns = max(self.min_vruntime_ns, least_ns)

    # -- threads -----------------------------------------------------------------------------

    def _task_paid(self) -> Machine | None:
        thread = self.current
        assert thread is not None
        machine = thread.machine
        if machine.asleep:
            return self._schedule()
        if self.context.need_resched and (machine.resched or self.may_preempt(thread)):
            return self._schedule()
        if machine.resched and not self.scheduler.preemptible:
            self.scheduler.rcu.cond_resched(self.context.cpu)
            if self.scheduler.outbox:
                self.scheduler.deliver(self)
        return machine

    def may_preempt(self, thread: Thread) -> bool:
        """Return whether the kernel may take the CPU from `thread` at (almost) any instant."""
        machine = thread.machine
        if machine.preempt_off:
            return False
        preempt = self.scheduler.preempt
        return preempt == "full" or (preempt == "voluntary" and machine.might_sleep)

    def _schedule(self) -> Machine | None:
        """Pick the next thread (``__schedule``)."""
        scheduler, cpu, previous = self.scheduler, self.context.cpu, self.current
        self.load()
        self.context.need_resched = False
        if previous is None:
            if not self.queue:
                return None
            self._leave_idle()
        elif previous.left_ns or not previous.machine.asleep:
            self.enqueue(previous)
        scheduler.rcu.note_context_switch(cpu)  # also when the same thread is chosen again
        chosen = min(self.queue, key=_by_vruntime, default=None)
        if chosen is not None:
            self.dequeue(chosen)
            if chosen is previous:
                return self._resume()
        self.current = chosen
        if chosen is None:
            self._enter_idle()
        else:
            chosen.ran_ns = 0
            self._enter(Phase.SWITCH)
            self.pay(scheduler.prices.switch_ns * self.slowdown_permille // 1000)
        if scheduler.outbox:
            scheduler.deliver(self)
        return None

    def pay(self, price_ns: int) -> None:
        """Pay `price_ns` in the present phase."""
        engine = self.scheduler.engine
        self.until_ns = engine.now_ns + price_ns
        engine.schedule(self, self.until_ns)

    def _resume(self) -> Machine | None:
        """Let the current thread go on with what it still owes, or take its next step."""
        thread = self.current
        assert thread is not None
        self._enter(Phase.TASK)
        self.context.preempt_off = thread.machine.preempt_off
        if self.context.need_resched:  # somebody better came during the switch
            return self._schedule()
        if thread.left_ns > 0:
            self.pay(thread.left_ns)
            thread.left_ns = 0
            return None
        return self._schedule() if thread.machine.asleep else thread.machine

    def enqueue(self, thread: Thread) -> None:
        """Put a runnable thread on the queue."""
        self.load()
        self.queue.append(thread)
        self.queue_weight += thread.weight
        thread.queued = True

    def dequeue(self, thread: Thread) -> None:
        """Take a thread off the queue."""
        self.queue.remove(thread)
        self.queue_weight -= thread.weight
        thread.queued = False

    def load(self) -> int:
        """Return the average of the weight that was runnable here (``cfs_rq_load_avg``)."""
        running = self.current.weight if self.current is not None else 0
        return self.average.advance(self.scheduler.engine.now_ns, self.queue_weight + running)

    def preempt_if_better(self, thread: Thread) -> None:
        """Ask for the CPU on behalf of a thread that has just woken (``check_preempt_wakeup``)."""
        current = self.current
        if current is None:
            self.context.need_resched = True
            if self.phase is Phase.IDLE and self.entry < 0:
                self.pay(self.scheduler.prices.wake_idle_ns * self.slowdown_permille // 1000)
            return
        self.account()
        granularity_ns = self.scheduler.cfs.wakeup_granularity_ns * NICE_0_WEIGHT // thread.weight
        if current.vruntime_ns - thread.vruntime_ns > granularity_ns:
            self.resched()

    def resched(self) -> None:
        """Set need_resched; a preemptible kernel gives way at once unless an interrupt is on."""
        self.context.need_resched = True
        thread = self.current
        if self.phase is Phase.TASK and thread is not None and self.may_preempt(thread):
            self.account()
            thread.left_ns = self.until_ns - self.scheduler.engine.now_ns
            if thread.left_ns == 0:
                return  # its appointment is now: it will look at need_resched itself
            if self._schedule() is not None:
                raise AssertionError("a thread with time left was asked to step")

    # -- idle --------------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        self.account()
        self.phase = phase

    def _enter_idle(self) -> None:
        self._enter(Phase.IDLE)
        self.scheduler.engine.cancel(self)
        self.context.idle = True
        self.context.preempt_off = False
        self.scheduler.rcu.idle_enter(self.context.cpu)
        self.scheduler.ticks[self.context.cpu].plan()

    def _leave_idle(self) -> None:
        self.context.idle = False
        self.scheduler.rcu.idle_exit(self.context.cpu)
        self.scheduler.ticks[self.context.cpu].plan()

    # -- interrupts and softirqs -------------------------------------------------------------

    def interrupt(self, price_ns: int) -> None:
        """Run an interrupt handler for `price_ns` on top of whatever goes on.

        One that leaves nothing to do behind only prolongs what it interrupts.
        """
        now_ns = self.scheduler.engine.now_ns
        price_ns = price_ns * self.slowdown_permille // 1000
        quiet = self.phase is Phase.TASK and not self.context.need_resched and self.all_quiet()
        if quiet or self.phase is Phase.IRQ or self.phase is Phase.SOFTIRQ:
            self.irq_owed_ns += price_ns
            self.pay(self.until_ns - now_ns + price_ns)
            return
        self.interrupted = self.phase
        self.left_ns = self.until_ns - now_ns
        self._enter(Phase.IRQ)
        self.pay(price_ns)

    def all_quiet(self) -> bool:
        """Return whether no softirq is pending here."""
        return all(machine.asleep for machine in self.softirqs)

    def _softirq(self) -> Machine | None:
        """Go on in softirq context: the next step, the next handler, or back."""
        running = self.running_softirq
        if running is None or running.asleep:
            running = self.running_softirq = self._next_softirq()
        if running is None:
            return self._irq_exit()
        self._enter(Phase.SOFTIRQ)
        self.context.softirq = True
        return running

    def _next_softirq(self) -> Machine | None:
        while self.batch:
            machine = self.batch.pop(0)
            if not machine.asleep:
                return machine
        pending = [machine for machine in self.softirqs if not machine.asleep]
        thread = self.ksoftirqd
        assert thread is not None
        if not pending or not thread.machine.asleep:
            return None
        now_ns = self.scheduler.engine.now_ns
        if self.softirq_began_ns < 0:
            self.softirq_began_ns = now_ns
            self.restarts = SOFTIRQ_RESTARTS
        else:
            self.restarts -= 1
            late = now_ns - self.softirq_began_ns >= SOFTIRQ_TIME_NS
            if late or self.context.need_resched or self.restarts <= 0:
                thread.machine.wake()
                self.scheduler.deliver(self)
                return None
        self.batch = pending[1:]
        return pending[0]

    def _irq_exit(self) -> Machine | None:
        self.softirq_began_ns = -1
        self.context.softirq = False
        self._enter(self.interrupted)
        if self.phase is Phase.IDLE:
            self.scheduler.rcu.irq_exit(self.context.cpu)
            self.scheduler.engine.cancel(self)
            if self.queue:
                return self._schedule()
            self.scheduler.ticks[self.context.cpu].plan()
            return None
        thread = self.current
        assert thread is not None
        if self.phase is Phase.TASK and self.context.need_resched and self.may_preempt(thread):
            thread.left_ns = self.left_ns
            return self._schedule()
        self.pay(self.left_ns)
        return None

    def next_timer(self) -> bool:
        """Forget timers that were cancelled or moved; return whether one is left at the head."""
        wheel = self.wheel
        while wheel and (wheel[0][2].token != wheel[0][3] or not wheel[0][2].pending):
            heapq.heappop(wheel)
        return bool(wheel)

    def tick_scheduler(self) -> None:
        """Take the CPU from a thread that has had its slice (``check_preempt_tick``)."""
        current = self.current
        if current is None or not self.queue:
            return
        self.account()
        cfs = self.scheduler.cfs
        weight = self.queue_weight + current.weight
        slice_ns = cfs.slice_ns(current.weight, weight, len(self.queue) + 1)
        if current.ran_ns > slice_ns:
            self.context.need_resched = True
        elif current.ran_ns >= cfs.min_granularity_ns:
            first = min(self.queue, key=_by_vruntime)
            if current.vruntime_ns - first.vruntime_ns > slice_ns:
                self.context.need_resched = True


def _by_vruntime(thread: Thread) -> tuple[int, int]:
    return (thread.vruntime_ns, thread.id)


@attrs.define(eq=False)
class Tick(Actor):
    """The scheduling-clock interrupt of a CPU: fires before anything else that is due."""

    priority: ClassVar[int] = 0

    cpu: Cpu = attrs.field(kw_only=True)
    machine: Machine = attrs.field(kw_only=True)
    timers: TimerSoftirq = attrs.field(kw_only=True)
    phase_ns: int = attrs.field(kw_only=True)

    def fire(self) -> Machine | None:
        """Start the handler: RCU's part is a step, the rest follows in :meth:`charge`."""
        cpu = self.cpu
        cpu.account()
        if cpu.phase is Phase.IDLE:
            cpu.scheduler.rcu.irq_enter(cpu.context.cpu)
        cpu.tick_scheduler()
        self._collect_expired()
        return self.machine

    def charge(self, machine: Machine, price_ns: int) -> None:
        """Interrupt the CPU for the handler's price and plan the next tick."""
        del machine
        cpu = self.cpu
        scheduler = cpu.scheduler
        cpu.interrupt(scheduler.prices.tick_ns + price_ns)
        scheduler.deliver(cpu)
        scheduler.engine.schedule(self, self.next_after(scheduler.engine.now_ns))

    def next_after(self, now_ns: int) -> int:
        """Return the first instant of this CPU's tick after `now_ns`."""
        period_ns = self.cpu.scheduler.jiffy_ns
        return now_ns + period_ns - (now_ns - self.phase_ns) % period_ns

    def plan(self) -> None:
        """Set the next tick: the next period, or when idle (NO_HZ) the next timer."""
        cpu = self.cpu
        scheduler = cpu.scheduler
        now_ns = scheduler.engine.now_ns
        if not cpu.context.idle or scheduler.rcu.needs_cpu(cpu.context.cpu):
            scheduler.engine.schedule(self, self.next_after(now_ns))
        elif cpu.next_timer():
            due_ns = cpu.wheel[0][0] * scheduler.jiffy_ns - 1
            scheduler.engine.schedule(self, self.next_after(max(now_ns, due_ns)))
        else:
            scheduler.engine.cancel(self)

    def _collect_expired(self) -> None:
        jiffies = self.cpu.scheduler.jiffies
        for wheel in (self.cpu.wheel, self.cpu.deferrable):
            while wheel and wheel[0][0] <= jiffies:
                _expires, _sequence, timer, token = heapq.heappop(wheel)
                self.timers.expired.append((timer, token))
                self.timers.wake()


@attrs.define(eq=False)
class Alarm(Actor):
    """Wakes a machine at an instant (an hrtimer that only wakes its thread)."""

    priority: ClassVar[int] = 0

    machine: Machine = attrs.field(kw_only=True)
    scheduler: Scheduler = attrs.field(kw_only=True)

    def fire(self) -> Machine | None:
        """Wake the machine."""
        self.machine.wake()
        self.scheduler.deliver(self.scheduler.cpus[self.machine.cpu])
        return None


@attrs.define(eq=False)
class Scheduler:
    """All CPUs, and the delivery of whom the steps woke.

    Parameters
    ----------
    engine : Engine
        The clock.
    jiffy_ns : int
        Tick period.
    preempt : str
        ``none``, ``voluntary`` or ``full``.
    outbox, armed : list
        Where steps leave woken machines and armed timers.
    """

    engine: Engine
    jiffy_ns: int
    preempt: str
    prices: CpuPrices
    cfs: CfsTunables
    outbox: list[Machine]
    armed: list[Timer]
    rcu: RcuHooks
    cpus: list[Cpu] = attrs.field(factory=list)
    ticks: list[Tick] = attrs.field(factory=list)
    threads: dict[str, Thread] = attrs.field(factory=dict)
    stepped: Callable[[Machine], None] | None = None
    _timers: int = 0

    @property
    def preemptible(self) -> bool:
        """Whether kernel code can be preempted at any instant."""
        return self.preempt == "full"

    @property
    def jiffies(self) -> int:
        """The kernel's tick count at this instant."""
        return self.engine.now_ns // self.jiffy_ns

    def add_thread(
        self, machine: Machine, *, nice: int, consumer: str, pinned: bool = True
    ) -> Thread:
        """Make `machine` a thread; one that is awake starts when the world does."""
        thread = Thread(len(self.threads), machine, nice, consumer, pinned)
        self.threads[machine.name] = thread
        return thread

    def start(self, awake: Sequence[Machine]) -> None:
        """Begin: every CPU idle, then the machines that are awake are put on their CPUs."""
        for cpu in self.cpus:
            cpu.context.idle = True
            self.rcu.idle_enter(cpu.context.cpu)
            self.ticks[cpu.context.cpu].plan()
        self.outbox.extend(awake)
        self.deliver(self.cpus[0])

    def deliver(self, waker: Cpu) -> None:
        """Put woken machines where they run and armed timers into their wheels."""
        while self.armed:
            timer = self.armed.pop()
            if timer.pending:
                self._arm(timer)
        while self.outbox:
            machine = self.outbox.pop(0)
            if machine.level is Level.SOFTIRQ:
                self._raise_softirq(machine)
            elif machine.level is Level.TASK:
                self._wake(self.threads[machine.name], waker)

    def _arm(self, timer: Timer) -> None:
        """File a timer: bucket of the wheel, never before `delay_jiffies` whole jiffies."""
        cpu = self.cpus[timer.cpu]
        shift, start = 0, WHEEL_FIRST_LEVEL
        while timer.delay_jiffies >= start:
            shift += WHEEL_LEVEL_SHIFT
            start <<= WHEEL_LEVEL_SHIFT
        granularity = 1 << shift
        expires = (self.jiffies + timer.delay_jiffies + granularity) >> shift << shift
        self._timers += 1
        wheel = cpu.deferrable if timer.deferrable else cpu.wheel
        heapq.heappush(wheel, (expires, self._timers, timer, timer.token))
        if cpu.phase is Phase.IDLE:
            self.ticks[timer.cpu].plan()

    def _raise_softirq(self, machine: Machine) -> None:
        """Let a softirq run at the next interrupt's end; outside of interrupts wake ksoftirqd."""
        cpu = self.cpus[machine.cpu]
        if machine is cpu.running_softirq:  # raised again by its own pass: that is a restart
            cpu.running_softirq = None
        if cpu.phase not in {Phase.IRQ, Phase.SOFTIRQ}:
            assert cpu.ksoftirqd is not None
            cpu.ksoftirqd.machine.wake()

    def _wake(self, thread: Thread, waker: Cpu) -> None:
        """Put a woken thread on a queue (``try_to_wake_up``, ``place_entity``)."""
        machine = thread.machine
        home = self.cpus[machine.cpu]
        if thread.queued or home.current is thread:  # not off its CPU yet: it just goes on
            return
        cpu = home if thread.pinned else self._select(home, waker)
        cpu.account()
        if cpu is not home:
            thread.vruntime_ns += cpu.min_vruntime_ns - home.min_vruntime_ns
            machine.cpu = cpu.context.cpu
        floor_ns = cpu.min_vruntime_ns - self.cfs.latency_ns // 2
        thread.vruntime_ns = max(thread.vruntime_ns, floor_ns)
        cpu.enqueue(thread)
        cpu.preempt_if_better(thread)

    def _select(self, home: Cpu, waker: Cpu) -> Cpu:
        """Choose a CPU for a thread that may run anywhere.

        ``select_task_rq_fair`` of 5.5: an idle CPU, the previous one first; else the waker's or the
        previous one, whichever has had less load for its capacity (``wake_affine_weight``). That
        looks at averages: what runs there at this instant does not matter.
        """
        if _is_free(home):
            return home
        for cpu in self.cpus:
            if _is_free(cpu):
                return cpu
        theirs = waker.load() * waker.slowdown_permille * 100
        ours = home.load() * home.slowdown_permille * WAKE_AFFINE_PCT
        return waker if theirs < ours else home


def _is_free(cpu: Cpu) -> bool:
    return cpu.current is None and not cpu.queue
