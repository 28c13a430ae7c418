"""What a sweep costs at the prompt cache."""

from __future__ import annotations

import pytest

from marksweep.core.plan import Prices, price
from marksweep.model import Cost


def test_a_sweep_that_changes_nothing_costs_nothing() -> None:
    assert price([10, 20], [], 0, Prices()) == Cost(None)


def test_what_is_behind_the_first_change_is_read_again() -> None:
    found = price([100, 50, 200, 300], [2, 1], freed=250, prices=Prices())
    assert found.edits_from == 1
    assert found.reread_tokens == 300


def test_the_turns_until_it_pays_by_hand() -> None:
    prices = Prices(input=1.0, cached=0.1, write=1.25)
    found = price([100, 50, 300], [1], freed=50, prices=prices)
    assert found.pays_after_turns == pytest.approx(300 * (1.25 - 0.1) / (50 * 0.1))


def test_cutting_the_end_pays_at_once() -> None:
    assert price([100, 50], [1], freed=50, prices=Prices()).pays_after_turns == 0


def test_a_sweep_that_frees_nothing_never_pays() -> None:
    assert price([100, 50], [0], freed=0, prices=Prices()).pays_after_turns is None
