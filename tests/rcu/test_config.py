"""Rules that follow from the kernel configuration."""

from __future__ import annotations

import pytest

from rcusim.errors import ScenarioError
from rcusim.rcu.config import RcuConfig


@pytest.mark.parametrize(
    ("hz", "cpus", "jiffies"),
    [
        (100, 8, 1),
        (250, 255, 1),
        (300, 8, 2),
        (1000, 8, 3),
        (100, 256, 2),
        (250, 1024, 5),
        (300, 4096, 18),
        (1000, 4096, 19),
    ],
)
def test_delay_of_scans(hz: int, cpus: int, jiffies: int) -> None:
    config = RcuConfig(hz=hz, cpus=cpus)
    assert (config.first_fqs_jiffies, config.next_fqs_jiffies) == (jiffies, jiffies)


def test_delays_can_be_set_within_bounds() -> None:
    config = RcuConfig(hz=100, jiffies_till_first_fqs=0, jiffies_till_next_fqs=0)
    assert (config.first_fqs_jiffies, config.next_fqs_jiffies) == (0, 1)
    config = RcuConfig(hz=100, jiffies_till_first_fqs=900, jiffies_till_next_fqs=900)
    assert (config.first_fqs_jiffies, config.next_fqs_jiffies) == (100, 100)


@pytest.mark.parametrize(("hz", "cpus", "jiffies"), [(1000, 8, 100), (250, 8, 25), (100, 4096, 51)])
def test_age_at_which_help_is_wanted(hz: int, cpus: int, jiffies: int) -> None:
    assert RcuConfig(hz=hz, cpus=cpus).sched_qs_jiffies == jiffies


def test_half_the_stall_time_is_ten_and_a_half_seconds() -> None:
    assert RcuConfig(hz=100).half_stall_jiffies == 1050


def test_a_tree_of_more_than_four_levels_is_refused() -> None:
    assert RcuConfig(cpus=16, rcu_fanout_leaf=2, rcu_fanout=2).cpus == 16
    with pytest.raises(ScenarioError, match="holds 16 CPUs, not 17"):
        RcuConfig(cpus=17, rcu_fanout_leaf=2, rcu_fanout=2)


@pytest.mark.parametrize(
    "bad", [{"cpus": 0}, {"preempt": "rt"}, {"rcu_divisor": 63}, {"blimit": 0}]
)
def test_values_out_of_bounds_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        RcuConfig(**bad)  # type: ignore[arg-type] # on purpose
