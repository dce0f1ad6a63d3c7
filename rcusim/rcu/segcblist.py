"""The segmented callback list of a CPU (``rcu_segcblist``, kernel/rcu/rcu_segcblist.c, 6.18).

Four segments in FIFO order: DONE (may be invoked), WAIT and NEXT_READY (wait for a numbered grace
period), NEXT (no number yet). Entries are *runs* of callbacks, so that a segment with a million
``kfree_rcu`` objects can be one entry; `seglen` and `n_cbs` count callbacks.

Leaves out offloading, the pending lists of CPU hotplug, and memory barriers.
"""

from __future__ import annotations

import attrs

from rcusim.abc import Callbacks
from rcusim.engine.steps import state
from rcusim.errors import PropertyViolation
from rcusim.rcu import seq

DONE, WAIT, NEXT_READY, NEXT = range(4)
SEGMENTS = ("DONE", "WAIT", "NEXT_READY", "NEXT")


@state
class Segcblist:
    """A segmented callback list.

    Attributes
    ----------
    segments : list of list of Callbacks
        Entries of each segment, oldest first.
    seglen : list of int
        Callbacks of each segment.
    gp_seq : list of int
        The number for which WAIT and NEXT_READY wait; valid while they are not empty.
    n_cbs : int
        All callbacks, those of a batch that is being invoked included: it is raised before they are
        linked and lowered after they were invoked.
    """

    segments: list[list[Callbacks]] = attrs.field(factory=lambda: [[], [], [], []])
    seglen: list[int] = attrs.field(factory=lambda: [0, 0, 0, 0])
    gp_seq: list[int] = attrs.field(factory=lambda: [0, 0, 0, 0])
    n_cbs: int = 0

    @property
    def ready(self) -> bool:
        """Whether callbacks may be invoked (``rcu_segcblist_ready_cbs``)."""
        return bool(self.segments[DONE])

    @property
    def pending(self) -> bool:
        """Whether callbacks wait for a grace period (``rcu_segcblist_pend_cbs``)."""
        return self.seglen[WAIT] + self.seglen[NEXT_READY] + self.seglen[NEXT] > 0

    @property
    def unassigned(self) -> bool:
        """Whether callbacks have no number yet (``!rcu_segcblist_restempty(NEXT_READY_TAIL)``)."""
        return bool(self.segments[NEXT])

    def first_pending(self) -> Callbacks | None:
        """Return the first entry that is not DONE (``rcu_segcblist_first_pend_cb``)."""
        for segment in self.segments[WAIT:]:
            if segment:
                return segment[0]
        return None

    def enqueue(self, entry: Callbacks) -> None:
        """Append a run to NEXT (``rcu_segcblist_enqueue``)."""
        self.n_cbs += entry.count
        self.seglen[NEXT] += entry.count
        self.segments[NEXT].append(entry)

    def extend(self, added: int) -> None:
        """Note that the last run of NEXT has grown by `added` callbacks."""
        if not self.segments[NEXT]:
            raise PropertyViolation("invariant I5", -1, "a run that has left NEXT was extended")
        self.n_cbs += added
        self.seglen[NEXT] += added

    def entrain(self, entry: Callbacks) -> bool:
        """Append behind the last callback, whatever that waits for (``rcu_segcblist_entrain``).

        Returns
        -------
        bool
            False when there are no callbacks: then nothing was done.
        """
        if not self.n_cbs:
            return False
        segment = NEXT
        while segment > DONE and not self.segments[segment]:
            segment -= 1
        self.n_cbs += entry.count
        self.seglen[segment] += entry.count
        self.segments[segment].append(entry)
        if segment == DONE:
            entry.ready()
        return True

    def accelerate(self, wanted: int) -> bool:
        """Let newcomers wait for grace period `wanted` (``rcu_segcblist_accelerate``).

        Also pulls back a segment with a later number.

        Returns
        -------
        bool
            Whether a segment waits for `wanted` now; False also when no slot was free.
        """
        segment = NEXT_READY
        while segment > DONE and not (
            self.segments[segment] and seq.lt(self.gp_seq[segment], wanted)
        ):
            segment -= 1
        segment += 1
        if segment == NEXT or not any(self.segments[segment:]):
            return False
        for later in range(segment + 1, NEXT + 1):
            self._move(later, segment)
        for slot in range(segment, NEXT):
            self.gp_seq[slot] = wanted
        return True

    def advance(self, reached: int) -> None:
        """Move what waited for `reached` or earlier into DONE (``rcu_segcblist_advance``)."""
        for segment in (WAIT, NEXT_READY):
            if not self.segments[segment] or seq.lt(reached, self.gp_seq[segment]):
                break
            over = self.segments[segment]
            self._move(segment, DONE)
            for entry in over:
                entry.ready()
        if not self.segments[WAIT] and self.segments[NEXT_READY]:
            self._move(NEXT_READY, WAIT)
            self.gp_seq[WAIT] = self.gp_seq[NEXT_READY]

    def over(self, reached: int) -> list[Callbacks]:
        """Return the runs whose grace period has ended by `reached`, noticed by this CPU or not."""
        return [
            run
            for segment in (WAIT, NEXT_READY)
            if self.segments[segment] and seq.ge(reached, self.gp_seq[segment])
            for run in self.segments[segment]
        ]

    def extract_done(self) -> tuple[list[Callbacks], int]:
        """Detach DONE; return its entries and their callbacks. `n_cbs` still counts them."""
        entries, callbacks = self.segments[DONE], self.seglen[DONE]
        self.segments[DONE], self.seglen[DONE] = [], 0
        return entries, callbacks

    def insert_done(self, entries: list[Callbacks], callbacks: int) -> None:
        """Put what was not invoked back in front of DONE (``rcu_segcblist_insert_done_cbs``)."""
        self.segments[DONE][:0] = entries
        self.seglen[DONE] += callbacks

    def add_len(self, callbacks: int) -> None:
        """Change the number of callbacks (``rcu_segcblist_add_len``)."""
        self.n_cbs += callbacks

    def check(self) -> None:
        """Check the invariants that hold between batches.

        Raises
        ------
        PropertyViolation
            When the lengths disagree, or a later segment is filled before an earlier one.
        """
        if self.n_cbs != sum(self.seglen):
            what = f"{self.n_cbs} callbacks, but {self.seglen} in the segments"
            raise PropertyViolation("invariant I5", -1, what)
        if self.segments[NEXT_READY]:
            if not self.segments[WAIT]:
                raise PropertyViolation("invariant I5", -1, "WAIT is empty, NEXT_READY is not")
            if not seq.lt(self.gp_seq[WAIT], self.gp_seq[NEXT_READY]):
                raise PropertyViolation("invariant I5", -1, "NEXT_READY waits no longer than WAIT")

    def _move(self, source: int, target: int) -> None:
        """Append a segment to an earlier one; the segment is a new, empty list afterwards."""
        moved, self.segments[source] = self.segments[source], []
        if self.segments[target]:
            self.segments[target].extend(moved)
        else:
            self.segments[target] = moved
        self.seglen[target] += self.seglen[source]
        self.seglen[source] = 0
