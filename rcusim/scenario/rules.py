"""Rules that concern several keys of a scenario."""

from __future__ import annotations

from collections.abc import Iterator

from rcusim.errors import Problem
from rcusim.rcu.config import MAX_LEVELS
from rcusim.scenario.fields import shown
from rcusim.scenario.tables import (
    LARGEST_CLASS_BYTES,
    BurstWorkload,
    NoWorkload,
    RcuscaleWorkload,
    Scenario,
    SlabTable,
)
from rcusim.units import PAGES_PER_MIB

MOST_OBJECTS = 10**12
"""Objects of a run."""


def problems(scenario: Scenario) -> list[Problem]:
    """Return what does not fit together in a scenario whose keys are right one by one."""
    found = [
        *_machine(scenario), *_kernel(scenario), *_slab(scenario), *_reclaim(scenario),
        *_readers(scenario),
    ]  # fmt: skip
    workload = scenario.workload
    if isinstance(workload, RcuscaleWorkload):
        found += _rcuscale(workload, scenario)
    elif isinstance(workload, BurstWorkload):
        found += _burst(workload, scenario)
    return found


def threads_of(workload: RcuscaleWorkload, cpus: int) -> int:
    """Return the number of test threads (``compute_real`` of rcuscale).

    Examples
    --------
    >>> [threads_of(RcuscaleWorkload(kfree_nthreads=n), 8) for n in (3, -1, -2, -20)]
    [3, 8, 7, 1]
    """
    n = workload.kfree_nthreads
    if n >= 0:
        return n
    return cpus if n == -1 else max(1, cpus + 1 + n)


def loops_of(workload: RcuscaleWorkload) -> int:
    """Return the loops that the test makes: the version posted as v4 raises them to 4."""
    return (
        max(4, workload.kfree_loops) if workload.footprint == "posted_v4" else workload.kfree_loops
    )


def objects_of(scenario: Scenario) -> int:
    """Return how many objects the workload of a scenario will handle."""
    workload = scenario.workload
    if isinstance(workload, RcuscaleWorkload):
        return (
            threads_of(workload, scenario.machine.cpus)
            * loops_of(workload)
            * workload.kfree_alloc_num
        )
    if isinstance(workload, BurstWorkload):
        burst = max(1, workload.rate_per_second * workload.duration_ms // 1000)
        return workload.cpus * workload.bursts * burst
    return 0


def _machine(scenario: Scenario) -> Iterator[Problem]:
    machine = scenario.machine
    if machine.base_used_mib == 0:
        return
    # only here, because page allocation comes with compiled code that takes long to import
    from rcusim.machine.pages import Watermarks  # noqa: PLC0415

    total_pages = machine.memory_mib * PAGES_PER_MIB
    high_pages = Watermarks.of(total_pages).high_pages
    if machine.base_used_mib * PAGES_PER_MIB + high_pages >= total_pages:
        rule = (
            f"must leave {high_pages + 1} pages (above watermark high) of {machine.memory_mib} MiB"
        )
        yield Problem("machine.base_used_mib", str(machine.base_used_mib), rule)


def _kernel(scenario: Scenario) -> Iterator[Problem]:
    tree, cpus = scenario.kernel.rcutree, scenario.machine.cpus
    capacity = tree.rcu_fanout_leaf * tree.rcu_fanout ** (MAX_LEVELS - 1)
    if cpus > capacity:
        rule = (
            f"{MAX_LEVELS} levels of rcu_node with rcu_fanout_leaf = {tree.rcu_fanout_leaf} and "
            f"rcu_fanout = {tree.rcu_fanout} hold {capacity} CPUs"
        )
        yield Problem("machine.cpus", str(cpus), rule)


def _slab(scenario: Scenario) -> Iterator[Problem]:
    slab = scenario.slab
    if slab.allocator == "slab":
        if slab.kmalloc_minimum_bytes < 32:
            rule = 'must be 32 or 128 with allocator = "slab"'
            yield Problem("slab.kmalloc_minimum_bytes", str(slab.kmalloc_minimum_bytes), rule)
    elif slab.layout != SlabTable().layout:
        yield Problem("slab.layout", shown(slab.layout), 'is only for allocator = "slab"')


def _reclaim(scenario: Scenario) -> Iterator[Problem]:
    if scenario.reclaim.drain_jiffies == 0:
        yield Problem("reclaim.drain_jiffies", "0", "must be -1 (HZ/50) or at least 1 jiffy")


def _readers(scenario: Scenario) -> Iterator[Problem]:
    readers = scenario.readers
    if not isinstance(scenario.workload, NoWorkload):
        return
    if readers is None:
        yield Problem("workload.kind", '"none"', "needs a [readers] table, else nothing would run")
    elif readers.duration_ms == 0:
        yield Problem(
            "readers.duration_ms",
            "0",
            "must be at least 1 when there is no workload to end the run",
        )


def _rcuscale(workload: RcuscaleWorkload, scenario: Scenario) -> Iterator[Problem]:
    loops = workload.kfree_loops
    if workload.kfree_nthreads == 0:
        yield Problem(
            "workload.kfree_nthreads",
            "0",
            "must be at least 1 thread, or negative: -1 is one a CPU",
        )
        return
    if workload.footprint == "posted_v3" and loops <= 3:
        yield Problem(
            "workload.kfree_loops",
            str(loops),
            'must be greater than 3 with footprint = "posted_v3"',
        )
    if workload.footprint == "merged" and loops in (2, 3):
        rule = "the merged test divides by kfree_loops / 4, which is 0; use 1, or at least 4"
        yield Problem("workload.kfree_loops", str(loops), rule)
    size = workload.kfree_mult * workload.object_bytes
    if size > LARGEST_CLASS_BYTES:
        rule = (
            f"kfree_mult x object_bytes = {size} exceeds {LARGEST_CLASS_BYTES}, the largest class"
        )
        yield Problem("workload.kfree_mult", str(workload.kfree_mult), rule)
    objects = objects_of(scenario)
    if objects > MOST_OBJECTS:
        rule = f"threads x kfree_loops x kfree_alloc_num = {objects} exceeds {MOST_OBJECTS} objects"
        yield Problem("workload.kfree_loops", str(loops), rule)


def _burst(workload: BurstWorkload, scenario: Scenario) -> Iterator[Problem]:
    if workload.cpus > scenario.machine.cpus:
        rule = f"must not exceed machine.cpus = {scenario.machine.cpus}"
        yield Problem("workload.cpus", str(workload.cpus), rule)
    if len(workload.weights) != len(workload.sizes_bytes):
        rule = f"must have as many entries as sizes_bytes: {len(workload.sizes_bytes)}"
        yield Problem("workload.weights", shown(workload.weights), rule)
    objects = objects_of(scenario)
    if objects > MOST_OBJECTS:
        rule = f"cpus x bursts x rate x duration_ms = {objects} exceeds {MOST_OBJECTS} objects"
        yield Problem("workload.bursts", str(workload.bursts), rule)
