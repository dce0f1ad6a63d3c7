"""RCU's part of the scheduling-clock tick (``rcu_sched_clock_irq``, 6.18).

The idle loop runs with preemption disabled: under CONFIG_PREEMPT_RCU a tick that interrupts it
records nothing, the scan for idle CPUs finds them (5.0 and later). Leaves out stall warnings,
offloading, ``nohz_full``, and ``need_qs`` of preemptible readers.
"""

from __future__ import annotations

from typing import ClassVar

from rcusim.engine.steps import Level, Machine, state, wiring
from rcusim.rcu.core import RcuCore
from rcusim.rcu.state import RcuData


@state
class RcuTick(Machine):
    """What each tick of a CPU does for RCU; one step a tick, whatever woke or sleeps."""

    STEPS: ClassVar[tuple[str, ...]] = ("tick",)
    level: ClassVar[Level] = Level.INTERRUPT

    data: RcuData = wiring()
    core: RcuCore = wiring()
    at: str = "tick"

    def tick(self) -> None:
        """Ask for a context switch if that is urgent, record, and raise the core if it has work."""
        data, context = self.data, self.data.context
        if data.rcu_urgent_qs:
            if not self.from_idle_or_user():
                context.need_resched = True
            data.rcu_urgent_qs = False
        if self.quiescent():
            data.record_qs()
        if self.pending():
            self.core.wake()

    def enabled(self) -> bool:
        """Return whether a tick would change anything now."""
        data = self.data
        records = data.cpu_no_qs and self.quiescent()
        return records or data.rcu_urgent_qs or (self.pending() and not self.core.raised)

    def from_idle_or_user(self) -> bool:
        """Return whether the tick interrupted user mode or the idle loop, and nothing on top."""
        context = self.data.context
        return (context.idle or context.user) and not context.softirq

    def quiescent(self) -> bool:
        """Return whether no reader was interrupted (``rcu_flavor_sched_clock_irq``)."""
        context = self.data.context
        if self.data.rcu.config.preempt_rcu:
            return not (context.idle or context.preempt_off or context.softirq)
        return self.from_idle_or_user()

    def pending(self) -> bool:
        """Return whether the RCU core has something to do (``rcu_pending``)."""
        data, in_progress = self.data, self.data.rcu.gp_in_progress
        return (
            (data.core_needs_qs and not data.cpu_no_qs and in_progress)
            or data.cblist.ready
            or (data.cblist.unassigned and not in_progress)
            or data.gp_seq != data.leaf.gp_seq
        )
