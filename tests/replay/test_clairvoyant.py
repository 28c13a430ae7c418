"""The clairvoyant bound: exact on small cases, and above everything that drops whole messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marksweep.replay import milp
from marksweep.replay.atoms import names
from marksweep.replay.clairvoyant import Clairvoyant, Foresight, Problem, Solved, _greedy, foresee
from marksweep.replay.drive import Collector, Pricer, drive
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.measures import Outcome, figures
from marksweep.replay.needs import Study, study
from marksweep.replay.records import price
from marksweep.replay.references import STUB, Dropping, Gdsf, OriginalScore, Random, Truncate
from tests.replay.stories import BASH, by_words, history

STUB_TOKENS = by_words(STUB) + 4


def solve(found: Study, limit: int) -> Foresight:
    prices = [price(message, by_words) for message in found.trajectory.messages]
    return foresee(found, prices, limit, stub=STUB_TOKENS)


def nr(found: Study, collector: Collector, limit: int) -> float:
    steps = drive(found, proofs(found), collector, limit, tokens=Pricer(by_words), reader=Reader())
    assert [s.violation for s in steps] == [None] * len(steps)
    return figures([Outcome("t", tuple(steps))]).recall


def test_it_keeps_just_what_is_needed() -> None:
    found = study(BASH, names)
    sight = solve(found, 17 + 19 + 6)
    assert sight.solved is Solved.EXACT
    assert sight.until[3] == 3
    assert [m for m, k in enumerate(sight.until) if k >= 0] == [3]
    assert nr(found, Clairvoyant(found, sight), 17 + 19 + 6) == 100.0


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", [Truncate, Random, Gdsf, OriginalScore])
def test_no_whole_message_collector_beats_it(seed: int, kind: type[Dropping]) -> None:
    found = study(history(seed), names)
    for limit in (60, 120, 200):
        best = nr(found, Clairvoyant(found, solve(found, limit)), limit)
        assert nr(found, kind(by_words), limit) <= best + 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_a_bigger_budget_never_lowers_the_bound(seed: int) -> None:
    found = study(history(seed), names)
    bounds = [solve(found, limit).covered for limit in (40, 80, 120, 160, 300)]
    # steps that do not fit are left out, so only budgets at which all fit are compared
    fitting = [b for b, limit in zip(bounds, (40, 80, 120, 160, 300), strict=True) if limit >= 120]
    assert fitting == sorted(fitting)


@pytest.mark.parametrize("seed", range(12))
def test_the_greedy_solution_is_valid_and_never_better_than_the_optimum(seed: int) -> None:
    found = study(history(seed), names)
    prices = [price(message, by_words) for message in found.trajectory.messages]
    greedy = _greedy(Problem(found, prices, 120, STUB_TOKENS, 1.0))
    assert greedy.covered <= solve(found, 120).covered + 1e-6
    nr(found, Clairvoyant(found, greedy), 120)


def test_a_solver_that_is_stopped_says_so_and_is_never_worse_than_the_greedy_solution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = study(history(3), names)
    prices = [price(message, by_words) for message in found.trajectory.messages]
    greedy = foresee(found, prices, 120, stub=STUB_TOKENS, nodes=0)
    assert greedy.solved is Solved.GREEDY
    solver = getattr(milp, "milp")  # noqa: B009 - it is imported there, not offered
    monkeypatch.setattr(milp, "milp", lambda *a, **k: stopped(solver(*a, **k)))
    sight = foresee(found, prices, 120, stub=STUB_TOKENS, nodes=1)
    assert sight.solved is Solved.STOPPED
    assert sight.covered >= greedy.covered


def stopped(result: Any) -> Any:
    """Return a result as if the solver had reached its node limit before it found anything."""
    result.status = 1
    result.x = np.zeros_like(result.x)
    return result


def test_no_clock_is_read_so_a_slow_machine_finds_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[dict[str, Any]] = []
    solver = getattr(milp, "milp")  # noqa: B009 - it is imported there, not offered

    def watched(*arguments: Any, **named: Any) -> Any:
        given.append(named["options"])
        return solver(*arguments, **named)

    monkeypatch.setattr(milp, "milp", watched)
    found = study(history(3), names)
    assert solve(found, 120) == solve(found, 120)
    assert given
    assert all("time_limit" not in options for options in given)


def test_a_problem_that_is_too_large_is_solved_greedily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milp, "MAX_PROGRAM_SIZE", 10)
    assert solve(study(history(3), names), 120).solved is Solved.GREEDY
