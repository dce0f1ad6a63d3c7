from __future__ import annotations

from rcusim.errors import Problem
from rcusim.scenario.layers import contains, over, own, parse_overrides, settled, split


def parsed(*texts: str) -> list[tuple[str, object, str | None]]:
    problems: list[Problem] = []
    found = parse_overrides(texts, ["small", "large"], problems)
    assert problems == []
    return [(entry.path, entry.value, entry.variant) for entry in found]


def refused(*texts: str) -> list[str]:
    problems: list[Problem] = []
    assert parse_overrides(texts, ["small", "large"], problems) == []
    return [str(problem) for problem in problems]


def test_tables_merge_key_by_key_and_arrays_as_a_whole() -> None:
    below = {"a": {"x": 1, "y": [1, 2]}, "b": 1}
    above = {"a": {"y": [3], "z": {"w": 1}}, "b": {"v": 2}}
    assert over(below, above) == {"a": {"x": 1, "y": [3], "z": {"w": 1}}, "b": {"v": 2}}


def test_a_merge_shares_nothing_with_its_layers() -> None:
    below = {"a": {"x": [1]}}
    above = {"b": {"y": [2]}}
    merged = over(below, above)
    merged["a"]["x"].append(9)
    merged["b"]["y"].append(9)
    assert (below, above) == ({"a": {"x": [1]}}, {"b": {"y": [2]}})


def test_a_value_is_toml_or_else_a_bare_string() -> None:
    assert parsed(
        "kernel.hz=1000", 'slab.layout="gen1"', "reclaim.generation=G1", "a.b=[1, 2]", "a.c=true",
        "a.d=", "a.e=x = y", "a.f=1\nb = 2", "a.g={h = 1}",
    ) == [
        ("kernel.hz", 1000, None),
        ("slab.layout", "gen1", None),
        ("reclaim.generation", "G1", None),
        ("a.b", [1, 2], None),
        ("a.c", True, None),
        ("a.d", "", None),
        ("a.e", "x = y", None),
        ("a.f", "1\nb = 2", None),
        ("a.g", {"h": 1}, None),
    ]  # fmt: skip


def test_an_override_may_address_one_variant() -> None:
    assert parsed("variant.large.machine.cpus=2") == [("machine.cpus", 2, "large")]


def test_what_is_no_override_is_refused() -> None:
    assert refused(
        "kernel.hz", "=3", "a..b=3", ".=1", "variant.small=3", "variant.small.name=3"
    ) == [
        "--set = kernel.hz: must be KEY=VALUE with a dotted key, as kernel.hz=1000",
        "--set = =3: must be KEY=VALUE with a dotted key, as kernel.hz=1000",
        "--set = a..b=3: must be KEY=VALUE with a dotted key, as kernel.hz=1000",
        "--set = .=1: must be KEY=VALUE with a dotted key, as kernel.hz=1000",
        "--set = variant.small=3: must be variant.NAME.KEY=VALUE",
        "--set = variant.small.name=3: must be variant.NAME.KEY=VALUE",
    ]
    assert refused("variant.smal.a=1", "variant.small.seed=2") == [
        "--set variant.smal: there is no such variant; did you mean small?",
        "--set = variant.small.seed=2: seed cannot differ between variants",
    ]


def test_overrides_apply_in_their_order_over_the_variant() -> None:
    problems: list[Problem] = []
    parts = split(
        {"a": {"x": 1}, "variant": [{"name": "small", "a": {"x": 2}}, {"name": "large"}]}, problems
    )
    settings = parse_overrides(
        ["a.x=3", "variant.small.a.x=4", "b.y=5"], ["small", "large"], problems
    )
    assert settled(parts, "small", settings, problems) == {"a": {"x": 4}, "b": {"y": 5}}
    assert settled(parts, "large", settings, problems) == {"a": {"x": 3}, "b": {"y": 5}}
    assert own(parts, "small", settings) == {"a": {"x": 4}}
    assert own(parts, "large", settings) == {}
    assert parts.base == {"a": {"x": 1}}
    assert problems == []


def test_a_path_through_a_value_is_a_problem_named_once() -> None:
    problems: list[Problem] = []
    parts = split({"a": 1, "variant": [{"name": "small"}, {"name": "large"}]}, problems)
    settings = parse_overrides(["a.x.y=3"], ["small", "large"], problems)
    for name in parts.variants:
        settled(parts, name, settings, problems)
    assert [str(problem) for problem in problems] == ["--set a.x.y = 3: a is a value, not a table"]


def test_a_file_without_variants_has_one_named_default() -> None:
    problems: list[Problem] = []
    assert split({"a": 1}, problems).variants == {"default": {}}
    assert problems == []


def test_variants_need_names_that_differ() -> None:
    problems: list[Problem] = []
    entries = [{"a": 1}, {"name": "x/y"}, {"name": "b"}, {"name": "b"}, {"name": "c", "seed": 3}]
    split({"variant": entries}, problems)
    assert [str(problem) for problem in problems] == [
        "variant[0].name: is missing: every variant needs a name",
        (
            "variant[1].name = \"x/y\": must be a name of letters, digits, '_' and '-' that begins with a letter or digit, "
            "of at most 100 characters"
        ),
        'variant[3].name = "b": names another variant already',
        "variant[4].seed = 3: cannot differ between variants of a file",
    ]


def test_variant_must_be_an_array_of_tables() -> None:
    for entry in ({"name": "a"}, 3, [1], "x"):
        problems: list[Problem] = []
        split({"variant": entry}, problems)
        assert [problem.rule for problem in problems] == ["must be an array of tables: [[variant]]"]


def test_a_dotted_key_is_looked_up() -> None:
    table = {"a": {"b": 1}}
    assert contains(table, "a.b")
    assert contains(table, "a")
    assert not contains(table, "a.b.c")
    assert not contains(table, "b")
