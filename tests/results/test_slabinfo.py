from __future__ import annotations

from bisect import bisect_right
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcusim.formats.slabinfo import SlabinfoRow
from rcusim.results.slabinfo import MOST_STATES, SlabinfoBuilder, SlabinfoSeries

SERIES = SlabinfoSeries(
    names=("kmalloc-128",),
    fixed=((128, 32, 1, 120, 60, 8),),
    step_ns=1000,
    at_ns=(0, 3000, 4500),
    states=((0, 0, 0, 0, 0), (20, 32, 1, 1, 0), (5, 64, 1, 2, 3)),
)


@attrs.define
class Cache:
    """A cache of one object a slab: the number of objects says everything."""

    objects: int = 0

    def rows(self) -> list[SlabinfoRow]:
        return [
            SlabinfoRow(
                name=name,
                active_objs=count,
                num_objs=count,
                objsize=4096,
                objperslab=1,
                pagesperslab=1,
                limit=24,
                batchcount=12,
                sharedfactor=0,
                active_slabs=count,
                num_slabs=count,
                sharedavail=0,
            )
            for name, count in (("page", self.objects), ("twice", 2 * self.objects))
        ]


def objects_at(series: SlabinfoSeries, at_ns: int) -> int:
    page, twice = series.at(at_ns).rows
    assert (page.name, twice.name) == ("page", "twice")
    assert twice.num_slabs == 2 * page.num_slabs == 2 * page.active_objs
    return page.num_slabs


def test_the_state_at_an_instant_is_that_of_the_grid_before() -> None:
    assert [SERIES.at(at_ns).rows[0].active_objs for at_ns in (0, 2999, 3000, 4499, 4500)] == [
        0, 0, 20, 20, 5,
    ]  # fmt: skip
    assert [SERIES.taken_ns(at_ns) for at_ns in (0, 999, 3999, 4499, 4500)] == [
        0, 0, 3000, 4000, 4500,
    ]  # fmt: skip
    row = SERIES.at(4500).rows[0]
    assert row == SlabinfoRow(
        name="kmalloc-128",
        active_objs=5,
        num_objs=64,
        objsize=128,
        objperslab=32,
        pagesperslab=1,
        limit=120,
        batchcount=60,
        sharedfactor=8,
        active_slabs=1,
        num_slabs=2,
        sharedavail=3,
    )
    for at_ns in (-1, 4501):
        with pytest.raises(ValueError, match="ends at 4500 ns"):
            SERIES.at(at_ns)


def test_a_state_is_kept_where_it_differs() -> None:
    cache = Cache()
    builder = SlabinfoBuilder(cache.rows, most=8, first_step_ns=10)
    builder.hold(25)
    cache.objects = 7  # at 25
    builder.hold(30)
    cache.objects = 8  # at 30
    builder.hold(52)
    series = builder.finish(52)
    assert series.step_ns == 10
    assert series.at_ns == (0, 30, 52)
    assert [objects_at(series, at_ns) for at_ns in (0, 29, 30, 51, 52)] == [0, 0, 8, 8, 8]


def test_the_end_is_exact_and_closes_an_empty_run() -> None:
    cache = Cache()
    series = SlabinfoBuilder(cache.rows).finish(0)
    assert (series.at_ns, objects_at(series, 0)) == ((0,), 0)
    builder = SlabinfoBuilder(cache.rows)
    builder.hold(123_456)
    cache.objects = 5
    assert objects_at(builder.finish(123_456), 123_456) == 5


def test_of_a_world_that_is_not_known_any_more_the_last_state_is_the_end() -> None:
    cache = Cache()
    builder = SlabinfoBuilder(cache.rows, most=4, first_step_ns=10)
    cache.objects = 1
    builder.hold(31)
    cache.objects = 2
    series = builder.finish(35, known=False)
    series.check()
    assert (series.end_ns, objects_at(series, series.end_ns)) == (0, 1)


@given(
    events=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=60),
    most=st.integers(2, 9),
    step_ns=st.integers(1, 7),
    known=st.booleans(),
)
def test_every_state_told_is_the_true_one_at_its_instant(
    events: list[tuple[int, int]], most: int, step_ns: int, known: bool
) -> None:
    cache = Cache()
    builder = SlabinfoBuilder(cache.rows, most=most, first_step_ns=step_ns)
    now_ns, instants, truth = 0, [0], [0]
    for pause_ns, objects in events:
        if pause_ns:
            builder.hold(now_ns + pause_ns)
        now_ns += pause_ns
        cache.objects = objects
        instants.append(now_ns)
        truth.append(objects)
    series = builder.finish(now_ns, known=known)
    series.check()
    assert len(series.at_ns) <= most + 1
    assert series.end_ns <= now_ns
    if known:
        assert (series.end_ns, objects_at(series, now_ns)) == (now_ns, cache.objects)
        assert now_ns <= most * series.step_ns
    # the last event at or before an instant decides; where the world is not known, the end is open
    for at_ns in range(series.end_ns + (1 if known else 0)):
        taken_ns = series.taken_ns(at_ns)
        assert at_ns - series.step_ns < taken_ns <= at_ns
        assert objects_at(series, at_ns) == truth[bisect_right(instants, taken_ns) - 1]


def test_at_most_so_many_states_however_long_the_run() -> None:
    cache = Cache()
    builder = SlabinfoBuilder(cache.rows)
    for second in range(1, 3001):
        builder.hold(second * 1_000_000_007)
        cache.objects = second
    series = builder.finish(3000 * 1_000_000_007)
    assert MOST_STATES // 2 - 1 < len(series.at_ns) <= MOST_STATES
    assert series.states[-1][0] == 3000


@pytest.mark.parametrize(
    "changes",
    [
        {"step_ns": 0},
        {"at_ns": (0, 3000)},
        {"at_ns": (1, 3000, 4500)},
        {"at_ns": (0, 3000, 3000)},
        {"at_ns": (), "states": ()},
        {"fixed": ()},
        {"fixed": ((128, 32),)},
        {"states": ((0,), (1,), (2,))},
        {"names": ()},
    ],
    ids=str,
)
def test_what_cannot_have_been_recorded_is_refused(changes: dict[str, Any]) -> None:
    SERIES.check()
    with pytest.raises(ValueError, match="do not fit together"):
        attrs.evolve(SERIES, **changes).check()


@pytest.mark.parametrize(("most", "step_ns"), [(1, 10), (8, 0)])
def test_a_grid_has_two_instants_and_a_width(most: int, step_ns: int) -> None:
    with pytest.raises(ValueError, match="at least 2 states"):
        SlabinfoBuilder(Cache().rows, most=most, first_step_ns=step_ns)
