from __future__ import annotations

import itertools

import pytest

from rcusim.machine.threads import NICE_WEIGHTS, CfsTunables


def test_weights_are_those_of_the_kernel_and_each_step_is_a_quarter() -> None:
    assert len(NICE_WEIGHTS) == 40
    assert (NICE_WEIGHTS[0], NICE_WEIGHTS[20], NICE_WEIGHTS[39]) == (88761, 1024, 15)
    for heavier, lighter in itertools.pairwise(NICE_WEIGHTS):
        assert 1.14 <= heavier / lighter <= 1.30


@pytest.mark.parametrize(("cpus", "factor"), [(1, 1), (2, 2), (4, 3), (8, 4), (64, 4)])
def test_time_constants_grow_with_the_cpus_up_to_eight(cpus: int, factor: int) -> None:
    cfs = CfsTunables.of(cpus)
    assert cfs.latency_ns == 6_000_000 * factor
    assert cfs.min_granularity_ns == 750_000 * factor
    assert cfs.wakeup_granularity_ns == 1_000_000 * factor


def test_the_period_stretches_with_many_threads() -> None:
    cfs = CfsTunables.of(8)
    assert cfs.slice_ns(1024, 2048, 2) == 12_000_000
    assert cfs.slice_ns(1024, 1024 * 16, 16) == 3_000_000
