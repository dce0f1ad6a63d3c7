from __future__ import annotations

import json
from pathlib import Path

import pytest

from rcusim.errors import ScenarioError
from rcusim.scenario import (
    BurstWorkload,
    RcuscaleWorkload,
    ReadersTable,
    Scenario,
    load,
    resolved,
    shipped,
)

VARIANTS = """
seed = 7
[kernel]
hz = 1000
[workload]
kfree_loops = 4
[[variant]]
name = "old"
[variant.reclaim]
generation = "G1"
[[variant]]
name = "new"
[variant.reclaim]
generation = "G2"
slots = 3
"""


def write(folder: Path, text: str, name: str = "a.toml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def refused(folder: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        load(write(folder, text), overrides)
    return [str(problem) for problem in caught.value.problems]


def one(folder: Path, text: str, *overrides: str, seed: int | None = None) -> Scenario:
    (scenario,) = load(write(folder, text), overrides, seed)
    return scenario


def test_a_short_file_has_all_defaults(tmp_path: Path) -> None:
    assert one(tmp_path, "seed = 3") == Scenario(name="a", seed=3)


def test_every_table_is_read(tmp_path: Path) -> None:
    text = """
    name = "all"
    description = "every table"
    [machine]
    cpus = 16
    [kernel.rcutree]
    qhimark = 20000
    [slab]
    kmalloc_minimum_bytes = 32
    [reclaim]
    drain_jiffies = 7
    [workload]
    kind = "burst"
    sizes_bytes = [32, 64]
    weights = [3, 1]
    [readers]
    threads = 2
    [run]
    limit_ms = 0
    """
    scenario = one(tmp_path, text)
    assert (scenario.name, scenario.description) == ("all", "every table")
    assert scenario.machine.cpus == 16
    assert scenario.kernel.rcutree.qhimark == 20_000
    assert scenario.slab.kmalloc_minimum_bytes == 32
    assert scenario.reclaim.drain_jiffies == 7
    assert scenario.workload == BurstWorkload(sizes_bytes=(32, 64), weights=(3, 1))
    assert scenario.readers == ReadersTable(threads=2)
    assert scenario.run.limit_ms == 0


def test_variants_are_merged_over_the_base(tmp_path: Path) -> None:
    old, new = load(write(tmp_path, VARIANTS))
    assert (old.variant, new.variant) == ("old", "new")
    assert (old.reclaim.generation, old.reclaim.slots) == ("G1", 2)
    assert (new.reclaim.generation, new.reclaim.slots) == ("G2", 3)
    assert old.kernel == new.kernel
    assert old.seed == new.seed == 7


def test_variants_are_selected_by_name(tmp_path: Path) -> None:
    file = write(tmp_path, VARIANTS)
    assert [entry.variant for entry in load(file, variants=["new"])] == ["new"]
    assert [entry.variant for entry in load(file, variants=["new", "old"])] == ["old", "new"]
    with pytest.raises(
        ScenarioError, match=r"--variant = odl: there is no such variant; did you mean old\?"
    ):
        load(file, variants=["odl"])


def test_the_order_is_file_variant_set_and_seed(tmp_path: Path) -> None:
    file = write(tmp_path, VARIANTS)
    old, new = load(file, ["reclaim.slots=5", "variant.old.reclaim.slots=6", "seed=8"], seed=9)
    assert (old.reclaim.slots, new.reclaim.slots) == (6, 5)
    assert old.seed == new.seed == 9
    assert load(file, ["seed=8"])[0].seed == 8


def test_a_set_without_quotes_is_a_string(tmp_path: Path) -> None:
    assert one(tmp_path, "seed = 1", "kernel.preempt=none").kernel.preempt == "none"
    assert one(tmp_path, "seed = 1", "variant.default.kernel.hz=100").kernel.hz == 100


def test_the_name_is_that_of_the_file_as_a_folder_can_have_it(tmp_path: Path) -> None:
    (scenario,) = load(write(tmp_path, "seed = 1", "my scenario (2).toml"))
    assert scenario.name == "my-scenario-2"
    (scenario,) = load(write(tmp_path, "seed = 1", "...toml"))
    assert scenario.name == "scenario"


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = """
    nam = "x"
    hz = 3
    [machine]
    cpus = true
    memory_mib = "12"
    platform = "hikey96"
    [kernel]
    hz = 251
    preemt = "full"
    [kernel.rcutree]
    blimit = 1.5
    [reclaim]
    generation = "G3"
    """
    assert refused(tmp_path, text, "foo", "run.limit_ms=abc", "machine.cpus.x=3") == [
        "--set = foo: must be KEY=VALUE with a dotted key, as kernel.hz=1000",
        "--set machine.cpus.x = 3: cpus is a value, not a table",
        'machine.platform = "hikey96": must be "hikey960"; did you mean hikey960?',
        "machine.cpus = true: must be an integer from 1 to 65536 CPUs, not a boolean",
        'machine.memory_mib = "12": must be an integer from 16 to 1048576 MiB, not a string',
        "kernel.hz = 251: must be one of 100, 250, 300, 1000",
        (
            "kernel.rcutree.blimit = 1.5: "
            "must be an integer from 1 to 1000000000 callbacks, not a float"
        ),
        "kernel.preemt: is not a key of [kernel]; did you mean preempt?",
        'reclaim.generation = "G3": must be one of "G0", "G1", "G2"',
        'run.limit_ms = "abc": must be an integer from 0 to 1000000000 ms, not a string',
        "hz: is not a key of a scenario; did you mean kernel.hz?",
        "nam: is not a key of a scenario; did you mean name?",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("machine = 3", "machine = 3: must be a table, not an integer"),
        ("[[machine]]\ncpus = 1", "machine = [{cpus = 1}]: must be a table, not an array"),
        ("kernel.rcutree = 1", "kernel.rcutree = 1: must be a table, not an integer"),
        ("workload = 1", "workload = 1: must be a table, not an integer"),
        ("readers = 1", "readers = 1: must be a table, not an integer"),
        ('name = ""', 'name = "": must be a name of letters'),
        ('name = "../x"', 'name = "../x": must be a name of letters'),
        ("name = 3", "name = 3: must be a string, not an integer"),
        ("seed = -1", "seed = -1: must be an integer from 0 to"),
        ("seed = 1979-05-27", "seed = 1979-05-27: must be an integer from 0 to"),
        ("seed = nan", "seed = nan: must be an integer from 0 to"),
        ("[workload]\nkind = 3", "workload.kind = 3: must be one of"),
        (
            '[workload]\nkind = "rcuscal"',
            (
                'workload.kind = "rcuscal": must be one of "rcuscale", "burst", "none"; '
                "did you mean rcuscale?"
            ),
        ),
        (
            '[workload]\nkind = "burst"\nkfree_loops = 3',
            (
                "workload.kfree_loops: is not a key of [workload] of kind burst; "
                "it belongs to kind rcuscale"
            ),
        ),
        (
            "[workload]\nkfree_loop = 3",
            (
                "workload.kfree_loop: is not a key of [workload] of kind rcuscale; "
                "did you mean kfree_loops?"
            ),
        ),
        ("[workload]\nkfree_loops = 3", "workload.kfree_loops = 3: the merged test divides by"),
        ('variant = "x"', 'variant = "x": must be an array of tables'),
        ("[variant]\nname = 1", "variant = {name = 1}: must be an array of tables"),
        ("variants = 1", "variants: is not a key of a scenario"),
    ],
)
def test_one_problem(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = refused(tmp_path, text)
    assert found.startswith(problem)


def test_a_problem_of_one_variant_carries_its_name(tmp_path: Path) -> None:
    text = VARIANTS + '[[variant]]\nname = "bad"\n[variant.machine]\ncpus = 0\n'
    assert refused(tmp_path, text) == [
        "variant.bad.machine.cpus = 0: must be an integer from 1 to 65536 CPUs"
    ]
    assert refused(tmp_path, VARIANTS, "variant.new.kernel.hz=1") == [
        "variant.new.kernel.hz = 1: must be one of 100, 250, 300, 1000"
    ]


def test_a_problem_of_the_base_is_reported_once(tmp_path: Path) -> None:
    assert refused(tmp_path, VARIANTS, "machine.cpus=0") == [
        "machine.cpus = 0: must be an integer from 1 to 65536 CPUs"
    ]


def test_a_rule_that_one_variant_breaks_through_another_key_names_the_variant(
    tmp_path: Path,
) -> None:
    text = """
    [workload]
    kfree_loops = 1
    [[variant]]
    name = "merged"
    [[variant]]
    name = "v3"
    workload.footprint = "posted_v3"
    """
    (problem,) = refused(tmp_path, text)
    assert problem.startswith("variant.v3.workload.kfree_loops = 1: must be greater than 3")


def test_problems_of_unselected_variants_are_reported_too(tmp_path: Path) -> None:
    text = VARIANTS + '[[variant]]\nname = "bad"\n[variant.machine]\ncpus = 0\n'
    with pytest.raises(ScenarioError, match=r"variant\.bad"):
        load(write(tmp_path, text), variants=["old"])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("name = ", "is not TOML: Invalid value"),
        ("[a]\n[a]\n", "is not TOML: Cannot declare"),
        ("a = 1\na = 2\n", "is not TOML: Cannot overwrite"),
        ("<html></html>", "is not TOML: Invalid statement"),
        ("a = " + "[" * 50_000, "nests too deeply"),
        ("a = " + "9" * 5000, "is not TOML: Exceeds the limit"),
        ("# nothing here", "is empty: it has only comments"),
    ],
)
def test_what_is_not_toml_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    (problem,) = refused(tmp_path, text)
    assert problem.startswith(f"file: {rule}")


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_scenario_is_good(name: str) -> None:
    scenarios = load(name)
    assert scenarios
    assert {scenario.name for scenario in scenarios} == {name}
    assert all(scenario.description for scenario in scenarios)


def test_the_measurement_on_the_hikey() -> None:
    before, after = load("hikey960")
    assert (before.variant, after.variant) == ("baseline_kfree", "kfree_bulk")
    assert (before.reclaim.generation, after.reclaim.generation) == ("G1", "G2")
    assert after.reclaim.block_entries == 510
    assert (before.machine.cpus, before.machine.memory_mib) == (8, 3072)
    assert isinstance(before.workload, RcuscaleWorkload)
    assert (before.workload.kfree_loops, before.workload.kfree_alloc_num) == (2000, 1000)
    assert before.workload.footprint == "posted_v3"


def test_a_resolved_scenario_is_plain(tmp_path: Path) -> None:
    text = '[workload]\nkind = "burst"\nsizes_bytes = [32, 64]'
    table = resolved(one(tmp_path, text))
    assert json.loads(json.dumps(table)) == table
    assert table["workload"]["weights"] == [1, 1]
    assert table["variant"] == "default"
    assert "readers" not in table
    assert resolved(one(tmp_path, "[readers]"))["readers"]["threads"] == 1


def test_a_resolved_scenario_read_again_is_the_same(tmp_path: Path) -> None:
    scenario = load("readers")[1]
    table = resolved(scenario)
    del table["variant"]
    lines = [f"{key} = {json.dumps(table.pop(key))}" for key in ("name", "description", "seed")]
    lines += [f"{path} = {json.dumps(value)}" for path, value in flat(table)]
    assert resolved(one(tmp_path, "\n".join(lines))) == {**resolved(scenario), "variant": "default"}


def flat(table: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found
