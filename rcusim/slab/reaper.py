"""The periodic reaper of SLAB: a deferrable work on every CPU, every two seconds.

Models ``cache_reap`` and its timing (mm/slab.c): the first run about a second after boot, then every
``REAPTIMEOUT_AC`` of 2 s, rounded to whole seconds with three jiffies between CPUs (``round_jiffies``).
A deferrable timer does not wake an idle CPU. Leaves out the case that the cache mutex is contended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rcusim.abc import Allocator
from rcusim.engine.steps import Machine, Price, Timer, state, step_prices, wiring
from rcusim.machine.workqueue import DelayedWork, Kworker, WorkItem, delayed_work

FIRST_S = 1
INTERVAL_S = 2
CPU_SKEW_JIFFIES = 3


def rounded_delay(now_jiffies: int, delay_jiffies: int, hz: int, cpu: int) -> int:
    """Return a delay that ends at a whole second, skewed by CPU (``round_jiffies_common``).

    Examples
    --------
    >>> rounded_delay(0, 250, 250, 0), rounded_delay(10, 250, 250, 0), rounded_delay(100, 500, 250, 0)
    (250, 240, 650)
    >>> rounded_delay(0, 250, 250, 2)
    244
    """
    skew = cpu * CPU_SKEW_JIFFIES
    due = now_jiffies + delay_jiffies + skew
    rest = due % hz
    due = due - rest if rest < hz // 4 else due - rest + hz
    due -= skew
    return due - now_jiffies if due > now_jiffies else delay_jiffies


@state
class CacheReap(WorkItem):
    """``cache_reap`` of a CPU: one step, then again in two seconds."""

    STEPS: ClassVar[tuple[str, ...]] = ("reap",)

    allocator: Allocator = wiring()
    now_ns: Callable[[], int] = wiring()
    jiffy_ns: int = wiring()
    hz: int = wiring()
    home: int = wiring()
    work: DelayedWork = wiring(init=False)

    def reap(self) -> int:
        """Return idle objects of this CPU's arrays to their slabs, and idle slabs to the pages."""
        self.allocator.reap(self.home, self.now_ns())
        self.held.extend(self.allocator.held)
        self.sleep()
        self.schedule(INTERVAL_S)
        return self.allocator.price_ns

    def schedule(self, delay_s: int) -> None:
        """Come again in about `delay_s` seconds."""
        now_jiffies = self.now_ns() // self.jiffy_ns
        self.work.schedule(
            self.home, rounded_delay(now_jiffies, delay_s * self.hz, self.hz, self.home)
        )


def start_reapers(
    allocator: Allocator,
    kworkers: Sequence[Kworker],
    *,
    outbox: list[Machine],
    armed: list[Timer],
    prices: Mapping[str, Mapping[str, Price]],
    now_ns: Callable[[], int],
    jiffy_ns: int,
    hz: int,
) -> list[CacheReap]:
    """Return a reaper for each CPU, its first run on the way (``start_cpu_timer``)."""
    reapers = []
    for cpu in range(len(kworkers)):
        reaper = CacheReap(
            name=f"cpu{cpu}/reap",
            outbox=outbox,
            prices=step_prices(prices, CacheReap),
            cpu=cpu,
            asleep=True,
            first="reap",
            allocator=allocator,
            now_ns=now_ns,
            jiffy_ns=jiffy_ns,
            hz=hz,
            home=cpu,
        )
        reaper.work = delayed_work(kworkers, reaper, armed)
        reaper.work.timer.deferrable = True
        reaper.schedule(FIRST_S)
        reapers.append(reaper)
    return reapers
