"""Prices of SLUB."""

from __future__ import annotations

import attrs
import pytest

from rcusim.slab import slub_kernel as kernel
from rcusim.slab.slub_prices import SlubPrices
from tests.slab.slub_rig import PRICES


def test_every_count_of_the_kernel_has_a_price() -> None:
    assert sorted(PRICES.weights()) == list(range(kernel.TALLIES))


def test_every_price_is_used() -> None:
    zero = SlubPrices(**{field.name: 0 for field in attrs.fields(SlubPrices)})
    for field in attrs.fields(SlubPrices):
        unit_ps = 1 if field.name.endswith("_ps") else 1000
        weights = attrs.evolve(zero, **{field.name: 7}).weights().values()
        assert {ps for pair in weights for ps in pair} == {0, 7 * unit_ps}


@pytest.mark.parametrize("wrong", [-1, 1.5, "3"])
def test_prices_are_integers_and_not_negative(wrong: int) -> None:
    with pytest.raises((TypeError, ValueError), match="refill_ns"):
        attrs.evolve(PRICES, refill_ns=wrong)
