"""Vectors of the segmented callback list."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcusim.abc import Hold
from rcusim.errors import PropertyViolation
from rcusim.rcu.segcblist import DONE, NEXT, NEXT_READY, SEGMENTS, WAIT, Segcblist


@attrs.define(eq=False)
class Entry:
    """A named run of callbacks."""

    name: str
    count: int = 1
    held: list[tuple[Hold, int]] = attrs.field(factory=list)
    times_ready: int = 0

    def ready(self) -> None:
        self.times_ready += 1

    def invoke(self, cpu: int, limit: int, budget_ns: int) -> tuple[int, int]:
        raise NotImplementedError(f"{self.name}: {cpu} {limit} {budget_ns}")


def show(cblist: Segcblist) -> str:
    """The list in the notation of the vectors."""
    parts = []
    for index, segment in enumerate(cblist.segments):
        names = "".join(entry.name for entry in segment if isinstance(entry, Entry))
        number = f"@{cblist.gp_seq[index]}" if names and index in {WAIT, NEXT_READY} else ""
        if names:
            parts.append(f"{SEGMENTS[index]}[{names}]{number}")
    cblist.check()
    return " ".join(parts)


def enqueue(cblist: Segcblist, names: str) -> None:
    for name in names:
        cblist.enqueue(Entry(name))


def test_vector_a() -> None:
    cblist = Segcblist()
    enqueue(cblist, "AB")
    assert show(cblist) == "NEXT[AB]"
    assert cblist.accelerate(4)
    assert show(cblist) == "WAIT[AB]@4"
    enqueue(cblist, "C")
    assert cblist.accelerate(8)
    assert show(cblist) == "WAIT[AB]@4 NEXT_READY[C]@8"
    enqueue(cblist, "D")
    assert cblist.accelerate(8)
    assert show(cblist) == "WAIT[AB]@4 NEXT_READY[CD]@8"
    enqueue(cblist, "E")
    assert not cblist.accelerate(12)
    assert show(cblist) == "WAIT[AB]@4 NEXT_READY[CD]@8 NEXT[E]"
    cblist.advance(4)
    assert show(cblist) == "DONE[AB] WAIT[CD]@8 NEXT[E]"
    assert cblist.accelerate(12)
    assert show(cblist) == "DONE[AB] WAIT[CD]@8 NEXT_READY[E]@12"
    cblist.advance(8)
    assert show(cblist) == "DONE[ABCD] WAIT[E]@12"
    assert cblist.accelerate(12)
    assert show(cblist) == "DONE[ABCD] WAIT[E]@12"
    cblist.advance(12)
    assert show(cblist) == "DONE[ABCDE]"
    assert cblist.entrain(Entry("Z"))
    assert show(cblist) == "DONE[ABCDEZ]"
    entries, callbacks = cblist.extract_done()
    assert (len(entries), callbacks, cblist.n_cbs) == (6, 6, 6)
    assert not cblist.ready
    cblist.add_len(-6)
    assert cblist.n_cbs == 0
    assert not cblist.entrain(Entry("Y"))
    assert [entry.times_ready for entry in entries if isinstance(entry, Entry)] == [1] * 6


def test_vector_b_a_later_segment_is_pulled_back() -> None:
    cblist = Segcblist()
    enqueue(cblist, "A")
    assert cblist.accelerate(8)
    enqueue(cblist, "B")
    assert cblist.accelerate(12)
    enqueue(cblist, "C")
    assert cblist.accelerate(8)
    assert show(cblist) == "WAIT[ABC]@8"


def test_vector_c_two_numbers_are_over_at_once() -> None:
    cblist = Segcblist()
    enqueue(cblist, "A")
    assert cblist.accelerate(4)
    enqueue(cblist, "B")
    assert cblist.accelerate(8)
    enqueue(cblist, "C")
    assert not cblist.accelerate(12)
    cblist.advance(8)
    assert show(cblist) == "DONE[AB] NEXT[C]"
    assert cblist.accelerate(12)
    assert show(cblist) == "DONE[AB] WAIT[C]@12"


def test_entrain_goes_behind_the_last_callback() -> None:
    cblist = Segcblist()
    enqueue(cblist, "A")
    assert cblist.accelerate(4)
    last = Entry("Z")
    assert cblist.entrain(last)
    assert show(cblist) == "WAIT[AZ]@4"
    assert last.times_ready == 0


def test_the_rest_goes_back_in_front() -> None:
    cblist = Segcblist()
    enqueue(cblist, "ABC")
    cblist.accelerate(4)
    cblist.advance(4)
    entries, callbacks = cblist.extract_done()
    enqueue(cblist, "D")
    cblist.accelerate(8)
    cblist.advance(8)
    cblist.insert_done(entries[1:], callbacks - 1)
    cblist.add_len(-1)
    assert show(cblist) == "DONE[BCD]"


def test_a_run_grows_while_it_is_in_next() -> None:
    cblist = Segcblist()
    run = Entry("A", count=2)
    cblist.enqueue(run)
    run.count += 3
    cblist.extend(3)
    assert (cblist.n_cbs, cblist.seglen) == (5, [0, 0, 0, 5])
    cblist.accelerate(4)
    with pytest.raises(PropertyViolation, match="left NEXT"):
        cblist.extend(1)


def test_wrong_lengths_are_found() -> None:
    cblist = Segcblist()
    enqueue(cblist, "A")
    cblist.add_len(1)
    with pytest.raises(PropertyViolation, match="invariant I5"):
        cblist.check()


def test_a_hole_between_segments_is_found() -> None:
    cblist = Segcblist()
    enqueue(cblist, "A")
    cblist.segments[NEXT_READY], cblist.segments[NEXT] = cblist.segments[NEXT], []
    with pytest.raises(PropertyViolation, match="WAIT is empty"):
        cblist.check()


@given(st.lists(st.sampled_from(["enqueue", "accelerate", "advance", "gp", "take"]), max_size=60))
def test_order_is_kept_and_nothing_is_early(operations: list[str]) -> None:
    cblist, number, names, taken = Segcblist(), 0, 0, 0
    needed: dict[int, int] = {}
    for operation in operations:
        if operation == "enqueue":
            needed[names] = number + 4
            cblist.enqueue(Entry(f"{names} ", count=1 + names % 3))
            names += 1
        elif operation == "accelerate":
            cblist.accelerate(number + 4)
        elif operation == "advance":
            cblist.advance(number)
        elif operation == "gp":
            number += 4
        else:
            entries, callbacks = cblist.extract_done()
            assert callbacks == sum(entry.count for entry in entries)
            for entry in entries:
                assert isinstance(entry, Entry)
                assert (int(entry.name), entry.times_ready) == (taken, 1)
                assert needed[taken] <= number
                taken += 1
            cblist.add_len(-callbacks)
        cblist.check()
        for segment, length in zip(cblist.segments, cblist.seglen, strict=True):
            assert length == sum(entry.count for entry in segment)
    assert cblist.pending is any(cblist.segments[WAIT:])
    assert cblist.ready is bool(cblist.segments[DONE])


def test_over_names_the_runs_whose_number_has_passed_noticed_or_not() -> None:
    cblist = Segcblist()
    enqueue(cblist, "A")
    cblist.accelerate(4)
    enqueue(cblist, "B")
    cblist.accelerate(8)
    enqueue(cblist, "C")

    def names(reached: int) -> str:
        return "".join(run.name for run in cblist.over(reached) if isinstance(run, Entry))

    assert [names(reached) for reached in (1, 4, 8, 12)] == ["", "A", "AB", "AB"]
