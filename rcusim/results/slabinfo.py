"""What ``/proc/slabinfo`` showed during a run, at so many instants that it stays small.

States are taken on a grid of instants that begins at time 0 and becomes twice as wide whenever there
are too many of them. A state is kept where it differs from the one before, so that it holds until
the next one kept, as seen from the grid. The state at the end of the run comes last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from rcusim.formats.slabinfo import Slabinfo, SlabinfoRow

MOST_STATES = 256
FIRST_STEP_NS = 1000

FIXED = ("objsize", "objperslab", "pagesperslab", "limit", "batchcount", "sharedfactor")
"""Columns that stay as they are for a whole run."""

MOVING = ("active_objs", "num_objs", "active_slabs", "num_slabs", "sharedavail")
"""Columns that a state consists of."""

State = tuple[int, ...]
"""The moving columns of the first cache, of the second, and so on."""

RowsOf = Callable[[], Sequence[SlabinfoRow]]


@attrs.frozen(kw_only=True)
class SlabinfoSeries:
    """States of all caches of a run.

    Parameters
    ----------
    names : tuple of str
        Caches, in the order of a dump.
    fixed : tuple of tuple of int
        For each cache its columns :data:`FIXED`.
    step_ns : int
        Width of the grid.
    at_ns : tuple of int
        Instants, ascending, the first 0: multiples of `step_ns`, but for the last, the end of what
        was recorded.
    states : tuple of tuple of int
        For each instant the columns :data:`MOVING` of all caches; what happened at the instant
        itself is in it.
    """

    names: tuple[str, ...]
    fixed: tuple[tuple[int, ...], ...]
    step_ns: int
    at_ns: tuple[int, ...]
    states: tuple[State, ...]

    @property
    def end_ns(self) -> int:
        """Last instant."""
        return self.at_ns[-1]

    def taken_ns(self, at_ns: int) -> int:
        """Return the instant on the grid, or the end, whose state is that at `at_ns`."""
        return self.end_ns if at_ns >= self.end_ns else at_ns // self.step_ns * self.step_ns

    def at(self, at_ns: int) -> Slabinfo:
        """Return the dump of the last instant of the grid that is not after `at_ns`.

        Raises
        ------
        ValueError
            When the instant is not within the run.
        """
        if not 0 <= at_ns <= self.end_ns:
            raise ValueError(f"{at_ns} ns is not within the run, which ends at {self.end_ns} ns")
        state = self.states[bisect_right(self.at_ns, self.taken_ns(at_ns)) - 1]
        width = len(MOVING)
        rows = []
        for number, (name, fixed) in enumerate(zip(self.names, self.fixed, strict=True)):
            columns: dict[str, Any] = dict(zip(FIXED, fixed, strict=True))
            moving = state[number * width : (number + 1) * width]
            columns.update(zip(MOVING, moving, strict=True))
            rows.append(SlabinfoRow(name=name, **columns))
        return Slabinfo(rows=tuple(rows))

    def check(self) -> None:
        """Refuse what cannot have been recorded.

        Raises
        ------
        ValueError
            When lengths do not fit or instants do not ascend from 0.
        """
        width = len(MOVING) * len(self.names)
        if (
            self.step_ns < 1
            or not self.at_ns
            or self.at_ns[0] != 0
            or len(self.at_ns) != len(self.states)
            or len(self.fixed) != len(self.names)
            or any(len(columns) != len(FIXED) for columns in self.fixed)
            or any(len(state) != width for state in self.states)
            or any(a >= b for a, b in zip(self.at_ns, self.at_ns[1:], strict=False))
        ):
            raise ValueError("the states of slabinfo do not fit together")


@attrs.define(eq=False)
class SlabinfoBuilder:
    """Builds a :class:`SlabinfoSeries`.

    Made at time 0, with the state then. Whoever runs the world calls :meth:`hold` before each
    stretch in which time goes on.

    Parameters
    ----------
    rows : callable
        Returns the present rows, always of the same caches.
    most : int
        Most instants on the grid, at least 2; the end comes on top where it is not on the grid.
    first_step_ns : int
        Width of the grid at the beginning.
    """

    rows: RowsOf
    most: int = MOST_STATES - 1
    first_step_ns: int = FIRST_STEP_NS
    _names: tuple[str, ...] = attrs.field(init=False)
    _fixed: tuple[tuple[int, ...], ...] = attrs.field(init=False)
    _step_ns: int = attrs.field(init=False)
    _next_ns: int = attrs.field(init=False, default=0)
    _at_ns: list[int] = attrs.field(init=False, factory=list)
    _states: list[State] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        if self.most < 2 or self.first_step_ns < 1:
            raise ValueError("at least 2 states, and a step of at least 1 ns")
        rows = self.rows()
        self._step_ns = self.first_step_ns
        self._names = tuple(row.name for row in rows)
        self._fixed = tuple(_columns(row, FIXED) for row in rows)
        self._at_ns, self._states = [0], [self._state()]

    def hold(self, until_ns: int) -> None:
        """Note that everything before `until_ns` has happened; costs a comparison mostly."""
        if until_ns <= self._next_ns:
            return
        while until_ns > self.most * self._step_ns:
            self._widen()
        if until_ns > self._next_ns:
            self._keep(self._next_ns)
            self._next_ns = _up(until_ns, self._step_ns)

    def finish(self, now_ns: int, *, known: bool = True) -> SlabinfoSeries:
        """Return the series up to `now_ns`, or if the state then is not `known`, up to the last."""
        if known:
            self.hold(now_ns)
        # what was moved to an instant to come is not true there yet
        while len(self._at_ns) > 1 and self._at_ns[-1] >= now_ns:
            self._drop()
        if known:
            if self._at_ns[-1] == now_ns:
                self._drop()
            self._at_ns.append(now_ns)
            self._states.append(self._state())
        return SlabinfoSeries(
            names=self._names,
            fixed=self._fixed,
            step_ns=self._step_ns,
            at_ns=tuple(self._at_ns),
            states=tuple(self._states),
        )

    def _keep(self, at_ns: int) -> None:
        """Keep the present state for an instant of the grid if it differs from the one before."""
        if self._at_ns[-1] == at_ns:
            self._drop()
        state = self._state()
        if not self._states or state != self._states[-1]:
            self._at_ns.append(at_ns)
            self._states.append(state)

    def _drop(self) -> None:
        self._at_ns.pop()
        self._states.pop()

    def _widen(self) -> None:
        """Make the grid twice as wide: a state between its instants holds from the next one on."""
        self._step_ns *= 2
        # of two states that come to one instant the later is true there
        kept = {
            _up(instant, self._step_ns): state
            for instant, state in zip(self._at_ns, self._states, strict=True)
        }
        self._at_ns, self._states = [], []
        for instant, state in kept.items():
            if not self._states or state != self._states[-1]:
                self._at_ns.append(instant)
                self._states.append(state)
        self._next_ns = _up(self._next_ns, self._step_ns)

    def _state(self) -> State:
        return tuple(value for row in self.rows() for value in _columns(row, MOVING))


def _up(instant_ns: int, step_ns: int) -> int:
    """Return the first instant of a grid that is not before `instant_ns`."""
    return -(-instant_ns // step_ns) * step_ns


def _columns(row: SlabinfoRow, names: Iterable[str]) -> tuple[int, ...]:
    return tuple(getattr(row, name) for name in names)
