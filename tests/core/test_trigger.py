"""When a collection is due, and the back-off after a futile pass."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from marksweep.core.budget import (
    FIRST_WAIT,
    LONGEST_WAIT,
    PAYS_WITHIN_TURNS,
    Backoff,
    Budget,
    Due,
    PromptCache,
    after_pass,
    due,
    is_time,
)
from marksweep.model import Cost

BUDGET = Budget.of(1000)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_nothing_is_due_up_to_the_soft_limit_a_step_above_it_all_from_the_hard_limit_on() -> None:
    assert [due(used, BUDGET, 0) for used in (900, 901, 949, 950)] == [
        Due.NOTHING,
        Due.STEP,
        Due.STEP,
        Due.FULL,
    ]


def test_on_a_cold_cache_a_collection_is_due_sooner_and_is_not_put_off() -> None:
    assert [due(used, BUDGET, 0, is_cold=True) for used in (750, 751, 901)] == [
        Due.NOTHING,
        Due.FULL,
        Due.FULL,
    ]


def test_on_a_cold_cache_a_futile_pass_still_backs_off() -> None:
    assert due(800, BUDGET, 11, Backoff(800, 10), is_cold=True) is Due.NOTHING


def test_a_cache_is_cold_until_a_request_and_after_its_lifetime() -> None:
    cache = PromptCache(minutes=5)
    assert cache.is_cold(NOON)
    cache = cache.requested(NOON)
    assert not cache.is_cold(NOON + timedelta(minutes=5))
    assert cache.is_cold(NOON + timedelta(minutes=5, seconds=1))
    assert cache.lost().is_cold(NOON)


def test_a_report_of_no_cache_reads_means_a_cold_cache_unless_it_is_of_the_first_request() -> None:
    first = PromptCache().requested(NOON).reported(0)
    assert not first.is_cold(NOON)
    missed = first.requested(NOON).reported(0)
    assert missed.is_cold(NOON)
    assert not missed.requested(NOON).reported(1).is_cold(NOON)


def test_a_pass_that_freed_something_does_not_back_off() -> None:
    assert after_pass(1, 850, 10, Backoff(850, 1)) is None


def test_after_a_futile_pass_nothing_is_due_until_enough_changes_went_by() -> None:
    backoff = after_pass(0, 960, 10)
    assert backoff is not None
    assert due(960, BUDGET, 10 + FIRST_WAIT - 1, backoff) is Due.NOTHING
    assert due(960, BUDGET, 10 + FIRST_WAIT, backoff) is Due.FULL


def test_growth_ends_the_wait_early() -> None:
    backoff = Backoff(used=955, change=10, wait=100)
    assert due(1005, BUDGET, 11, backoff) is Due.NOTHING
    assert due(1006, BUDGET, 11, backoff) is Due.FULL


def test_the_wait_doubles_with_every_futile_pass_and_has_a_ceiling() -> None:
    backoff, waits = None, []
    for change in range(12):
        backoff = after_pass(0, 950, change, backoff)
        assert backoff is not None
        waits.append(backoff.wait)
    assert waits[:3] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
    assert waits[-1] == waits[-2] == LONGEST_WAIT


def test_more_pressure_ends_the_wait_early() -> None:
    backoff = Backoff(used=940, change=10, wait=100)
    assert due(949, BUDGET, 11, backoff) is Due.NOTHING
    assert due(950, BUDGET, 11, backoff) is Due.FULL


def test_between_the_limits_a_plan_is_applied_only_if_it_pays_soon() -> None:
    assert is_time(Due.STEP, Cost(3, 100, PAYS_WITHIN_TURNS))
    assert not is_time(Due.STEP, Cost(3, 100, PAYS_WITHIN_TURNS + 1))
    assert not is_time(Due.STEP, Cost(3, 100, None))
    assert is_time(Due.STEP, Cost(3, 100, 5.0), pays_within_turns=5)
    assert not is_time(Due.STEP, Cost(3, 100, 5.1), pays_within_turns=5)


def test_over_the_hard_limit_a_plan_is_applied_whatever_it_costs() -> None:
    assert is_time(Due.FULL, Cost(0, 10**6, 10.0**6))
    assert not is_time(Due.NOTHING, Cost(0, 0, 0.0))
