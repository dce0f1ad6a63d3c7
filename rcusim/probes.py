"""Named points of the model at which observers listen.

Recorder, oracles and trace writers subscribe; the model never knows who listens. A probe without a
subscriber costs one truth test: ``if probes.queued: probes.queued(...)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

# ruff: noqa: RUF009 - the calls in the class body make attrs fields, not shared values


class Probe:
    """One point; calls its subscribers in the order in which they subscribed."""

    __slots__ = ("_subscribers", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._subscribers: tuple[Callable[..., None], ...] = ()

    def __bool__(self) -> bool:
        return bool(self._subscribers)

    def __call__(self, *what: Any) -> None:  # noqa: ANN401 - each probe documents its arguments
        """Pass the point: call all subscribers."""
        for subscriber in self._subscribers:
            subscriber(*what)

    def subscribe(self, subscriber: Callable[..., None]) -> None:
        """Call `subscriber` with the probe's arguments each time the point is passed."""
        self._subscribers += (subscriber,)


def _probe(name: str) -> Probe:
    return attrs.field(init=False, factory=lambda: Probe(name))


@attrs.frozen
class Probes:
    """All probes of a world, with their arguments.

    Attributes
    ----------
    allocated : (cpu, addresses, first, n)
        `n` objects were handed out; ``addresses[first : first + n]``.
    queued : (cpu, addresses, first, n)
        The same objects were given to ``kfree_rcu()``.
    freeing : (cpu, addresses, first, n, step, newest)
        `n` objects from index `first` in direction `step` are about to be freed; the newest of
        them was queued at stamp `newest` (see ``reclaim/chains.py``).
    gp_started, gp_ended : (gp_seq)
        A normal grace period began or ended; the value of ``rcu_state.gp_seq`` after the step.
    reader_locked, reader_unlocked : (reader name, cpu)
        An outermost read-side critical section began or ended.
    block_missed : (cpu, objects)
        No page could be had for a block: that many objects went on the emergency list.
    """

    allocated: Probe = _probe("allocated")
    queued: Probe = _probe("queued")
    freeing: Probe = _probe("freeing")
    gp_started: Probe = _probe("gp_started")
    gp_ended: Probe = _probe("gp_ended")
    reader_locked: Probe = _probe("reader_locked")
    reader_unlocked: Probe = _probe("reader_unlocked")
    block_missed: Probe = _probe("block_missed")
