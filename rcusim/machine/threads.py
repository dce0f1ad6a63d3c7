"""Threads as the scheduler sees them, and the tables of CFS.

Models CFS of 3.x to 6.5 for one run queue per CPU: weights, virtual run time, placement of a thread
that wakes, wake-up preemption, slices. Leaves out groups, deadlines and real-time classes.
"""

from __future__ import annotations

import attrs

from rcusim.engine.steps import Machine
from rcusim.units import MS_NS

NICE_0_WEIGHT = 1024

NICE_WEIGHTS = (
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
)  # fmt: skip
"""Weight of nice -20 .. 19 (``sched_prio_to_weight``, kernel/sched/core.c)."""


@attrs.frozen
class CfsTunables:
    """Time constants of CFS, which grow with the number of CPUs (``get_update_sysctl_factor``)."""

    latency_ns: int
    min_granularity_ns: int
    wakeup_granularity_ns: int

    @classmethod
    def of(cls, cpus: int) -> CfsTunables:
        """Return the defaults for a number of CPUs: factor 1 + log2(min(cpus, 8)).

        Examples
        --------
        >>> CfsTunables.of(8)
        CfsTunables(latency_ns=24000000, min_granularity_ns=3000000, wakeup_granularity_ns=4000000)
        """
        factor = min(cpus, 8).bit_length()
        return cls(6 * MS_NS * factor, 750_000 * factor, MS_NS * factor)

    def slice_ns(self, weight: int, total_weight: int, runnable: int) -> int:
        """Return how long a thread may run before others get their turn (``sched_slice``)."""
        period_ns = max(self.latency_ns, runnable * self.min_granularity_ns)
        return period_ns * weight // total_weight


@attrs.define(eq=False)
class Thread:
    """A schedulable machine.

    Parameters
    ----------
    id : int
        Decides between equal virtual run times.
    machine : Machine
        What it does; ``machine.cpu`` is the CPU on whose queue it is.
    nice : int
        -20 .. 19.
    consumer : str
        Whose CPU time this is, in reports: ``producer``, ``worker``, ``gp_kthread``, ...
    pinned : bool
        Whether it never leaves its CPU.
    """

    id: int
    machine: Machine
    nice: int
    consumer: str
    pinned: bool = True
    weight: int = attrs.field(init=False)
    vruntime_ns: int = 0
    left_ns: int = 0
    ran_ns: int = 0
    queued: bool = False

    def __attrs_post_init__(self) -> None:
        self.weight = NICE_WEIGHTS[self.nice + 20]
