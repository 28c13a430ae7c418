"""The results of a replay as data: one row per strategy and budget, and what they are based on.

Everything that goes out (terminal, JSON, HTML) is made from `Result`. Times differ from run to run,
so `timeless` takes them out of what is written: the same input gives the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from marksweep.money import MODEL, MODELS, ModelPrice
from marksweep.replay.cases import Case
from marksweep.replay.catalog import CLAIRVOYANT, TRUNCATE
from marksweep.replay.clairvoyant import Solved
from marksweep.replay.inputs import Passed
from marksweep.replay.measures import Figures, Outcome, figures, gap
from marksweep.replay.runner import Answers, Budget, Front, JobResult

DIGITS = 4
"""Decimals kept of a figure."""


class Row(Figures, frozen=True, kw_only=True):
    """How one strategy did at one budget, and how that compares. Recall and gap in percent."""

    strategy: str
    budget: str
    gap: float | None
    """Percent of the way from truncation to the clairvoyant; None: no room between them."""
    gap_low: float
    gap_high: float
    cost_to_truncate: float
    dollars: float
    """What the input of all requests costs, in the prices of `Result.price`."""


class EvidenceRow(msgspec.Struct, frozen=True):
    """How much of the evidence for questions was in context, in percent."""

    strategy: str
    budget: str
    blind: float
    """In the context, the question unknown."""
    recalled: float | None
    """In half a context, or brought back by the other half; None: no recall."""
    questions: int
    failures: tuple[str, ...] = ()
    """What the strategy said when it failed, by conversation."""


class Bound(msgspec.Struct, frozen=True):
    """How the clairvoyant bound of a budget was found, in numbers of transcripts."""

    budget: str
    limit: int
    """Tokens of the budget in the transcript of middle size."""
    exact: int
    stopped: int
    """Stopped at the solver's node limit; the true bound may be a little higher."""
    greedy: int

    @property
    def how(self) -> str:
        """How it was found, as text."""
        counts = {"exact": self.exact, "stopped": self.stopped, "greedy": self.greedy}
        there = {name: count for name, count in counts.items() if count}
        if len(there) == 1:
            return next(iter(there))
        return ", ".join(f"{name} for {count}" for name, count in there.items())


class Line(msgspec.Struct, frozen=True):
    """A transcript that was replayed."""

    name: str
    messages: int
    tokens: int
    steps: int
    need_steps: int


class Result(msgspec.Struct, frozen=True):
    """Everything that a replay found."""

    transcripts: tuple[Line, ...]
    passed: tuple[Passed, ...]
    bounds: tuple[Bound, ...]
    rows: tuple[Row, ...]
    evidence: tuple[EvidenceRow, ...] = ()
    extractor: str = "names"
    price: ModelPrice = MODELS[MODEL]
    dollars_uncollected: float = 0.0
    """What the input of all requests costs without collection."""

    @property
    def tokens(self) -> int:
        """Tokens of all transcripts."""
        return sum(line.tokens for line in self.transcripts)

    def row(self, strategy: str, budget: str) -> Row:
        """The row of a strategy at a budget."""
        return next(r for r in self.rows if (r.strategy, r.budget) == (strategy, budget))


def timeless(result: Result) -> Result:
    """The result without times: the same bytes for the same input."""
    rows = tuple(msgspec.structs.replace(row, times=None) for row in result.rows)
    return msgspec.structs.replace(result, rows=rows)


def tabulate(
    cases: Sequence[Case],
    budgets: Sequence[Budget],
    found: Front,
    passed: Sequence[Passed] = (),
    *,
    extractor: str = "names",
    price: ModelPrice = MODELS[MODEL],
) -> Result:
    """Pool what was done into rows, in order of budget, then of strategy as it was named."""
    return Result(
        transcripts=tuple(map(_line, cases)),
        passed=tuple(passed),
        bounds=tuple(_bound(cases, budget, found.done[budget.label]) for budget in budgets),
        rows=tuple(
            row
            for budget in budgets
            for row in _rows(budget.label, found.done[budget.label], price)
        ),
        evidence=tuple(
            evidence_row(name, budget.label, answers)
            for budget in budgets
            for name, answers in found.answers[budget.label].items()
            if answers
        ),
        extractor=extractor,
        price=price,
        dollars_uncollected=_uncollected(found.done[budgets[0].label], price),
    )


def _uncollected(done: Sequence[JobResult], price: ModelPrice) -> float:
    """What the input of all requests costs if nothing is dropped, whatever the budget."""
    found = figures([each.outcomes[TRUNCATE] for each in done])
    dollars = price.of_input(found.fresh_uncollected, found.cached_uncollected)
    return round(dollars, DIGITS)


def evidence_row(strategy: str, budget: str, found: Sequence[Answers]) -> EvidenceRow:
    """Pool the questions of all conversations."""
    shares = [share for each in found for share in each.blind.shares]
    brought = [share for each in found if each.recalled for share in each.recalled.shares]
    return EvidenceRow(
        strategy,
        budget,
        round(100 * _mean(shares), DIGITS),
        round(100 * _mean(brought), DIGITS) if brought else None,
        len(shares),
        tuple(f"{e.blind.conversation}: {e.blind.said}" for e in found if e.blind.said),
    )


def _rows(budget: str, done: Sequence[JobResult], price: ModelPrice) -> list[Row]:
    if not done:
        return []
    outcomes: dict[str, list[Outcome]] = {
        name: [each.outcomes[name] for each in done] for name in done[0].outcomes
    }
    found = {name: figures(each) for name, each in outcomes.items()}
    floor, ceiling = outcomes[TRUNCATE], outcomes[CLAIRVOYANT]
    rows = []
    for name, each in outcomes.items():
        closed, own = gap(each, floor, ceiling), found[name]
        compared = {
            "gap": closed.percent,
            "gap_low": closed.low,
            "gap_high": closed.high,
            "cost_to_truncate": own.cost / (found[TRUNCATE].cost or 1.0),
            "dollars": price.of_input(own.fresh, own.cached),
        }
        values = _rounded({**msgspec.structs.asdict(own), **compared})
        rows.append(Row(strategy=name, budget=budget, **values))
    return rows


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, DIGITS) if isinstance(value, float) else value
        for name, value in values.items()
    }


def _bound(cases: Sequence[Case], budget: Budget, done: Sequence[JobResult]) -> Bound:
    ways = Counter(each.solved for each in done)
    limits = sorted(budget.limit(case) for case in cases)
    middle = limits[len(limits) // 2] if limits else 0
    return Bound(
        budget.label, middle, ways[Solved.EXACT], ways[Solved.STOPPED], ways[Solved.GREEDY]
    )


def _line(case: Case) -> Line:
    found = case.study
    return Line(
        found.trajectory.id,
        len(found.trajectory.messages),
        sum(case.prices),
        len(found.steps),
        found.need_steps,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
