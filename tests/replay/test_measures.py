"""Figures, computed by hand."""

from __future__ import annotations

import random

import pytest

from marksweep.core.plan import Prices
from marksweep.replay.atoms import names
from marksweep.replay.drive import Pricer, StepResult, drive, limit_of
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.measures import Outcome, figures, gap
from marksweep.replay.needs import study
from marksweep.replay.references import Truncate, TruncateTo
from tests.replay.stories import BASH, by_words


def step(
    any_: float | None, src: float | None, fresh: int = 1, *, rewrites: bool | None = None
) -> StepResult:
    return StepResult(
        any_,
        src,
        churn=3,
        fresh=fresh,
        cached=0,
        fresh_uncollected=2,
        cached_uncollected=0,
        seconds=0.001,
        rewrites=rewrites,
    )


def outcome(*steps: StepResult, name: str = "t") -> Outcome:
    return Outcome(name, steps)


def test_need_recall_is_the_mean_of_both_halves_over_their_own_steps() -> None:
    got = figures([outcome(step(1.0, 0.5), step(0.0, None)), outcome(step(None, None))])
    assert (got.recall_any, got.recall_src, got.recall) == (50.0, 50.0, 50.0)
    assert got.need_steps == 2
    assert got.cost == pytest.approx(0.5)
    assert got.churn == 3


def test_a_prefix_that_is_rewritten_counts_among_the_requests_after_the_limit() -> None:
    steps = [step(1.0, 1.0, rewrites=said) for said in (None, None, True, False, False, False)]
    assert figures([outcome(*steps)]).rewrites == 25


def test_what_is_not_cached_is_paid_as_written_to_the_cache() -> None:
    got = figures([outcome(step(1.0, 1.0, 100))])
    assert got.priced(Prices(cached=0.1, write=1.25)) == pytest.approx(125)


def test_the_gap_is_the_share_of_the_way_between_the_bounds() -> None:
    low = [outcome(step(0.2, 0.2))]
    high = [outcome(step(0.6, 0.6))]
    assert gap(low, low, high).percent == pytest.approx(0)
    assert gap(high, low, high).percent == pytest.approx(100)
    half = gap([outcome(step(0.4, 0.4))], low, high)
    assert (half.percent, half.low, half.high) == pytest.approx((50, 50, 50))


def test_both_halves_count_the_same_in_the_gap() -> None:
    low, high = [outcome(step(0.0, 0.0))], [outcome(step(1.0, 1.0))]
    assert gap([outcome(step(1.0, 0.0))], low, high).percent == pytest.approx(50)
    assert gap([outcome(step(0.0, 1.0))], low, high).percent == pytest.approx(50)


def test_bounds_less_than_three_points_apart_leave_no_room() -> None:
    low, near = [outcome(step(0.50, 0.50))], [outcome(step(0.529, 0.529))]
    assert gap(near, low, near).percent is None
    enough = [outcome(step(0.54, 0.54))]
    assert gap(enough, low, enough).percent == pytest.approx(100)
    nothing, three = [outcome(step(0.0, 0.0))], [outcome(step(0.03, 0.03))]
    assert gap(three, nothing, three).percent == pytest.approx(100)


def test_the_interval_holds_the_gap_and_is_the_same_every_time() -> None:
    low = [outcome(step(0.0, 0.0)) for _ in range(8)]
    high = [outcome(step(1.0, 1.0)) for _ in range(8)]
    some = [outcome(step(i / 8, i / 8)) for i in range(8)]
    found = gap(some, low, high)
    assert found == gap(some, low, high)
    assert found.percent is not None
    assert found.low < found.percent < found.high


def test_the_interval_leaves_out_a_fortieth_of_a_thousand_resamples_at_each_end() -> None:
    low = [outcome(step(0.0, 0.0)) for _ in range(20)]
    high = [outcome(step(1.0, 1.0)) for _ in range(20)]
    closed = [(7 * n % 20) / 20 for n in range(20)]
    found = gap([outcome(step(share, share)) for share in closed], low, high)
    draw = random.Random(0)
    means = sorted(100 * sum(draw.choices(closed, k=20)) / 20 for _ in range(1000))
    assert (found.low, found.high) == pytest.approx((means[24], means[974]))


def test_the_budget_is_the_prefix_and_a_share_of_the_rest() -> None:
    assert limit_of([10, 10, 33, 34], 2, 10) == 26
    assert limit_of([10, 10, 33, 34], 2, 25) == 36


def run(limit: int) -> list[StepResult]:
    found = study(BASH, names)
    return drive(
        found, proofs(found), Truncate(by_words), limit, tokens=Pricer(by_words), reader=Reader()
    )


def test_without_pressure_nothing_is_read_again() -> None:
    steps = run(1000)
    assert [s.churn for s in steps] == [0, 0, 0, 0]
    # 17 pinned; tails of 0, 9 + 6, 9 + 10 and 12 + 6 tokens
    assert [s.cost for s in steps] == pytest.approx([17, 15 + 1.7, 19 + 3.2, 18 + 5.1])
    assert [s.cost for s in steps] == [s.cost_uncollected for s in steps]


def test_what_is_dropped_at_the_front_makes_the_rest_uncached() -> None:
    steps = run(50)
    # at the third step 51 tokens: the 9 of message 2 go, and the 6 of message 3 are read again
    assert steps[2].churn == 6
    assert steps[2].cost == pytest.approx(1.7 + 6 + 19)
    assert (steps[2].fresh, steps[2].cached) == (6 + 19, 17)
    assert [s.rewrites for s in steps] == [None, None, True, True]
    assert (steps[2].any, steps[2].src) == (1.0, 1.0)


def test_truncating_to_a_share_drops_rarely_and_deep() -> None:
    deep, shallow = TruncateTo(by_words, 50), Truncate(by_words)
    kept = []
    for collector in (deep, shallow):
        collector.start(list(BASH.messages[: BASH.pinned]), 50)
        collector.add(list(BASH.messages[BASH.pinned :]))
        collector.add([])
        kept.append(sum(map(Pricer(by_words), collector.context())))
    room = 50 - sum(map(Pricer(by_words), BASH.messages[: BASH.pinned]))
    assert kept[0] <= 50 - room / 2 < kept[1] <= 50
