"""Prune scores: high goes first, bounded, strictly monotone in age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.score import (
    Scorer,
    SeedAge,
    SeedRetention,
    Weights,
    age_hours,
    scorer_named,
    seed_age,
    seed_retention,
)
from marksweep.errors import UnknownName
from marksweep.testing.builders import NOW, segment

BOTH = pytest.mark.parametrize("scorer", [seed_age, seed_retention], ids=["age", "retention"])


@BOTH
@given(
    hours=st.floats(0, 24 * 365 * 5),
    kind=st.sampled_from(["log", "note", "code", "message", "summary", "decision", "?"]),
    refcount=st.integers(0, 10**6),
    generation=st.sampled_from(["young", "old"]),
)
def test_scores_lie_between_0_and_1(
    scorer: Scorer, hours: float, kind: str, refcount: int, generation: str
) -> None:
    found = scorer(
        segment("a", hours_old=hours, type=kind, refcount=refcount, generation=generation), NOW
    )
    assert 0.0 <= found <= 1.0


@BOTH
@given(hours=st.floats(0, 24 * 30), more=st.floats(0.01, 24 * 30))
def test_older_scores_strictly_higher(scorer: Scorer, hours: float, more: float) -> None:
    younger = scorer(segment("a", hours_old=hours), NOW)
    older = scorer(segment("a", hours_old=hours + more), NOW)
    assert older > younger


@BOTH
def test_an_unreferenced_segment_scores_higher_than_a_referenced_one(scorer: Scorer) -> None:
    assert scorer(segment("a", refcount=0), NOW) > scorer(segment("a", refcount=3), NOW)


@BOTH
def test_the_old_generation_scores_higher_than_the_young(scorer: Scorer) -> None:
    old, young = segment("a", generation="old"), segment("a", generation="young")
    assert scorer(old, NOW) > scorer(young, NOW)


@BOTH
def test_logs_score_highest_and_decisions_lowest(scorer: Scorer) -> None:
    kinds = ["log", "code", "message", "note", "summary", "decision"]
    scores = {kind: scorer(segment("a", type=kind), NOW) for kind in kinds}
    assert max(scores, key=lambda kind: scores[kind]) == "log"
    assert min(scores, key=lambda kind: scores[kind]) == "decision"


def test_a_three_day_old_decision_does_not_outrank_a_fresh_log() -> None:
    decision = segment("d", type="decision", hours_old=72, refcount=1)
    log = segment("l", type="log", hours_old=2)
    assert seed_age(log, NOW) > seed_age(decision, NOW)


def test_retention_distinguishes_an_hour_from_a_day() -> None:
    hour, day = (segment("a", hours_old=hours) for hours in (1, 24))
    assert seed_retention(day, NOW) - seed_retention(hour, NOW) > 0.1


def test_what_is_pinned_scores_0_by_retention() -> None:
    assert seed_retention(segment("a", pinned=True, hours_old=1000), NOW) == 0.0


def test_the_formula_of_age_by_hand() -> None:
    found = seed_age(segment("a", type="log", hours_old=24, refcount=1, generation="old"), NOW)
    assert found == pytest.approx(0.4 * 0.5 + 0.3 * 1.0 + 0.2 * 0.5 + 0.1 * 1.0)


def test_the_formula_of_retention_by_hand() -> None:
    found = seed_retention(segment("a", type="code", hours_old=24, refcount=2), NOW)
    assert found == pytest.approx(1 - (0.4 * 0.5 + 0.3 * 0.6 + 0.2 * 0.4 + 0.1 * 0.1))


def test_weights_half_life_and_type_importance_are_settings() -> None:
    only_age = Weights(recency=1.0, type=0.0, references=0.0, generation=0.0)
    quick = SeedAge(weights=only_age, half_life_hours=1.0)
    assert quick(segment("a", hours_old=1), NOW) == pytest.approx(0.5)
    only_type = Weights(recency=0.0, type=1.0, references=0.0, generation=0.0)
    own = SeedRetention(weights=only_type, importance={"poem": 0.9})
    assert own(segment("a", type="poem"), NOW) == pytest.approx(0.1)
    assert own(segment("a", type="other"), NOW) == pytest.approx(0.6)


def test_ages_are_right_across_time_zones_and_naive_times_are_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    there = segment("a", hours_old=0)
    assert age_hours(there, NOW.astimezone(tokyo) + timedelta(hours=2)) == pytest.approx(2)
    naive = segment("a", last_touched_at=datetime(2026, 6, 1, 9, 0))  # noqa: DTZ001
    assert naive.last_touched_at.tzinfo is UTC
    assert age_hours(naive, NOW) == pytest.approx(3)
    assert age_hours(naive, datetime(2026, 6, 1, 10, 0)) == pytest.approx(1)  # noqa: DTZ001


def test_a_time_that_lies_ahead_counts_as_now() -> None:
    assert age_hours(segment("a", hours_old=-5), NOW) == 0.0


def test_an_unknown_scorer_is_refused_with_the_known_names() -> None:
    with pytest.raises(UnknownName, match=r"'seed_rage'.*seed_age, seed_retention"):
        scorer_named("seed_rage")
    assert scorer_named("seed_age") is seed_age
