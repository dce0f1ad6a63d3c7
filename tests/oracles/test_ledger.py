from __future__ import annotations

import pytest

from rcusim._jit import integers
from rcusim.errors import PropertyViolation
from rcusim.oracles.ledger import FREE, LIVE, QUEUED, Ledger
from rcusim.probes import Probes


def world() -> tuple[Ledger, Probes, object]:
    ledger, probes = Ledger(lambda: 9, lambda: 64), Probes()
    ledger.attach(probes)
    array = integers(64)
    for i in range(64):
        array[i] = i
    return ledger, probes, array


def test_an_object_is_allocated_queued_and_freed_in_turn_again_and_again() -> None:
    ledger, probes, array = world()
    for _ in range(3):
        probes.allocated(0, array, 4, 8)
        probes.queued(0, array, 4, 8)
        assert ledger.in_state(QUEUED) == list(range(4, 12))
        probes.freeing(1, array, 11, 8, -1, 0)
        assert ledger.in_state(QUEUED) == ledger.in_state(LIVE) == []
    assert int(ledger.cells[4]) == 3 * 4 + FREE


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            ["allocated", "allocated"],
            r"object 0x4 \(generation 1\) is allocated on CPU 0 while it is live, not free",
        ),
        (["queued"], r"object 0x4 \(generation 0\) is queued on CPU 0 while it is free, not live"),
        (
            ["allocated", "freeing"],
            r"object 0x4 \(generation 1\) is freed on CPU 0 while it is live, not queued",
        ),
        (
            ["allocated", "queued", "freeing", "freeing"],
            r"ledger violated at 9 ns: object 0x4 \(generation 1\) is freed on CPU 0 while it is free, not queued",
        ),
    ],
)
def test_every_other_order_is_a_violation_that_names_the_object(
    steps: list[str], message: str
) -> None:
    _, probes, array = world()

    def take(step: str) -> None:
        extra = (1, 0) if step == "freeing" else ()
        getattr(probes, step)(0, array, 4, 1, *extra)

    for step in steps[:-1]:
        take(step)
    with pytest.raises(PropertyViolation, match=message):
        take(steps[-1])


def test_the_first_object_that_does_not_fit_is_named_not_the_first_of_the_batch() -> None:
    _, probes, array = world()
    probes.allocated(0, array, 10, 3)
    with pytest.raises(PropertyViolation, match="object 0xd "):
        probes.queued(0, array, 10, 5)
