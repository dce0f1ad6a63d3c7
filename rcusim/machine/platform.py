"""Platform cost tables: what each operation costs on a board, and where each price comes from.

A platform is a TOML file in ``rcusim/platforms``. Every price is a table with a value and a `kind`:
``calibrated`` (against which published row), ``measured`` (where) or ``estimated`` (from what). A
prediction must not use a price that was fitted to the row it predicts.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources

import attrs

from rcusim.engine.steps import Price
from rcusim.errors import Problem, ScenarioError

KINDS = ("calibrated", "measured", "estimated")


@attrs.frozen
class PriceNote:
    """Where a price comes from."""

    path: str
    value: str
    kind: str
    source: str


@attrs.frozen
class Platform:
    """A board.

    Parameters
    ----------
    name : str
        File stem.
    description : str
        What the board is.
    slowdown_permille : tuple of int
        Price of a step on CPU i as thousandths of the table's; repeated for more CPUs than named.
    steps : mapping
        Class name to step name to (base ns, ns per unit): prices of machines' steps.
    values : mapping
        Group to name to integer: all other prices, with the unit in the name.
    notes : tuple of PriceNote
        The sources, for the table of prices.
    """

    name: str
    description: str
    slowdown_permille: tuple[int, ...]
    steps: Mapping[str, Mapping[str, Price]]
    values: Mapping[str, Mapping[str, int]]
    notes: tuple[PriceNote, ...]

    def slowdown(self, cpu: int) -> int:
        """Return the price factor of a CPU in thousandths."""
        return self.slowdown_permille[cpu % len(self.slowdown_permille)]


def names() -> list[str]:
    """Return the names of the platforms that come with rcusim."""
    folder = resources.files("rcusim") / "platforms"
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load(name: str) -> Platform:
    """Read a platform by name.

    Raises
    ------
    ScenarioError
        When there is no such platform, or an entry has no value, kind or source.
    """
    path = resources.files("rcusim") / "platforms" / f"{name}.toml"
    if not path.is_file():
        raise ScenarioError(
            name, [Problem("machine.platform", name, f"must be one of {', '.join(names())}")]
        )
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    steps: dict[str, dict[str, Price]] = {}
    values: dict[str, dict[str, int]] = {}
    notes: list[PriceNote] = []
    for group, entries in table["price"].items():
        for key, entry in entries.items():
            where = f"price.{group}.{key}"
            _check_note(name, where, entry)
            if "ns" in entry:
                base_ns, unit_ns = entry["ns"]
                steps.setdefault(group, {})[key] = (base_ns, unit_ns)
            else:
                values.setdefault(group, {})[key] = entry["value"]
            notes.append(
                PriceNote(
                    where, str(entry.get("ns", entry.get("value"))), entry["kind"], entry["source"]
                )
            )
    return Platform(
        name=name,
        description=table["description"],
        slowdown_permille=tuple(table["slowdown_permille"]),
        steps=steps,
        values=values,
        notes=tuple(notes),
    )


def _check_note(platform: str, where: str, entry: Mapping[str, object]) -> None:
    if ("ns" in entry) == ("value" in entry):
        raise ScenarioError(
            platform, [Problem(where, str(entry), "needs either ns = [base, per unit] or value")]
        )
    if entry.get("kind") not in KINDS or not entry.get("source"):
        raise ScenarioError(
            platform,
            [Problem(where, str(entry), f"needs a source and a kind of {', '.join(KINDS)}")],
        )
