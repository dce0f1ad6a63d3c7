from __future__ import annotations

import datetime as dt

import pytest

from rcusim.scenario.fields import (
    ChoiceRule,
    IntegerRule,
    IntegersRule,
    RefusedError,
    Rule,
    TextRule,
    kind_of,
    nearest,
    shown,
)

CPUS = IntegerRule("CPUs that are online", 1, 65_536, "CPUs")
HZ = ChoiceRule("ticks", lambda: (100, 250, 1000))
WORD = ChoiceRule("preemption", lambda: ("none", "voluntary", "full"))
SIZES = IntegersRule("sizes", IntegerRule("", 16, 64, "bytes"), length=3)
NAME = TextRule("name", r"[a-z]+", "a word", 5)


@pytest.mark.parametrize(
    ("rule", "value", "accepted"),
    [
        (CPUS, 1, 1),
        (CPUS, 65_536, 65_536),
        (HZ, 250, 250),
        (WORD, "none", "none"),
        (SIZES, [16, 64], (16, 64)),
        (SIZES, (16,), (16,)),
        (NAME, "abcde", "abcde"),
    ],
)
def test_what_a_rule_accepts(rule: Rule, value: object, accepted: object) -> None:
    assert rule.accept(value) == accepted


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        (CPUS, 0, "0: must be an integer from 1 to 65536 CPUs"),
        (CPUS, 65_537, "65537: must be an integer from 1 to 65536 CPUs"),
        (CPUS, True, "true: must be an integer from 1 to 65536 CPUs, not a boolean"),
        (CPUS, 1.0, "1.0: must be an integer from 1 to 65536 CPUs, not a float"),
        (CPUS, "8", '"8": must be an integer from 1 to 65536 CPUs, not a string'),
        (CPUS, [8], "[8]: must be an integer from 1 to 65536 CPUs, not an array"),
        (CPUS, 10**400, "a huge integer: must be an integer from 1 to 65536 CPUs"),
        (HZ, 251, "251: must be one of 100, 250, 1000"),
        (HZ, "250", '"250": must be one of 100, 250, 1000; did you mean 250?'),
        (HZ, 250.0, "250.0: must be one of 100, 250, 1000"),
        (ChoiceRule("", lambda: (0, 1)), True, "true: must be one of 0, 1"),
        (
            WORD,
            "voluntry",
            '"voluntry": must be one of "none", "voluntary", "full"; did you mean voluntary?',
        ),
        (ChoiceRule("", lambda: ("slab",)), "slub", '"slub": must be "slab"; did you mean slab?'),
        (SIZES, [], "[]: must be an array of 1 to 3 integers"),
        (SIZES, [16] * 4, "[16, 16, 16, 16]: must be an array of 1 to 3 integers"),
        (SIZES, 16, "16: must be an array of 1 to 3 integers, not an integer"),
        (SIZES, [16, 8], "8: entry 1 must be an integer from 16 to 64 bytes"),
        (SIZES, [[16]], "[16]: entry 0 must be an integer from 16 to 64 bytes, not an array"),
        (NAME, "", '"": must be a word, of at most 5 characters'),
        (NAME, "abcdef", '"abcdef": must be a word, of at most 5 characters'),
        (NAME, "a\nb", '"a\\nb": must be a word, of at most 5 characters'),
        (NAME, 3, "3: must be a string, not an integer"),
    ],
)
def test_what_a_rule_refuses(rule: Rule, value: object, message: str) -> None:
    with pytest.raises(RefusedError) as caught:
        rule.accept(value)
    assert str(caught.value) == message


def test_values_are_shown_as_a_file_has_them() -> None:
    assert shown({"a": [True, "x"], "b": 1.5}) == '{a = [true, "x"], b = 1.5}'
    assert shown(dt.date(2019, 12, 31)) == "2019-12-31"
    assert shown("é\t") == r'"\xe9\t"'
    assert len(shown("x" * 1000)) == 60


def test_kinds_have_the_words_of_a_file() -> None:
    values: list[object] = [True, 1, 1.0, "", {}, [], dt.date(2019, 12, 31)]
    kinds = [kind_of(value) for value in values]
    assert kinds == [
        "a boolean", "an integer", "a float", "a string", "a table", "an array", "a date or time",
    ]  # fmt: skip


def test_the_nearest_word_is_named_whatever_its_case() -> None:
    assert nearest("g2", ["G0", "G1", "G2"]) == "; did you mean G2?"
    assert nearest("something else", ["G0", "G1", "G2"]) == ""
