from __future__ import annotations

import attrs
import pytest

from rcusim.results.compare import Comparison, compare, median, per_second, quantities, spreads
from rcusim.results.model import Statistics
from tests.results.samples import run


def test_the_median_is_a_value_that_occurred() -> None:
    assert median([5]) == 5
    assert median([4, 1, 2, 3]) == 2


def test_a_spread_has_median_and_range() -> None:
    found = {entry.name: entry for entry in spreads([run(seed=seed) for seed in (3, 1, 2)])}
    entry = found["total time (rcuscale)"]
    assert (entry.median, entry.low, entry.high) == (302_000_000, 301_000_000, 303_000_000)
    assert (entry.unit, entry.runs) == ("ns", 3)


def test_what_a_run_does_not_have_is_left_out_of_spreads() -> None:
    bare = attrs.evolve(run(), rcuscale=None, statistics=Statistics())
    names = {entry.name for entry in spreads([bare])}
    assert "total time (rcuscale)" not in names
    assert "block fill, mean" not in names
    assert "objects freed" in names


def test_a_comparison_has_both_values_and_their_ratio() -> None:
    found = {entry.name: entry for entry in compare(run("baseline_kfree"), run())}
    time = found["total time (rcuscale)"]
    assert (time.first, time.second, time.ratio_permille) == (341_000_000, 301_000_000, 882)
    assert found["freed by bulk"].first is None
    assert found["freed by bulk"].ratio_permille is None
    assert found["emergency list"].ratio_permille is None


@pytest.mark.parametrize(
    ("first", "second", "ratio"), [(2, 3, 1500), (0, 3, None), (None, 3, None), (3, None, None)]
)
def test_a_ratio_needs_two_values(first: int | None, second: int | None, ratio: int | None) -> None:
    assert Comparison("a", "", first, second).ratio_permille == ratio


def test_a_rate_needs_time() -> None:
    assert per_second(1000, 500_000_000) == 2000
    assert per_second(1000, 0) is None


def test_throughput_is_over_the_kernels_own_time_where_there_is_one() -> None:
    bare = attrs.evolve(run(), rcuscale=None)
    rates = [
        entry.value
        for each in (run(), bare)
        for entry in quantities(each)
        if entry.name == "objects per second"
    ]
    assert rates == [6_144_000 * 10**9 // 301_000_000, 6_144_000 * 10**9 // 400_000_000]


def test_cpu_time_is_listed_in_a_fixed_order() -> None:
    mixed = attrs.evolve(run(), cpu_ns={"zz": 1, "idle": 2, "worker": 3, "producer": 4})
    names = [entry.name for entry in quantities(mixed) if entry.name.startswith("CPU: ")]
    assert names == ["CPU: producer", "CPU: worker", "CPU: idle", "CPU: zz"]
