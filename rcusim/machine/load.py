"""How loaded a CPU has been: the average that the scheduler's choice of a CPU looks at.

Models the per-entity load tracking of kernel/sched/pelt.c for a run queue as a whole: periods of 1,024 us,
a half-life of 32 periods. Within a period the last weight counts for all of it; the kernel is finer.
"""

from __future__ import annotations

import math

import attrs

PERIOD_NS = 1024 * 1000
HALF_LIFE_PERIODS = 32
_BITS = 32


def _decay_table() -> tuple[int, ...]:
    """Return ``2**(-n/32)`` for n = 0 .. 31 in units of 2**-32, by integer square roots."""
    root = 1 << 63  # 1/2 in units of 2**-64
    for _ in range(5):
        root = math.isqrt(root << 64)
    table, value = [], 1 << 64
    for _ in range(HALF_LIFE_PERIODS):
        table.append(value >> (64 - _BITS))
        value = value * root >> 64
    return tuple(table)


DECAY = _decay_table()


@attrs.define(eq=False)
class LoadAverage:
    """Geometrically decaying average of the weight that is runnable on a CPU."""

    scaled: int = 0
    period: int = 0

    def advance(self, now_ns: int, weight: int) -> int:
        """Note that `weight` has been runnable until now; return the average.

        Examples
        --------
        >>> load = LoadAverage()
        >>> load.advance(32 * PERIOD_NS, 1024), load.advance(64 * PERIOD_NS, 1024)
        (512, 768)
        """
        period = now_ns // PERIOD_NS
        elapsed = period - self.period
        if elapsed:
            self.period = period
            halvings, rest = divmod(elapsed, HALF_LIFE_PERIODS)
            target = weight << 10
            gap = (self.scaled - target) * DECAY[rest] >> _BITS
            self.scaled = target + (gap >> halvings)
        return self.scaled >> 10
