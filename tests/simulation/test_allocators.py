"""Whole runs with every allocator: the oracles stay silent, and a drained world keeps what it may."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import attrs
import pytest

from rcusim.scenario import Scenario, SlabTable
from rcusim.simulation import simulate
from rcusim.simulation.world import build
from rcusim.slab.slab import Slab
from rcusim.slab.slub import Slub
from rcusim.units import PAGE_SIZE_BYTES
from tests.simulation.rig import burst, small, with_readers

ALLOCATORS = ("slab", "slub-3.18", "slub-6.18")
SCENARIOS = {
    "flood-G0": small("G0"),
    "flood-G1": small("G1"),
    "flood-G2": small("G2"),
    "readers": with_readers("G2"),
    "burst": burst("G1", live_ms=3),
    "sizes": burst("G2", sizes_bytes=(24, 200, 1000, 3000, 9000), weights=(8, 4, 2, 1, 1)),
}


@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_allocator_conserves(allocator: str, name: str) -> None:
    scenario = attrs.evolve(SCENARIOS[name], slab=SlabTable(allocator=allocator))
    run = simulate(scenario)
    assert run.complete, run.reason
    assert run.violations == ()
    assert run.objects.freed == run.objects.queued == run.objects.allocated > 0
    most_pages = build(scenario).allocator.drained_pages_most()
    # besides what slabs keep there is a cached block page for each CPU
    most_bytes = (most_pages + scenario.machine.cpus) * PAGE_SIZE_BYTES
    assert 0 < run.footprint.end_bytes <= most_bytes
    assert simulate(scenario).digest == run.digest


def test_the_scenario_chooses() -> None:
    made = {
        allocator: build(attrs.evolve(small(), slab=SlabTable(allocator=allocator))).allocator
        for allocator in ALLOCATORS
    }
    assert isinstance(made["slab"], Slab)
    for name in ALLOCATORS[1:]:
        slub = made[name]
        assert isinstance(slub, Slub)
        assert (slub.rules, slub.predicate, slub.minimum_bytes) == (name, "page", 128)


def test_allocators_tell_different_stories() -> None:
    digests = {
        simulate(attrs.evolve(small("G2"), slab=SlabTable(allocator=allocator))).digest
        for allocator in ALLOCATORS
    }
    assert len(digests) == len(ALLOCATORS)


def test_a_class_of_eight_bytes_is_slub_only() -> None:
    table = SlabTable(allocator="slub-6.18", kmalloc_minimum_bytes=8)
    scenario: Scenario = attrs.evolve(small("G2"), slab=table)
    run = simulate(scenario)
    assert run.complete, run.reason
    # a 24-byte object occupies 32 bytes instead of 128
    wide = simulate(attrs.evolve(scenario, slab=SlabTable(allocator="slub-6.18")))
    assert run.footprint.peak_bytes < wide.footprint.peak_bytes / 2


PROGRAM = """
    import attrs
    from rcusim.scenario import SlabTable
    from rcusim.simulation import simulate
    from tests.simulation.rig import small
    for name in ("slub-3.18", "slub-6.18"):
        print(simulate(attrs.evolve(small("G2", loops=4), slab=SlabTable(allocator=name))).digest)
"""


def test_the_text_of_slub_tells_the_same_story_compiled_or_not() -> None:
    def digests(**environment: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    interpreted = digests(RCUSIM_JIT="0")
    assert len(set(interpreted)) == 2
    assert digests() == interpreted
