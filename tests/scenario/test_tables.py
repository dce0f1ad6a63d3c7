from __future__ import annotations

from collections.abc import Iterator

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
    RunTable,
    Scenario,
    SlabTable,
)
from rcusim.scenario.fields import RULE, TABLE

TABLES = (
    BurstWorkload, KernelTable, MachineTable, NoWorkload, RcuscaleWorkload, RcutreeTable,
    ReadersTable, ReclaimTable, RunTable, Scenario, SlabTable,
)  # fmt: skip


def fields() -> Iterator[attrs.Attribute[object]]:
    for table in TABLES:
        yield from attrs.fields(table)


def test_every_key_has_a_rule_and_a_description() -> None:
    for field in fields():
        if TABLE in field.metadata or field.name == "workload":
            continue
        assert field.metadata[RULE].description, field.name


def test_every_default_obeys_its_rule() -> None:
    for table in TABLES:
        made = table()
        for field in attrs.fields(table):
            if RULE in field.metadata:
                value = getattr(made, field.name)
                assert field.metadata[RULE].accept(value) == value


def test_the_defaults_are_the_kernels() -> None:
    scenario = Scenario()
    assert (scenario.machine.platform, scenario.machine.cpus) == ("hikey960", 8)
    assert (scenario.kernel.hz, scenario.kernel.preempt) == (250, "full")
    tree = scenario.kernel.rcutree
    assert (tree.blimit, tree.qhimark, tree.qlowmark, tree.rcu_divisor) == (10, 10_000, 100, 7)
    assert tree.rcu_resched_ns == 3_000_000
    workload = RcuscaleWorkload()
    assert (workload.kfree_nthreads, workload.kfree_alloc_num, workload.kfree_loops) == (
        -1,
        8000,
        10,
    )
    assert (workload.object_bytes, workload.kfree_mult, workload.nice) == (24, 1, 19)
    assert (scenario.reclaim.block_entries, scenario.reclaim.slots) == (509, 2)


def test_sizes_without_weights_are_all_alike() -> None:
    assert BurstWorkload(sizes_bytes=(32, 64, 96)).weights == (1, 1, 1)


def test_a_table_made_in_python_obeys_the_same_rules() -> None:
    with pytest.raises(ValueError, match="cpus = 0: must be an integer from 1 to 65536 CPUs"):
        MachineTable(cpus=0)
    with pytest.raises(ValueError, match="must be one of 100, 250, 300, 1000"):
        attrs.evolve(KernelTable(), hz=200)


def test_tables_are_values() -> None:
    assert Scenario() == Scenario()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Scenario().seed = 3  # type: ignore[misc] # the point
