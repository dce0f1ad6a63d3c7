from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from rcusim.scenario import (
    BurstWorkload,
    KernelTable,
    MachineTable,
    NoWorkload,
    RcuscaleWorkload,
    RcutreeTable,
    ReadersTable,
    ReclaimTable,
    Scenario,
    SlabTable,
)
from rcusim.scenario.rules import objects_of, problems


def rcuscale(**keys: Any) -> Scenario:
    return Scenario(workload=RcuscaleWorkload(**keys))


def burst(**keys: Any) -> Scenario:
    return Scenario(workload=BurstWorkload(**keys))


def small_tree(cpus: int) -> Scenario:
    tree = RcutreeTable(rcu_fanout_leaf=2, rcu_fanout=2)
    return Scenario(machine=MachineTable(cpus=cpus), kernel=KernelTable(rcutree=tree))


GOOD: dict[str, Callable[[], Scenario]] = {
    "the defaults": Scenario,
    "a burst": burst,
    "v3, 4 loops": lambda: rcuscale(footprint="posted_v3", kfree_loops=4),
    "v4, 1 loop": lambda: rcuscale(footprint="posted_v4", kfree_loops=1),
    "merged, 1 loop": lambda: rcuscale(kfree_loops=1),
    "merged, 4 loops": lambda: rcuscale(kfree_loops=4),
    "10^12 objects": lambda: rcuscale(kfree_nthreads=1, kfree_loops=10**6, kfree_alloc_num=10**6),
    "16 CPUs, small tree": lambda: small_tree(16),
    "4 MiB objects": lambda: rcuscale(kfree_mult=1 << 10, object_bytes=1 << 12),
    "SLUB, 8 bytes": lambda: Scenario(
        slab=SlabTable(allocator="slub-6.18", kmalloc_minimum_bytes=8)
    ),
    "readers alone": lambda: Scenario(workload=NoWorkload(), readers=ReadersTable(duration_ms=1)),
    "room above the watermark": lambda: Scenario(
        machine=MachineTable(memory_mib=64, base_used_mib=60)
    ),
}

BAD: list[tuple[Callable[[], Scenario], str]] = [
    (
        lambda: Scenario(slab=SlabTable(kmalloc_minimum_bytes=8)),
        'slab.kmalloc_minimum_bytes = 8: must be 32 or 128 with allocator = "slab"',
    ),
    (
        lambda: Scenario(slab=SlabTable(allocator="slub-3.18", layout="gen1_struct_slab")),
        'slab.layout = "gen1_struct_slab": is only for allocator = "slab"',
    ),
    (lambda: rcuscale(kfree_nthreads=0), "workload.kfree_nthreads = 0: must be at least 1 thread"),
    (
        lambda: rcuscale(footprint="posted_v3", kfree_loops=3),
        "workload.kfree_loops = 3: must be greater than 3",
    ),
    (lambda: rcuscale(kfree_loops=2), "workload.kfree_loops = 2: the merged test divides by"),
    (lambda: rcuscale(kfree_loops=3), "workload.kfree_loops = 3: the merged test divides by"),
    (
        lambda: rcuscale(kfree_mult=1025, object_bytes=1 << 12),
        "workload.kfree_mult = 1025: kfree_mult x object_bytes = 4198400 exceeds 4194304",
    ),
    (
        lambda: rcuscale(kfree_nthreads=1, kfree_loops=10**6, kfree_alloc_num=10**6 + 1),
        "workload.kfree_loops = 1000000: threads x kfree_loops x kfree_alloc_num = 1000001000000 ",
    ),
    (lambda: small_tree(17), "machine.cpus = 17: 4 levels of rcu_node"),
    (lambda: burst(cpus=9), "workload.cpus = 9: must not exceed machine.cpus = 8"),
    (
        lambda: burst(sizes_bytes=(32, 64), weights=(1,)),
        "workload.weights = [1]: must have as many entries as sizes_bytes: 2",
    ),
    (
        lambda: burst(rate_per_second=10**9, duration_ms=10**6, bursts=2),
        "workload.bursts = 2: cpus x bursts x rate x duration_ms = 2000000000000 exceeds",
    ),
    (
        lambda: Scenario(reclaim=ReclaimTable(drain_jiffies=0)),
        r"reclaim.drain_jiffies = 0: must be -1 (HZ/50) or at least 1 jiffy",
    ),
    (lambda: Scenario(workload=NoWorkload()), 'workload.kind = "none": needs a [readers] table'),
    (
        lambda: Scenario(workload=NoWorkload(), readers=ReadersTable()),
        "readers.duration_ms = 0: must be at least 1",
    ),
    (
        lambda: Scenario(machine=MachineTable(memory_mib=64, base_used_mib=64)),
        "machine.base_used_mib = 64: must leave",
    ),
]


@pytest.mark.parametrize("make", GOOD.values(), ids=list(GOOD))
def test_what_fits_together(make: Callable[[], Scenario]) -> None:
    assert problems(make()) == []


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_what_does_not(make: Callable[[], Scenario], message: str) -> None:
    (problem,) = problems(make())
    assert str(problem).startswith(message)


@pytest.mark.parametrize(("threads", "expected"), [(3, 3), (-1, 8), (-2, 7), (-8, 1), (-9, 1)])
def test_threads_are_counted_as_the_test_does(threads: int, expected: int) -> None:
    assert (
        objects_of(rcuscale(kfree_nthreads=threads, kfree_alloc_num=1, kfree_loops=1)) == expected
    )


def test_objects_are_counted_before_the_run() -> None:
    assert objects_of(rcuscale(kfree_nthreads=2, kfree_alloc_num=5, kfree_loops=10)) == 100
    v4 = rcuscale(kfree_nthreads=1, kfree_alloc_num=5, kfree_loops=1, footprint="posted_v4")
    assert objects_of(v4) == 20
    assert objects_of(burst(cpus=2, bursts=3, rate_per_second=10_000, duration_ms=10)) == 600
    assert objects_of(burst(cpus=1, bursts=1, rate_per_second=1, duration_ms=1)) == 1
    assert objects_of(attrs.evolve(Scenario(), workload=NoWorkload())) == 0
