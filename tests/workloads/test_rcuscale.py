from __future__ import annotations

import pytest

from rcusim.workloads.rcuscale import FootprintMeter


def footprint(definition: str, loops: int, available: dict[int, int], begin: int = 100_000) -> int:
    meter = FootprintMeter(definition, loops, begin)
    for loop in range(loops):
        meter.at_loop(loop, available.get(loop, 0))
    return meter.footprint_mb()


QUARTERS = {0: 90_000, 2: 80_000, 4: 70_000, 6: 60_000}


@pytest.mark.parametrize(
    ("definition", "pages"),
    [
        # A1/4 + A2/4 + A3/2 below the global begin value
        ("posted_v3", 100_000 - (80_000 // 4 + 70_000 // 4 + 60_000 // 2)),
        # the plain mean
        ("posted_v4", 100_000 - 70_000),
        # per thread: A0/8 + A1/8 + A2/4 + A3/2 below A0
        ("merged", 90_000 - (90_000 // 8 + 80_000 // 8 + 70_000 // 4 + 60_000 // 2)),
    ],
)
def test_the_three_definitions(definition: str, pages: int) -> None:
    assert footprint(definition, 8, QUARTERS) == pages >> 8


def test_a_constant_use_is_reported_as_seven_eighths_by_the_merged_form() -> None:
    begin, used = 100_000, 25_600
    available = {0: begin, 2: begin - used, 4: begin - used, 6: begin - used}
    assert footprint("merged", 8, available) == (used >> 8) * 7 // 8
    assert footprint("posted_v3", 8, available) == used >> 8


def test_ten_loops_sample_at_2_4_6_8_in_the_merged_form() -> None:
    meter = FootprintMeter("merged", 10, 0)
    taken = []
    for loop in range(10):
        before = len(meter.samples_pages)
        meter.at_loop(loop, 1000)
        if len(meter.samples_pages) > before:
            taken.append(loop)
    assert taken == [0, 2, 4, 6, 8]


def test_memory_that_came_free_is_a_negative_footprint() -> None:
    assert footprint("posted_v4", 8, {2: 100_256, 4: 100_256, 6: 100_256}) == -1
