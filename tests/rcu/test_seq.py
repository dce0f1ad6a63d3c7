"""Vectors of sequence arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcusim.rcu import seq


def test_first_number_is_300_grace_periods_before_the_wrap() -> None:
    assert seq.INITIAL == 0xFFFFFFFFFFFFFB50
    assert (seq.INITIAL + 300 * seq.GP) & seq.MASK == 0


@pytest.mark.parametrize(
    ("s", "expected"), [(0, 4), (1, 8), (2, 8), (3, 8), (4, 8), (5, 12), (8, 12), (9, 16)]
)
def test_snap(s: int, expected: int) -> None:
    assert seq.snap(s) == expected


@pytest.mark.parametrize(
    ("current", "s", "expected"),
    [
        (0, 4, False),
        (1, 4, True),
        (4, 4, True),
        (1, 8, False),
        (4, 8, False),
        (5, 8, True),
        (8, 8, True),
    ],
)
def test_started(current: int, s: int, expected: bool) -> None:
    assert seq.started(current, s) is expected


@pytest.mark.parametrize(
    ("old", "new", "completed", "begun"),
    [
        (0, 0, False, False),
        (0, 1, False, True),
        (0, 4, True, True),
        (1, 1, False, False),
        (1, 4, True, False),
        (1, 5, True, True),
        (4, 5, False, True),
        (0, 5, True, True),
    ],
)
def test_completed_and_new_gp(old: int, new: int, completed: bool, begun: bool) -> None:
    assert (seq.completed_gp(old, new), seq.new_gp(old, new)) == (completed, begun)


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (0, 0, 0),
        (1, 0, 1),
        (4, 1, 1),
        (5, 1, 1),
        (5, 4, 1),
        (4, 0, 2),
        (5, 0, 2),
        (8, 1, 2),
        (9, 4, 2),
        (8, 0, 3),
        (12, 1, 3),
    ],
)
def test_diff(new: int, old: int, expected: int) -> None:
    assert seq.diff(new, old) == expected


def test_a_grace_period_goes_from_idle_over_running_to_idle() -> None:
    running = seq.start(seq.INITIAL)
    assert seq.running(running)
    assert seq.end(running) == seq.INITIAL + seq.GP
    assert not seq.running(seq.end(running))


def test_done_exact_takes_a_far_snapshot_for_an_old_one() -> None:
    assert not seq.done(0, 100)
    assert seq.done_exact(0, 100)
    assert not seq.done_exact(0, 8)
    assert seq.done_exact(0, 12)


@given(base=st.integers(0, seq.MASK), a=st.integers(0, 40), b=st.integers(0, 40))
def test_every_comparison_is_modular(base: int, a: int, b: int) -> None:
    base &= ~seq.STATE_MASK  # a multiple of four, so that state bits mean the same
    x, y = (base + a) & seq.MASK, (base + b) & seq.MASK
    assert seq.ge(x, y) is (a >= b)
    assert seq.lt(x, y) is (a < b)
    assert seq.snap(x) == (base + seq.snap(a)) & seq.MASK
    assert seq.started(x, y) is seq.started(a + 400, b + 400)
    assert seq.completed_gp(x, y) is seq.completed_gp(a + 400, b + 400)
    assert seq.new_gp(x, y) is seq.new_gp(a + 400, b + 400)
