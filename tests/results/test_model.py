from __future__ import annotations

import attrs
import pytest

from rcusim.results.model import (
    PARTS,
    ObjectCounts,
    RcuscaleResult,
    Result,
    Statistics,
    canonical,
    digest_of,
)
from tests.results.samples import run


def test_the_line_is_the_kernels_own() -> None:
    line = RcuscaleResult(
        total_ns=89_947_009_882, loops=200_000, batches=6715, footprint_mb=-3
    ).line
    assert line == (
        "Total time taken by all kfree'ers: 89947009882 ns, loops: 200000, batches: 6715, "
        "memory footprint: -3MB"
    )


def test_a_digest_covers_scenario_series_and_counters() -> None:
    first = run()
    changed = [
        attrs.evolve(first, objects=ObjectCounts(allocated=1)),
        attrs.evolve(first, virtual_ns=1),
        attrs.evolve(first, grace_periods=1),
        attrs.evolve(first, cpu_ns={"producer": 1}),
        attrs.evolve(first, rcuscale=None),
        attrs.evolve(first, statistics=Statistics(counters={"a": 1})),
        attrs.evolve(first, series=attrs.evolve(first.series, end_ns=1)),
        attrs.evolve(first, scenario={**first.scenario, "seed": 2}),
    ]
    digests = [entry.digest for entry in (first, *changed)]
    assert len(set(digests)) == len(digests)


def test_a_digest_covers_no_wall_time_and_no_order_of_keys() -> None:
    first = run()
    reordered = dict(reversed(list(first.scenario.items())))
    assert attrs.evolve(first, wall_s=9.0, compile_s=7.0).digest == first.digest
    assert attrs.evolve(first, scenario=reordered).digest == first.digest


def test_a_digest_is_a_fixed_function() -> None:
    assert canonical({"b": (1, 2), "a": "x"}) == '{"a":"x","b":[1,2]}'
    assert digest_of({"b": (1, 2), "a": "x"}) == (
        "721ef82f2d6c0997bffb7a8ab3f40f8fb45b0b52ce2af3afa6b0f05efbdc317f"
    )


@pytest.mark.parametrize("value", [1.0, [1, 2.0], {"a": {"b": (1, 0.5)}}, [[3], [4.0]]])
def test_floats_have_no_place_in_a_digest(value: object) -> None:
    with pytest.raises(TypeError, match="is a float"):
        digest_of({"value": value})


def test_the_digest_of_a_result_is_that_of_its_runs() -> None:
    one = Result(scenario="sample", runs=(run(),))
    two = Result(scenario="sample", runs=(run(), run(seed=2)))
    assert one.digest != two.digest
    assert one.digest == Result(scenario="sample", runs=(attrs.evolve(run(), wall_s=3.0),)).digest


def test_names_come_from_the_scenario() -> None:
    assert (run().name, run().variant, run(seed=3).seed) == ("sample", "kfree_bulk", 3)


def test_the_parts_at_the_peak_are_the_peak() -> None:
    footprint = run().footprint
    assert len(footprint.parts_at_peak) == len(PARTS)
    assert sum(footprint.parts_at_peak) == footprint.peak_bytes
