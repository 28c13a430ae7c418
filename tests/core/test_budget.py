"""The limits of a budget, and the ledger."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from marksweep.core.budget import Budget, Line, tally
from marksweep.errors import BadInput
from marksweep.heaps.live_index import Pace
from marksweep.model import Pressure
from marksweep.testing.builders import segment


def test_the_limits_lie_at_90_60_95_and_cold_at_75_percent_by_default() -> None:
    budget = Budget.of(1000)
    assert budget == Budget(1000, soft_limit=900, target=600, hard_limit=950, cold_limit=750)
    assert (budget.threshold, budget.pressure) == (900, 950)


def test_the_cold_limit_stays_between_target_and_threshold() -> None:
    assert Budget.of(1000, threshold_percent=70).cold_limit == 700
    assert Budget.of(1000, target_percent=80).cold_limit == 800
    assert Budget.at_limit(1000).cold_limit == 1000


def test_limits_are_shares_of_the_room_beside_what_must_stay() -> None:
    budget = Budget.of(1000).beside(500)
    assert budget == Budget(1000, soft_limit=950, target=800, hard_limit=975, cold_limit=875)
    assert Budget.at_limit(1000).beside(500) == Budget.at_limit(1000)
    assert Budget.of(1000).beside(0) == Budget.of(1000)


@pytest.mark.parametrize("held", [1_000, 2_000])
def test_where_what_must_stay_takes_all_the_room_as_little_as_possible_is_trimmed(
    held: int,
) -> None:
    assert Budget.of(1_000).beside(held, step=10) == Budget.at_limit(1_000)


def test_a_provider_that_counts_more_tokens_leaves_less_room_in_ours() -> None:
    assert Budget.of(1000).calibrated(2.0) == Budget.of(500)


@pytest.mark.parametrize(
    ("used", "pressure"),
    [(900, Pressure.NONE), (901, Pressure.SOFT), (949, Pressure.SOFT), (950, Pressure.HARD)],
)
def test_the_soft_limit_is_crossed_above_it_and_the_hard_one_reached_at_it(
    used: int, pressure: Pressure
) -> None:
    assert Budget.of(1000).pressure_at(used) is pressure


def test_a_collection_that_stops_at_the_limit_does_not_start_the_next() -> None:
    budget = Budget.at_limit(1000)
    assert [budget.pressure_at(used) for used in (1000, 1001)] == [Pressure.NONE, Pressure.HARD]


def test_a_target_above_the_threshold_is_refused_and_both_are_named() -> None:
    with pytest.raises(BadInput, match=r"target_percent is 70.*threshold_percent 50"):
        Budget.of(1000, threshold_percent=50, target_percent=70)


@pytest.mark.parametrize("value", [-1.0, 101.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["threshold_percent", "target_percent", "pressure_percent"])
def test_a_share_outside_0_to_100_is_refused(name: str, value: float) -> None:
    with pytest.raises(BadInput, match=name):
        Budget.of(1000, **{name: value})


@pytest.mark.parametrize("limit", [-5, "32k", None, math.nan, math.inf, 1e300, 10**16])
def test_a_limit_that_is_not_a_number_of_tokens_is_refused(limit: Any) -> None:
    with pytest.raises(BadInput, match=re.escape(f"limit is {limit!r}; expected")):
        Budget.of(limit)


def test_a_limit_of_hundreds_of_digits_is_refused_with_a_short_message() -> None:
    with pytest.raises(BadInput, match="expected a number of tokens") as refused:
        Budget.of(10**400)
    assert len(str(refused.value)) < 200


def test_the_ledger_adds_up_per_type_heaviest_first() -> None:
    found = tally(
        [
            segment("a", type="log", tokens=5),
            segment("b", type="code", tokens=50),
            segment("c", type="log", tokens=6),
        ]
    )
    assert found == (Line("code", 1, 50), Line("log", 2, 11))


def test_all_limits_equal_the_limit_if_a_collection_makes_room_for_less_than_two_steps() -> None:
    lines = Budget.of(3_000)
    assert lines.beside(2_000, step=199).target == 2_600
    assert lines.beside(2_000, step=201) == Budget.at_limit(3_000)
    assert lines.beside(0, step=0) == lines


def test_the_pace_is_what_an_answer_brings_without_what_is_pinned() -> None:
    assert Pace().mean == 0
    came = [segment("a", tokens=300), segment("b", tokens=5_000, pinned=True)]
    assert Pace().after(0, came).mean == 0
    assert Pace().after(1, came).after(1, came[:1]).mean == 300
