"""Parameters of RCU, and what follows from them without any state."""

from __future__ import annotations

import attrs
from attrs.validators import and_, ge, in_, instance_of, le, optional

from rcusim.errors import Problem, ScenarioError

MAX_LEVELS = 4
STALL_TIMEOUT_S = 21
QOVLD_MULT = 2
MAX_BLIMIT = 10_000
"""``DEFAULT_MAX_RCU_BLIMIT``: the batch limit during a flood of callbacks."""
TIME_LIMIT_CALLBACKS = 100
"""A batch limit above this is accompanied by a limit in time (``rcu_do_batch``)."""
TIME_CHECK_CALLBACKS = 32
"""The time is looked at when the number of invoked callbacks is a multiple of this."""


def _integer(default: int, low: int, high: int | None = None) -> int:
    bounds = ge(low) if high is None else and_(ge(low), le(high))
    checked: int = attrs.field(default=default, validator=and_(instance_of(int), bounds))
    return checked


@attrs.frozen(kw_only=True)
class RcuConfig:
    """Kernel configuration and ``rcutree.*`` boot parameters.

    Parameters
    ----------
    cpus : int
        ``nr_cpu_ids``; all of them are online.
    hz : int
        Ticks per second.
    preempt : {"none", "voluntary", "full"}
        ``full`` is CONFIG_PREEMPT_RCU; the others are CONFIG_PREEMPT_RCU=n, CONFIG_PREEMPT_COUNT=n.
    blimit, qhimark, qlowmark, rcu_divisor : int
        Limits of callback batches, in callbacks; see ``rcu_do_batch`` and ``call_rcu``.
    rcu_resched_ns : int
        Longest time of a batch with a large limit.
    callbacks_per_step : int
        How many callbacks one step invokes at most; no property of a kernel, but how finely a long
        batch can be interrupted.
    jiffies_till_first_fqs, jiffies_till_next_fqs : int or None
        Delays of the scans for quiescent states; None is the kernel's rule.
    rcu_fanout_leaf, rcu_fanout : int
        CPUs of a leaf, children of an inner node.

    Raises
    ------
    ValueError
        When a value is out of its bounds.
    ScenarioError
        When the tree would need more than four levels.
    """

    cpus: int = _integer(8, 1)
    hz: int = _integer(250, 1)
    preempt: str = attrs.field(default="full", validator=in_(("none", "voluntary", "full")))
    blimit: int = _integer(10, 1)
    qhimark: int = _integer(10_000, 1)
    qlowmark: int = _integer(100, 0)
    rcu_divisor: int = _integer(7, 0, 62)
    rcu_resched_ns: int = _integer(3_000_000, 1_000_000, 1_000_000_000)
    callbacks_per_step: int = _integer(510, 1)
    jiffies_till_first_fqs: int | None = attrs.field(default=None, validator=optional(ge(0)))
    jiffies_till_next_fqs: int | None = attrs.field(default=None, validator=optional(ge(0)))
    rcu_fanout_leaf: int = _integer(16, 2, 64)
    rcu_fanout: int = _integer(64, 2, 64)

    def __attrs_post_init__(self) -> None:
        capacity = self.rcu_fanout_leaf * self.rcu_fanout ** (MAX_LEVELS - 1)
        if self.cpus > capacity:
            fanout = f"{self.rcu_fanout_leaf}/{self.rcu_fanout}"
            rule = f"a tree of {MAX_LEVELS} levels holds {capacity} CPUs, not {self.cpus}"
            raise ScenarioError(
                "rcu", [Problem("rcutree.rcu_fanout_leaf/rcu_fanout", fanout, rule)]
            )

    @property
    def preempt_rcu(self) -> bool:
        """Whether readers are counted (CONFIG_PREEMPT_RCU)."""
        return self.preempt == "full"

    @property
    def qovld(self) -> int:
        """Callbacks of a CPU from which on it is overloaded (``qovld_calc``)."""
        return QOVLD_MULT * self.qhimark

    def _fqs_jiffies(self) -> int:
        return 1 + (self.hz > 250) + (self.hz > 500) + self.cpus // 256

    @property
    def first_fqs_jiffies(self) -> int:
        """Delay of the first scan of a grace period (``jiffies_till_first_fqs``)."""
        chosen = self.jiffies_till_first_fqs
        return min(self._fqs_jiffies() if chosen is None else chosen, self.hz)

    @property
    def next_fqs_jiffies(self) -> int:
        """Delay between scans (``jiffies_till_next_fqs``), at least 1."""
        chosen = self.jiffies_till_next_fqs
        return max(1, min(self._fqs_jiffies() if chosen is None else chosen, self.hz))

    @property
    def sched_qs_jiffies(self) -> int:
        """Age at which a grace period begins to ask for help (``jiffies_to_sched_qs``)."""
        scans = self.first_fqs_jiffies + 2 * self.next_fqs_jiffies
        return max(scans, self.hz // 10 + self.cpus // 256)

    @property
    def half_stall_jiffies(self) -> int:
        """Age at which holdouts are told to reschedule (``jiffies_resched``)."""
        return STALL_TIMEOUT_S * self.hz // 2
