"""A scenario file as layers: the file, the variant over it, ``--set`` over both.

Works on plain dicts as TOML gives them; nothing is checked here but what is needed to put the
layers together.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from rcusim.errors import Problem
from rcusim.scenario.fields import NAME_PATTERN, NAME_WANTED, RefusedError, TextRule, nearest, shown

Table = dict[str, Any]

VARIANT_NAME = TextRule(
    "name of a variant",
    r"[A-Za-z0-9][A-Za-z0-9_-]*",
    "a name of letters, digits, '_' and '-' that begins with a letter or digit",
    100,
)
SCENARIO_NAME = TextRule("name of a scenario", NAME_PATTERN, NAME_WANTED, 100)
NOT_IN_A_VARIANT = ("seed", "variant")


@attrs.frozen
class Layers:
    """The parts of a file.

    Attributes
    ----------
    base : dict
        Everything outside ``[[variant]]``.
    variants : dict
        Name of each variant to what it puts over the base, in the file's order.
    """

    base: Table
    variants: dict[str, Table]

    def merged(self, variant: str) -> Table:
        """Return the base with a variant over it: tables key by key, all else as a whole."""
        return over(self.base, self.variants[variant])


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> Table:
    """Return a new table with `above` put over `below`, key by key.

    Examples
    --------
    >>> over({"kernel": {"hz": 250, "preempt": "full"}}, {"kernel": {"hz": 1000}})
    {'kernel': {'hz': 1000, 'preempt': 'full'}}
    """
    result = copy.deepcopy(dict(below))
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = over(result[key], value) if both else copy.deepcopy(value)
    return result


def contains(table: Mapping[str, Any], path: str) -> bool:
    """Return whether a dotted key stands in a table."""
    entry: Any = table
    for key in path.split("."):
        if not isinstance(entry, dict) or key not in entry:
            return False
        entry = entry[key]
    return True


def split(document: Mapping[str, Any], problems: list[Problem]) -> Layers:
    """Return the layers of a parsed file; what is wrong with ``[[variant]]`` goes to `problems`."""
    base = {key: value for key, value in document.items() if key != "variant"}
    entries = document.get("variant")
    if entries is None:
        return Layers(base, {"default": {}})
    if (
        not isinstance(entries, list)
        or not entries
        or not all(isinstance(entry, dict) for entry in entries)
    ):
        problems.append(
            Problem("variant", shown(entries), "must be an array of tables: [[variant]]")
        )
        return Layers(base, {"default": {}})
    variants: dict[str, Table] = {}
    for index, entry in enumerate(entries):
        name = _variant_name(entry, f"variant[{index}]", problems)
        if name in variants:
            problems.append(
                Problem(f"variant[{index}].name", shown(name), "names another variant already")
            )
            continue
        variants[name] = {key: value for key, value in entry.items() if key != "name"}
    return Layers(base, variants)


def _variant_name(entry: Mapping[str, Any], where: str, problems: list[Problem]) -> str:
    if "name" not in entry:
        problems.append(Problem(f"{where}.name", "", "is missing: every variant needs a name"))
        return where
    try:
        name = VARIANT_NAME.accept(entry["name"])
    except RefusedError as refused:
        problems.append(Problem(f"{where}.name", refused.value, refused.rule))
        return where
    problems += [
        Problem(f"{where}.{key}", shown(entry[key]), "cannot differ between variants of a file")
        for key in NOT_IN_A_VARIANT
        if key in entry
    ]
    return name


def own(parts: Layers, variant: str, settings: Sequence[Override]) -> Table:
    """Return what only this variant sets, in the file or by ``--set variant.NAME.KEY``."""
    table = copy.deepcopy(parts.variants[variant])
    for setting in settings:
        if setting.variant == variant:
            setting.apply(table)
    return table


def settled(
    parts: Layers, variant: str, settings: Sequence[Override], problems: list[Problem]
) -> Table:
    """Return a variant's table with every override that concerns it applied."""
    table = parts.merged(variant)
    for setting in settings:
        problem = setting.apply(table) if setting.variant in (None, variant) else None
        if problem is not None and problem not in problems:
            problems.append(problem)
    return table


@attrs.frozen
class Override:
    """One ``--set``: a dotted key and its value, for one variant or for all."""

    path: str
    value: object
    variant: str | None

    def apply(self, table: Table) -> Problem | None:
        """Set the key in `table`; return a problem when its path leads through a value."""
        *parents, last = self.path.split(".")
        entry = table
        for parent in parents:
            below = entry.setdefault(parent, {})
            if not isinstance(below, dict):
                return Problem(
                    f"--set {self.path}", shown(self.value), f"{parent} is a value, not a table"
                )
            entry = below
        entry[last] = self.value
        return None


def parse_overrides(
    texts: Sequence[str], variants: Sequence[str], problems: list[Problem]
) -> list[Override]:
    """Return the overrides of ``--set`` options; the value is TOML, else a bare string."""
    overrides = []
    for text in texts:
        key, equals, value = text.partition("=")
        parts = [part.strip() for part in key.split(".")]
        if not equals or not all(parts):
            problems.append(
                Problem("--set", text, "must be KEY=VALUE with a dotted key, as kernel.hz=1000")
            )
            continue
        variant = None
        if parts[0] == "variant":
            if len(parts) < 3 or parts[2] == "name":
                problems.append(Problem("--set", text, "must be variant.NAME.KEY=VALUE"))
                continue
            variant, parts = parts[1], parts[2:]
            if variant not in variants:
                rule = f"there is no such variant{nearest(variant, variants)}"
                problems.append(Problem(f"--set variant.{variant}", "", rule))
                continue
        if variant is not None and parts[0] in NOT_IN_A_VARIANT:
            problems.append(Problem("--set", text, f"{parts[0]} cannot differ between variants"))
            continue
        overrides.append(Override(".".join(parts), _parse_value(value), variant))
    return overrides


def _parse_value(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if list(parsed) == ["value"] else text
