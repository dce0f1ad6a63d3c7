"""Reading a scenario: layers to frozen tables, with all problems reported at once."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from rcusim.errors import Problem, ScenarioError
from rcusim.scenario import layers, rules
from rcusim.scenario.fields import RULE, TABLE, ChoiceRule, RefusedError, kind_of, nearest
from rcusim.scenario.find import locate, read_text
from rcusim.scenario.tables import WORKLOADS, Scenario, Workload

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")

WORKLOAD_KIND = ChoiceRule("which workload", lambda: list(WORKLOADS))


def load(
    source: str | Path,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    variants: Sequence[str] = (),
) -> list[Scenario]:
    """Read a scenario file and check it.

    Parameters
    ----------
    source : str or Path
        A file, or the bare name of a scenario that comes with rcusim; a path wins.
    overrides : sequence of str
        ``KEY=VALUE`` with a dotted key of the resolved scenario, applied to every variant;
        ``variant.NAME.KEY=VALUE`` addresses one. The value is TOML, else a bare string.
    seed : int, optional
        Replaces the file's seed.
    variants : sequence of str
        Names of the variants to return, in the file's order; empty means all. The others are
        checked too.

    Returns
    -------
    list of Scenario
        One for each variant, or one named ``default``.

    Raises
    ------
    ScenarioError
        With every problem of the file and the options.
    """
    label = str(source)
    try:
        return _load(source, label, overrides, seed, variants)
    except RecursionError:
        raise ScenarioError(label, [Problem("file", "", "nests too deeply")]) from None


def _load(
    source: str | Path,
    label: str,
    overrides: Sequence[str],
    seed: int | None,
    variants: Sequence[str],
) -> list[Scenario]:
    document = _parse(read_text(locate(source), label), label)
    problems: list[Problem] = []
    parts = layers.split(document, problems)
    settings = layers.parse_overrides(overrides, list(parts.variants), problems)
    for name in variants:
        if name not in parts.variants:
            rule = f"there is no such variant{nearest(name, list(parts.variants))}"
            problems.append(Problem("--variant", name, rule))
    parts.base.setdefault("name", _name_of(label))
    if seed is not None:
        settings.append(layers.Override("seed", seed, None))
    tables = {name: layers.settled(parts, name, settings, problems) for name in parts.variants}
    outcomes = {name: _check(table) for name, table in tables.items()}
    problems += _placed(parts, settings, outcomes)
    if problems:
        raise ScenarioError(label, problems)
    return [
        attrs.evolve(scenario, variant=name)
        for name, (scenario, _) in outcomes.items()
        if scenario is not None and (not variants or name in variants)
    ]


def resolved(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as plain dicts, lists, ints and strings; an absent table is left out."""

    def plain(_: type, __: attrs.Attribute[Any], value: object) -> object:
        return list(value) if isinstance(value, tuple) else value

    table = attrs.asdict(scenario, value_serializer=plain)
    return {key: value for key, value in table.items() if value is not None}


def _parse(text: str, label: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        rule = "nests too deeply" if isinstance(error, RecursionError) else f"is not TOML: {error}"
        raise ScenarioError(label, [Problem("file", "", rule)]) from None
    if not document:
        raise ScenarioError(label, [Problem("file", "", "is empty: it has only comments")])
    return document


def _name_of(label: str) -> str:
    """Return a name that can be a folder for a scenario in a file of any name."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(label).name.removesuffix(".toml")).strip("-._")
    return cleaned[:100] or "scenario"


def _check(table: Mapping[str, Any]) -> tuple[Scenario | None, list[Problem]]:
    """Return the scenario of a table, or what is wrong with it."""
    problems: list[Problem] = []
    try:
        scenario = _converter().structure(table, Scenario)
    except Exception as error:
        _collect(error, "", problems)
        return None, problems
    return scenario, rules.problems(scenario)


def _placed(
    parts: layers.Layers,
    settings: Sequence[layers.Override],
    outcomes: Mapping[str, tuple[Scenario | None, list[Problem]]],
) -> list[Problem]:
    """Return the problems of all variants, each once; those of one variant carry its name."""
    placed: dict[Problem, None] = {}  # in order, each once
    others = {name: frozenset(found) for name, (_, found) in outcomes.items()}
    for variant, (scenario, problems) in outcomes.items():
        own = layers.own(parts, variant, settings)
        for problem in problems:
            # a rule that concerns several keys may be broken by a key other than the one it names
            shared = scenario is None or all(problem in other for other in others.values())
            own_key = layers.contains(own, problem.path)
            path = problem.path if shared and not own_key else f"variant.{variant}.{problem.path}"
            entry = attrs.evolve(problem, path=path)
            placed[entry] = None
    return list(placed)


@functools.cache
def _converter() -> Converter:
    """Return a converter that asks each field's rule and knows no other conversion."""
    from cattrs import Converter  # noqa: PLC0415 - slow to import

    converter = Converter(detailed_validation=True, forbid_extra_keys=True)
    for cls in (Scenario, *_tables(Scenario), *WORKLOADS.values()):
        converter.register_structure_hook(cls, _table_hook(cls, converter))
    return converter


def _tables(cls: type) -> list[type]:
    """Return the classes of all tables below a table, innermost first."""
    below: list[type] = []
    for field in attrs.fields(cls):
        inner = field.metadata.get(TABLE)
        if inner is not None:
            below += [*_tables(inner), inner]
    return below


def _table_hook(cls: type[T], converter: Converter) -> Callable[[object, type[T]], T]:
    """Return the function that makes a table of class `cls` from a dict, key by key."""
    from cattrs.gen import make_dict_structure_fn, override  # noqa: PLC0415

    hooks: dict[str, Any] = {}
    for field in attrs.fields(cls):  # type: ignore[arg-type] # every table is an attrs class
        if cls is Scenario and field.name == "variant":
            hooks[field.name] = override(omit=True)
        else:
            hooks[field.name] = override(struct_hook=_field_hook(field, converter))
    make = make_dict_structure_fn(cls, converter, **hooks)

    def structure(value: object, target: type[T]) -> T:
        if not isinstance(value, dict):
            raise RefusedError(value, f"must be a table, not {kind_of(value)}")
        return make(value, target)

    return structure


def _field_hook(
    field: attrs.Attribute[Any], converter: Converter
) -> Callable[[object, Any], object]:
    rule, inner = field.metadata.get(RULE), field.metadata.get(TABLE)
    if rule is not None:
        return lambda value, _: rule.accept(value)
    if inner is not None:
        return lambda value, _: converter.structure(value, inner)
    return lambda value, _: _workload(value, converter)


def _workload(value: object, converter: Converter) -> Workload:
    """Return the workload of a table by its `kind`, which is rcuscale where it is absent."""
    if not isinstance(value, dict):
        raise RefusedError(value, f"must be a table, not {kind_of(value)}")
    kind = value.get("kind", "rcuscale")
    try:
        WORKLOAD_KIND.accept(kind)
    except RefusedError as refused:
        refused.key = "kind"
        raise
    return converter.structure(value, WORKLOADS[kind])


def _collect(error: BaseException, path: str, problems: list[Problem]) -> None:
    """Turn what cattrs raised, a tree, into a list of problems."""
    from cattrs import BaseValidationError, ForbiddenExtraKeysError  # noqa: PLC0415

    if isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            _collect(inner, _below(path, inner), problems)
    elif isinstance(error, ForbiddenExtraKeysError):
        problems += [_unknown_key(error.cl, path, key) for key in sorted(error.extra_fields)]
    elif isinstance(error, RefusedError):
        where = f"{path}.{error.key}" if error.key else path
        problems.append(Problem(where, error.value, error.rule))
    else:
        raise error


def _below(path: str, error: BaseException) -> str:
    """Return the dotted key of an error from the note that cattrs hangs on it."""
    from cattrs import AttributeValidationNote  # noqa: PLC0415

    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return f"{path}.{note.name}" if path else note.name
    return path


def _unknown_key(cls: type, path: str, key: str) -> Problem:
    valid = [field.name for field in attrs.fields(cls) if field.name != "variant"]
    hint = nearest(key, valid)
    kind = next((kind for kind, other in WORKLOADS.items() if key in _names(other)), None)
    if cls in WORKLOADS.values() and kind is not None:
        hint = f"; it belongs to kind {kind}"
    elif not hint:
        elsewhere = next(
            (entry for entry in _keys(Scenario) if entry.rsplit(".", 1)[-1] == key), None
        )
        hint = f"; did you mean {elsewhere}?" if elsewhere else ""
    where = f"{path}.{key}" if path else key
    if cls in WORKLOADS.values():
        table = f"[workload] of kind {attrs.fields(cls).kind.default}"
    else:
        table = f"[{path}]" if path else "a scenario"
    return Problem(where, "", f"is not a key of {table}{hint}")


def _names(cls: type) -> list[str]:
    return [field.name for field in attrs.fields(cls)]


def _keys(cls: type, path: str = "") -> list[str]:
    """Return the dotted keys below a table."""
    keys: list[str] = []
    for field in attrs.fields(cls):
        inner = field.metadata.get(TABLE)
        keys += _keys(inner, f"{path}{field.name}.") if inner else [f"{path}{field.name}"]
    return keys
