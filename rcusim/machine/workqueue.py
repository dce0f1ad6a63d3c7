"""Workqueues: per-CPU kworkers, work items, delayed work.

Models a bound workqueue (``system_wq``): one kworker per CPU at nice 0 that runs one item at a time,
the PENDING bit that is cleared when the item begins to run, and delayed work through the timer of the
CPU that armed it. An item never sleeps here, so a second worker is never woken; rescuers, unbound pools
and flushing are left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from rcusim.engine.steps import Machine, Timer, state, wiring


@state
class WorkItem(Machine):
    """Work hosted by a kworker: awake while it runs, asleep when it is done.

    Parameters
    ----------
    first : str
        Name of the step with which each run begins.
    pending : bool
        The PENDING bit: queued, or (``rcu_work``) waiting for its grace period.
    """

    first: str = wiring()
    pending: bool = False

    def begin(self) -> None:
        """Start a run: clear PENDING and stand at the first step."""
        self.pending = False
        self.asleep = False
        self.at = self.first


@state
class Kworker(Machine):
    """The worker of a CPU: takes the first item of its queue and steps it until it is done.

    Its own price ``take`` is paid when it takes an item (``process_one_work``).
    """

    STEPS: ClassVar[tuple[str, ...]] = ("take",)

    queue: deque[WorkItem] = wiring(factory=deque)
    item: WorkItem | None = None
    wakeups: int = 0

    def step(self) -> int:
        """Take a step of the current item, or take the next one."""
        price_ns = 0
        if self.item is None:
            self.item = self.queue.popleft()
            self.item.begin()
            price_ns = self.prices["take"][0]
        item = self.item
        item.cpu = self.cpu
        price_ns += item.step()
        if item.held:
            self.held.extend(item.held)
            item.held.clear()
        self.resched = item.resched
        if item.asleep:
            self.item = None
            if not self.queue:
                self.sleep()
        return price_ns

    def queue_item(self, item: WorkItem) -> None:
        """Append `item` and wake the worker."""
        self.queue.append(item)
        if self.asleep:
            self.wakeups += 1
        self.wake()


@state
class DelayedWork:
    """A work item behind a timer (``delayed_work``)."""

    item: WorkItem = wiring()
    timer: Timer = wiring()

    def schedule(self, cpu: int, delay_jiffies: int) -> bool:
        """Run the item on `cpu` after a delay; does nothing if it is pending already."""
        if self.item.pending:
            return False
        self.item.pending = True
        self.timer.arm(cpu, delay_jiffies)
        return True


def delayed_work(kworkers: Sequence[Kworker], item: WorkItem, armed: list[Timer]) -> DelayedWork:
    """Return `item` as delayed work: when the timer fires, the item goes to the worker of that CPU."""
    work: DelayedWork

    def fire() -> None:
        kworkers[work.timer.cpu].queue_item(item)

    work = DelayedWork(item=item, timer=Timer(name=f"{item.name}/timer", armed=armed, fire=fire))
    return work
