"""What tokens cost in money, and impossible prices."""

from __future__ import annotations

import pytest

from marksweep.errors import BadInput, UnknownName
from marksweep.money import AS_OF, MODELS, ModelPrice, dollars, price_of


def test_what_is_not_cached_is_paid_as_written_to_the_cache() -> None:
    price = ModelPrice("m", input=2.0, cached=0.2, output=10.0, write=2.5)
    assert price.of_input(fresh=1_000_000, cached=500_000) == pytest.approx(2.6)


@pytest.mark.parametrize("price", MODELS.values(), ids=MODELS)
def test_in_the_table_reading_from_the_cache_is_the_cheapest(price: ModelPrice) -> None:
    assert 0 < price.cached < price.input <= price.write < price.output
    assert AS_OF in str(price)


def test_custom_prices_override_the_table_and_carry_no_date() -> None:
    price = price_of("house-model", "3,0.3,15")
    assert (price.input, price.cached, price.output, price.write) == (3.0, 0.3, 15.0, 3.0)
    assert "house-model" in str(price)
    assert AS_OF not in str(price_of(given="3,0.3,15"))


@pytest.mark.parametrize("given", ["", "3", "3,0.3", "3,0.3,15,4", "a,b,c", "3,-1,15", "nan,1,2"])
def test_impossible_prices_are_refused_with_an_example(given: str) -> None:
    with pytest.raises(BadInput, match=r"expected three numbers.*3,0\.3,15"):
        price_of(given=given)


def test_a_model_without_prices_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"no prices for 'x'; known are .*--price"):
        price_of("x")


@pytest.mark.parametrize(
    ("amount", "written"),
    [(0, "$0.00"), (1234.5, "$1,234.50"), (0.25, "$0.25"), (0.0019, "$0.0019"), (0.05, "$0.050")],
)
def test_an_amount_is_written_to_the_cent_or_to_two_digits(amount: float, written: str) -> None:
    assert dollars(amount) == written
