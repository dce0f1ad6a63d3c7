from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rcusim.machine.load import DECAY, PERIOD_NS, LoadAverage


def test_the_table_halves_in_32_periods() -> None:
    assert DECAY[0] == 1 << 32
    assert abs((DECAY[16] ** 2 >> 32) - (1 << 31)) <= 2  # 2**-0.5 squared
    assert all(a > b for a, b in itertools.pairwise(DECAY))


def test_it_rises_and_falls_with_a_half_life_of_32_periods() -> None:
    load = LoadAverage()
    assert load.advance(32 * PERIOD_NS, 1024) == 512
    assert load.advance(64 * PERIOD_NS, 0) in {255, 256}
    assert load.advance(64 * PERIOD_NS, 1024) in {255, 256}  # no time has passed


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 90_000)), max_size=50))
def test_it_stays_between_the_weights_it_has_seen(steps: list[tuple[int, int]]) -> None:
    load, now_ns, seen = LoadAverage(), 0, [0]
    for periods, weight in steps:
        now_ns += periods * PERIOD_NS
        seen.append(weight)
        assert min(seen) - 1 <= load.advance(now_ns, weight) <= max(seen)
