"""One helper for each kind of field: default, bounds, unit and description stand in one place.

What a field accepts is a :class:`Rule` in its metadata. Reading a file, building a table in Python,
and whatever describes the keys to a user all ask the same rule.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import attrs

RULE = "rule"
TABLE = "table"
LONGEST_VALUE = 60


class RefusedError(ValueError):
    """A value that a field does not accept.

    Attributes
    ----------
    value : str
        The value, shortened.
    rule : str
        What would be accepted.
    key : str
        Key below the field, when the fault is in a part of its value.
    """

    def __init__(self, value: object, rule: str) -> None:
        self.value = shown(value)
        self.rule = rule
        self.key = ""
        super().__init__(f"{self.value}: {rule}")


class Rule(Protocol):
    """What a field accepts.

    Attributes
    ----------
    description : str
        What the field means, with its unit.
    """

    @property
    def description(self) -> str:
        """What the field means."""
        ...

    def accept(self, value: object) -> object:
        """Return the value, or raise :class:`RefusedError`."""
        ...


def shown(value: object) -> str:
    """Return a value as a scenario file would show it, shortened.

    Examples
    --------
    >>> shown(True), shown("G2"), shown([1, 2]), shown(1.5)
    ('true', '"G2"', '[1, 2]', '1.5')
    """
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str):
        text = '"' + value.encode("unicode_escape").decode("ascii") + '"'
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{key} = {shown(entry)}" for key, entry in value.items()) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(shown(entry) for entry in value) + "]"
    elif isinstance(value, int) and value.bit_length() > 256:
        text = "a huge integer"
    else:
        text = str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def kind_of(value: object) -> str:
    """Return what a value is, in the words of a scenario file."""
    kinds = (
        (bool, "a boolean"),
        (int, "an integer"),
        (float, "a float"),
        (str, "a string"),
        (dict, "a table"),
    )
    return next((name for cls, name in kinds if isinstance(value, cls)), _other_kind(value))


def _other_kind(value: object) -> str:
    return "an array" if isinstance(value, list | tuple) else "a date or time"


def nearest(word: str, valid: Sequence[str]) -> str:
    """Return ``"; did you mean ...?"`` for the nearest valid word, or an empty string."""
    close = difflib.get_close_matches(word.lower(), [entry.lower() for entry in valid], n=1)
    match = next((entry for entry in valid if close and entry.lower() == close[0]), None)
    return f"; did you mean {match}?" if match is not None else ""


@attrs.frozen
class IntegerRule:
    """An integer between two bounds, both included."""

    description: str
    low: int
    high: int
    unit: str = ""

    def accept(self, value: object) -> int:
        """Return the integer; booleans, floats and strings are not integers."""
        unit = f" {self.unit}" if self.unit else ""
        wanted = f"must be an integer from {self.low} to {self.high}{unit}"
        if isinstance(value, bool) or not isinstance(value, int):
            raise RefusedError(value, f"{wanted}, not {kind_of(value)}")
        if not self.low <= value <= self.high:
            raise RefusedError(value, wanted)
        return value


@attrs.frozen
class ChoiceRule:
    """One of a list of words or numbers, which may depend on what is installed."""

    description: str
    choices: Callable[[], Sequence[str | int]]

    def accept(self, value: object) -> str | int:
        """Return the choice."""
        choices = self.choices()
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choice
        hint = nearest(value, [str(choice) for choice in choices]) if isinstance(value, str) else ""
        listed = ", ".join(shown(choice) for choice in choices)
        raise RefusedError(value, f"must be {'one of ' if len(choices) > 1 else ''}{listed}{hint}")


@attrs.frozen
class TextRule:
    """A string of limited length, possibly one that can be a file name."""

    description: str
    pattern: str
    wanted: str
    length: int = 200

    def accept(self, value: object) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise RefusedError(value, f"must be a string, not {kind_of(value)}")
        if len(value) > self.length or not re.fullmatch(self.pattern, value, re.DOTALL):
            raise RefusedError(value, f"must be {self.wanted}, of at most {self.length} characters")
        return value


@attrs.frozen
class IntegersRule:
    """A non-empty array of integers."""

    description: str
    entry: IntegerRule
    length: int = 64

    def accept(self, value: object) -> tuple[int, ...]:
        """Return the integers as a tuple."""
        wanted = f"must be an array of 1 to {self.length} integers"
        if not isinstance(value, list | tuple):
            raise RefusedError(value, f"{wanted}, not {kind_of(value)}")
        if not 1 <= len(value) <= self.length:
            raise RefusedError(value, wanted)
        return tuple(self._entry(value, index) for index in range(len(value)))

    def _entry(self, values: Sequence[object], index: int) -> int:
        try:
            return self.entry.accept(values[index])
        except RefusedError as refused:
            raise RefusedError(values[index], f"entry {index} {refused.rule}") from None


NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]*"
NAME_WANTED = "a name of letters, digits, '.', '_' and '-' that begins with a letter or digit"


def _checked(_: object, attribute: attrs.Attribute[object], value: object) -> None:
    try:
        attribute.metadata[RULE].accept(value)
    except RefusedError as refused:
        raise ValueError(f"{attribute.name} = {refused}") from None


def _field(rule: Rule, default: object) -> Any:  # noqa: ANN401 - as attrs.field
    return attrs.field(default=default, validator=_checked, metadata={RULE: rule})


def integer(default: int, low: int, high: int, unit: str, description: str) -> int:
    """Make a field for an integer from `low` to `high`."""
    return cast("int", _field(IntegerRule(description, low, high, unit), default))


def word(
    default: str, choices: Sequence[str] | Callable[[], Sequence[str]], description: str
) -> str:
    """Make a field for one of several words; a callable is asked each time."""
    ask = choices if callable(choices) else lambda: choices
    return cast("str", _field(ChoiceRule(description, ask), default))


def number(default: int, choices: Sequence[int], description: str) -> int:
    """Make a field for one of several integers."""
    return cast("int", _field(ChoiceRule(description, lambda: choices), default))


def folder_name(default: str, description: str) -> str:
    """Make a field for a text that names a folder."""
    return cast("str", _field(TextRule(description, NAME_PATTERN, NAME_WANTED, 100), default))


def free_text(default: str, description: str) -> str:
    """Make a field for free text."""
    return cast("str", _field(TextRule(description, ".*", "a text", 10_000), default))


def integers(default: object, low: int, high: int, unit: str, description: str) -> tuple[int, ...]:
    """Make a field for an array of integers; `default` may be an attrs factory."""
    rule = IntegersRule(description, IntegerRule("", low, high, unit))
    return cast("tuple[int, ...]", _field(rule, default))


def table(cls: type, *, optional: bool = False) -> Any:  # noqa: ANN401 - as attrs.field
    """Make a field for a nested table; an optional one is None where the file has none."""
    default = None if optional else attrs.Factory(cls)
    return attrs.field(default=default, metadata={TABLE: cls})
