from __future__ import annotations

from rcusim.engine.choices import SeededChoices, Stream


def test_a_stream_depends_on_seed_and_name_only() -> None:
    one, other = SeededChoices(7), SeededChoices(7)
    other.choose(10, "somebody else")
    assert [one.choose(1000, "x") for _ in range(5)] == [other.choose(1000, "x") for _ in range(5)]
    assert [SeededChoices(8).choose(1 << 30, "x")] != [SeededChoices(7).choose(1 << 30, "x")]


def test_the_sequence_is_pinned() -> None:
    # the published SplitMix64 sequence for state 1234567 (Steele, Lea, Flood; Vigna's reference program)
    stream = Stream(1234567)
    assert [stream.next() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_below_stays_below_and_reaches_all() -> None:
    stream = Stream.named(1, "dice")
    drawn = [stream.below(6) for _ in range(200)]
    assert sorted(dict.fromkeys(drawn)) == [0, 1, 2, 3, 4, 5]


def test_a_choice_of_one_draws_nothing() -> None:
    choices = SeededChoices(1)
    assert choices.choose(1, "x") == 0
    assert choices.choose(100, "x") == SeededChoices(1).choose(100, "x")
