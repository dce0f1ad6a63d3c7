"""What interrupts and RCU's hooks see of a CPU: its present context.

Whoever drives the CPU keeps this up to date; RCU reads it and asks for context switches through it.
"""

from __future__ import annotations

from rcusim.engine.steps import state, wiring


@state
class CpuContext:
    """The context of a CPU.

    Parameters
    ----------
    cpu : int
        Which one.
    slowdown_permille : int
        What a step costs here, in thousandths of its price: a limit in time allows less on a slow
        CPU.
    idle : bool
        The idle loop is the current task, also while an interrupt or a softirq is on top of it.
    user : bool
        User mode was interrupted, or runs.
    softirq : bool
        An interrupt that comes now interrupts a softirq handler.
    preempt_off : bool
        The current task is in a read-side critical section or has disabled preemption otherwise.
    need_resched : bool
        A context switch is wanted. Set by the scheduler and by RCU, cleared by the scheduler at the
        next ``schedule()``, which counts as a context switch even if the same task goes on.
    """

    cpu: int = wiring()
    slowdown_permille: int = wiring(default=1000)
    idle: bool = False
    user: bool = False
    softirq: bool = False
    preempt_off: bool = False
    need_resched: bool = False
