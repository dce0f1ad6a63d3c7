"""The interval law: nothing is freed, and no grace period ends, under a reader that began before.

For every read-side critical section and every object: if the section began before the object was queued
and still runs when the object is freed, the object was freed too early. The same for a grace period:
a section that began before its start and still runs at its end.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rcusim._jit import IntArray
from rcusim.errors import PropertyViolation
from rcusim.probes import Probes


@attrs.frozen
class OpenSection:
    """A read-side critical section that runs.

    Attributes
    ----------
    queued : int
        Queue operations before it began.
    order : int
        Position of its beginning among beginnings of sections and of grace periods.
    """

    reader: str
    cpu: int
    began_ns: int
    queued: int
    order: int


@attrs.define(eq=False)
class IntervalLaw:
    """The law for a run; readers are kept in the order in which they began.

    Parameters
    ----------
    now_ns : callable
        The clock.
    stamp : callable
        Number of queue operations so far, the clock of the chunks' stamps.
    """

    now_ns: Callable[[], int]
    stamp: Callable[[], int]
    open: dict[str, OpenSection] = attrs.field(factory=dict)
    checked: int = 0
    under_reader: int = 0
    sections: int = 0
    _order: int = 0
    _gp_order: int = -1

    def attach(self, probes: Probes) -> None:
        """Listen to readers, grace periods and frees."""
        probes.reader_locked.subscribe(self.locked)
        probes.reader_unlocked.subscribe(self.unlocked)
        probes.gp_started.subscribe(self.gp_started)
        probes.gp_ended.subscribe(self.gp_ended)
        probes.freeing.subscribe(self.freeing)

    def locked(self, reader: str, cpu: int) -> None:
        """Note that a section begins."""
        self._order += 1
        self.sections += 1
        self.open[reader] = OpenSection(reader, cpu, self.now_ns(), self.stamp(), self._order)

    def unlocked(self, reader: str, cpu: int) -> None:
        """Note that a section ends."""
        del cpu
        del self.open[reader]

    def gp_started(self, gp_seq: int) -> None:
        """Note that a grace period begins."""
        del gp_seq
        self._order += 1
        self._gp_order = self._order

    def gp_ended(self, gp_seq: int) -> None:
        """Check a grace period against the oldest section that runs."""
        for section in self.open.values():
            if section.order < self._gp_order:
                raise PropertyViolation(
                    "interval law",
                    self.now_ns(),
                    f"grace period {gp_seq} ends while {section.reader} on CPU {section.cpu}, which began at "
                    f"{section.began_ns} ns and before it, still reads",
                )
            break

    def freeing(
        self, cpu: int, addresses: IntArray, first: int, n: int, step: int, newest: int
    ) -> None:
        """Check the newest of `n` objects against the oldest section that runs."""
        self.checked += n
        for section in self.open.values():
            self.under_reader += n
            if newest > section.queued:
                last = first + (n - 1) * step if step > 0 else first
                raise PropertyViolation(
                    "interval law",
                    self.now_ns(),
                    f"object {int(addresses[last]):#x} is freed on CPU {cpu} while {section.reader} on CPU "
                    f"{section.cpu}, which began at {section.began_ns} ns and before it was queued, still reads",
                )
            break
