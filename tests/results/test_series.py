from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcusim.errors import PropertyViolation
from rcusim.results.model import PARTS, Series
from rcusim.results.series import SeriesBuilder


def parts(*sizes: int) -> Callable[[], tuple[int, ...]]:
    return lambda: (*sizes, *(0,) * (len(PARTS) - len(sizes)))


def test_a_small_sequence_is_kept_exactly() -> None:
    builder = SeriesBuilder(bins=4, first_bin_ns=10)
    builder.observe(0, 100, parts(100))
    builder.observe(5, 300, parts(100, 200))
    builder.observe(15, 200, parts(200))
    builder.grace_period(15)
    builder.observe(17, 250, parts(50, 200))
    builder.emergency(19, 3)
    series = builder.finish(20)
    assert series.bin_ns == 10
    assert series.min_bytes == (100, 200)
    assert series.max_bytes == (300, 300)
    assert series.mean_bytes == ((5 * 100 + 5 * 300) // 10, (5 * 300 + 2 * 200 + 3 * 250) // 10)
    assert series.at_ns == (0, 15)
    assert [column[:2] for column in series.parts_bytes[:2]] == [(100, 200), (0, 0)]
    assert series.gp_ends == (0, 1)
    assert series.emergency_uses == (0, 3)
    assert series.footprint.peak_bytes == 300
    assert series.footprint.peak_ns == 5
    assert series.footprint.parts_at_peak == (100, 200, 0, 0, 0, 0, 0, 0)
    assert series.footprint.end_bytes == 250


def test_bins_double_and_merge_when_they_run_out() -> None:
    builder = SeriesBuilder(bins=2, first_bin_ns=10)
    for now_ns, total in ((0, 8), (10, 16), (20, 4), (30, 40)):
        builder.observe(now_ns, total, parts(total))
    series = builder.finish(40)
    assert series.bin_ns == 20
    assert series.min_bytes == (8, 4)
    assert series.max_bytes == (16, 40)
    assert series.mean_bytes == (12, 22)
    assert series.at_ns == (0, 20)


def test_the_mean_is_taken_from_first_start_to_last_end() -> None:
    builder = SeriesBuilder(bins=4, first_bin_ns=10)
    builder.observe(0, 1000, parts(1000))
    builder.observe(100, 10, parts(10))
    builder.mark_start(100)
    builder.observe(130, 20, parts(20))
    builder.mark_start(140)
    builder.mark_end(150)
    builder.mark_end(160)
    builder.observe(160, 1000, parts(1000))
    assert builder.finish(500).footprint.mean_bytes == (30 * 10 + 30 * 20) // 60


def test_the_mean_of_no_time_is_the_total() -> None:
    builder = SeriesBuilder()
    builder.observe(0, 7, parts(7))
    assert builder.finish(0).footprint.mean_bytes == 7


def test_parts_that_are_not_the_whole_are_a_violation() -> None:
    builder = SeriesBuilder()
    with pytest.raises(PropertyViolation, match="add up to 90, not to 100") as caught:
        builder.observe(0, 100, parts(90))
    assert caught.value.rule == "conservation"
    with pytest.raises(PropertyViolation):
        SeriesBuilder().observe(0, 100, lambda: (100,))


def test_the_parts_are_asked_once_a_bin_and_at_a_new_peak() -> None:
    asked: list[int] = []

    def known(total: int) -> tuple[int, ...]:
        asked.append(total)
        return (total, 0, 0, 0, 0, 0, 0, 0)

    builder = SeriesBuilder(bins=4, first_bin_ns=100)
    for now_ns, total in ((0, 50), (1, 40), (2, 45), (3, 60), (4, 60), (100, 10), (101, 20)):
        builder.observe(now_ns, total, lambda total=total: known(total))  # type: ignore[misc] # default
    assert asked == [50, 50, 60, 10]


def test_a_quiet_stretch_shows_the_parts_that_held() -> None:
    builder = SeriesBuilder(bins=8, first_bin_ns=10)
    builder.observe(0, 100, parts(100))
    builder.observe(5, 60, parts(0, 60))
    builder.hold(35, parts(0, 60))
    builder.observe(35, 10, parts(10))
    series = builder.finish(60, parts(10))
    assert series.at_ns == (0, 10, 20, 30, 40, 50)
    assert series.parts_bytes[0] == (100, 0, 0, 0, 10, 10)
    assert series.parts_bytes[1] == (0, 60, 60, 60, 0, 0)
    assert series.min_bytes == (60, 60, 60, 10, 10, 10)


def test_without_a_look_a_quiet_bin_has_no_instant() -> None:
    builder = SeriesBuilder(bins=8, first_bin_ns=10)
    builder.observe(0, 100, parts(100))
    builder.observe(35, 10, parts(10))
    assert builder.finish(40).at_ns == (0, -1, -1, 35)


def test_a_hold_after_bins_have_merged_keeps_earlier_instants() -> None:
    builder = SeriesBuilder(bins=2, first_bin_ns=10)
    builder.observe(3, 5, parts(5))
    builder.hold(39, parts(5))
    series = builder.finish(40)
    assert series.bin_ns == 20
    assert series.at_ns == (3, 20)


@pytest.mark.parametrize(("bins", "width"), [(3, 10), (0, 10), (4, 0)])
def test_odd_numbers_of_bins_are_refused(bins: int, width: int) -> None:
    with pytest.raises(ValueError, match="even"):
        SeriesBuilder(bins=bins, first_bin_ns=width)


@attrs.define
class Reference:
    """Keeps every observation and computes each number from all of them."""

    seen: list[tuple[int, int, int]] = attrs.field(factory=list)  # time, total, number
    gps: list[int] = attrs.field(factory=list)
    uses: list[int] = attrs.field(factory=list)

    def total_before(self, now_ns: int) -> int:
        return next((total for at, total, _ in reversed(self.seen) if at < now_ns), 0)

    def area(self, begin_ns: int, end_ns: int) -> int:
        times = sorted(
            {begin_ns, end_ns, *(at for at, _, _ in self.seen if begin_ns < at < end_ns)}
        )
        return sum((after - at) * self.total_before(after) for at, after in pairwise(times))

    def values(self, begin_ns: int, end_ns: int) -> list[int]:
        """Totals that held for some time in [begin, end), or were observed in it."""
        observed = [(at, total) for at, total, _ in self.seen if begin_ns <= at < end_ns]
        carried = [self.total_before(begin_ns)]
        if any(at <= begin_ns for at, _ in observed):
            carried = []
        return [*carried, *(total for _, total in observed)]


def check(series: Series, reference: Reference, end_ns: int) -> None:
    totals = [total for _, total, _ in reference.seen]
    peak = max([0, *totals])
    assert series.footprint.peak_bytes == peak
    if peak:
        at, _, number = next(entry for entry in reference.seen if entry[1] == peak)
        assert series.footprint.peak_ns == at
        assert series.footprint.parts_at_peak[:2] == (peak - number, number)
    for index in range(len(series.max_bytes)):
        begin = index * series.bin_ns
        until = min(begin + series.bin_ns, end_ns)
        last = index == len(series.max_bytes) - 1
        closed = until + 1 if last else until
        values = reference.values(begin, closed)
        assert (series.min_bytes[index], series.max_bytes[index]) == (min(values), max(values))
        if until > begin:
            assert series.mean_bytes[index] == reference.area(begin, until) // (until - begin)
        first = next((entry for entry in reference.seen if begin <= entry[0] < closed), None)
        assert series.at_ns[index] == (-1 if first is None else first[0])
        if first is not None:
            known = tuple(column[index] for column in series.parts_bytes)
            assert known[:2] == (first[1] - first[2], first[2])
        assert series.gp_ends[index] == sum(begin <= at < closed for at in reference.gps)
        assert series.emergency_uses[index] == sum(begin <= at < closed for at in reference.uses)


STEPS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 3), st.integers(0, 60), st.just(2000)),
        st.sampled_from(("observe", "observe", "observe", "gp", "use")),
        st.integers(0, 9),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(
    steps=STEPS,
    bins=st.sampled_from((2, 4, 8)),
    width=st.sampled_from((1, 3, 10)),
    rest=st.integers(0, 40),
)
def test_the_builder_equals_a_slow_reference(
    steps: list[tuple[int, str, int]], bins: int, width: int, rest: int
) -> None:
    builder, reference, now_ns = SeriesBuilder(bins=bins, first_bin_ns=width), Reference(), 0
    for number, (wait_ns, kind, total) in enumerate(steps):
        now_ns += wait_ns
        if kind == "observe":
            reference.seen.append((now_ns, total, number))
            builder.observe(now_ns, total, parts(total - number, number))
        elif kind == "gp":
            reference.gps.append(now_ns)
            builder.grace_period(now_ns)
        else:
            reference.uses.append(now_ns)
            builder.emergency(now_ns)
    end_ns = now_ns + rest
    series = builder.finish(end_ns)
    assert len(series.max_bytes) <= bins
    assert (
        (len(series.max_bytes) - 1) * series.bin_ns
        <= end_ns
        <= len(series.max_bytes) * series.bin_ns
    )
    check(series, reference, end_ns)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, marks=st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_the_mean_equals_that_of_a_slow_reference(
    steps: list[tuple[int, str, int]], marks: tuple[int, int]
) -> None:
    builder, reference, now_ns = SeriesBuilder(bins=4, first_bin_ns=7), Reference(), 0
    begin_ns = end_ns = 0
    for number, (wait_ns, _, total) in enumerate(steps):
        now_ns += wait_ns
        if number == min(marks):
            builder.mark_start(now_ns)
            begin_ns = now_ns
        reference.seen.append((now_ns, total, 0))
        builder.observe(now_ns, total, parts(total))
        if number == max(marks):
            builder.mark_end(now_ns)
            end_ns = now_ns
    series = builder.finish(now_ns)
    end_ns = end_ns if len(steps) > max(marks) else now_ns
    if end_ns > begin_ns:
        assert series.footprint.mean_bytes == reference.area(begin_ns, end_ns) // (
            end_ns - begin_ns
        )
    else:
        assert series.footprint.mean_bytes == series.footprint.end_bytes
