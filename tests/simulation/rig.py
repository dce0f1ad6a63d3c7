"""Small scenarios for tests of whole worlds."""

from __future__ import annotations

from typing import Any

import attrs

from rcusim.scenario import (
    BurstWorkload,
    KernelTable,
    MachineTable,
    RcuscaleWorkload,
    ReadersTable,
    ReclaimTable,
    Scenario,
)


def small(
    generation: str = "G2", /, cpus: int = 4, loops: int = 40, seed: int = 1, **tables: Any
) -> Scenario:
    """Return a kfree flood on a few CPUs, a tenth of a second long."""
    scenario = Scenario(
        name="small",
        seed=seed,
        machine=MachineTable(cpus=cpus, memory_mib=256),
        reclaim=ReclaimTable(generation=generation),
        workload=RcuscaleWorkload(kfree_alloc_num=500, kfree_loops=loops, footprint="posted_v3"),
    )
    return attrs.evolve(scenario, **tables)


def with_readers(generation: str = "G2", **tables: Any) -> Scenario:
    """Return the same with readers, some of which hold a section across grace periods."""
    readers = ReadersTable(
        threads=2, section_us=50, gap_us=200, long_threads=1, long_section_ms=15, long_gap_ms=1
    )
    return small(generation, readers=readers, **tables)


def burst(generation: str = "G2", **options: Any) -> Scenario:
    """Return short bursts on one CPU."""
    workload = BurstWorkload(duration_ms=5, pause_ms=30, bursts=3, rate_per_second=1_000_000)
    return small(
        generation,
        cpus=2,
        workload=attrs.evolve(workload, **options),
        kernel=KernelTable(hz=1000),
    )
