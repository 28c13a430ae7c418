"""Figures of a set: need recall, gap closed, churn, priced cost, time, violations.

They measure availability: whether what the agent used next was still in its context. They do not
measure success at the task; an agent that misses something will often read it again, so a miss is
a cost.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import msgspec

from marksweep.core.plan import Prices
from marksweep.replay.drive import StepResult

RESAMPLES = 1000
"""Bootstrap samples of trajectories behind an interval."""
MAX_FAILURES = 5
"""Different failures of a collector that are reported."""
NO_ROOM = 3.0
"""Points between the bounds below which a gap cannot be separated from noise."""


class Outcome(msgspec.Struct, frozen=True):
    """How a collector did on one trajectory."""

    trajectory: str
    steps: tuple[StepResult, ...]


class Times(msgspec.Struct, frozen=True):
    """Milliseconds per step."""

    mean: float
    p95: float
    max: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How a collector did on a set. Recall in percent, churn in tokens per step."""

    recall: float
    """Need recall: the mean of any and src."""
    recall_any: float
    recall_src: float
    need_steps: int
    churn: float
    cost: float
    """Priced cost against no collection; above 1 collecting costs money."""
    fresh: int
    """Tokens that were read uncached."""
    cached: int
    """Tokens that the prompt cache held."""
    fresh_uncollected: int
    """The same if nothing were ever dropped."""
    cached_uncollected: int
    rewrites: float
    """Percent of the requests after the limit was reached that rewrite the prompt's prefix."""
    violations: dict[str, int]
    """Steps that broke a rule and scored 0, by the name of the rule."""
    failures: tuple[str, ...] = ()
    """The first breach of each kind, with the transcript and step, as text."""
    times: Times | None = None

    def priced(self, prices: Prices) -> float:
        """Price of all requests; what is not cached is written to the cache."""
        return prices.write * self.fresh + prices.cached * self.cached


class Gap(msgspec.Struct, frozen=True):
    """Percent of the way from truncation to the clairvoyant, with its 95 % interval."""

    percent: float | None
    """None: the bounds are too close together, there is no room."""
    low: float = 0.0
    high: float = 0.0


def figures(outcomes: Sequence[Outcome]) -> Figures:
    """Pool the steps of a set."""
    steps = [step for outcome in outcomes for step in outcome.steps]
    any_ = [step.any for step in steps if step.any is not None]
    src = [step.src for step in steps if step.src is not None]
    times = sorted(1000 * step.seconds for step in steps)
    broken = Counter(step.violation.value for step in steps if step.violation)
    slowest = (times[int(0.95 * (len(times) - 1))], times[-1]) if times else (0.0, 0.0)
    return Figures(
        recall=50 * (_mean(any_) + _mean(src)),
        recall_any=100 * _mean(any_),
        recall_src=100 * _mean(src),
        need_steps=len(any_),
        churn=_mean([float(step.churn) for step in steps]),
        cost=sum(s.cost for s in steps) / max(1.0, sum(s.cost_uncollected for s in steps)),
        fresh=sum(step.fresh for step in steps),
        cached=sum(step.cached for step in steps),
        fresh_uncollected=sum(step.fresh_uncollected for step in steps),
        cached_uncollected=sum(step.cached_uncollected for step in steps),
        rewrites=100 * _mean([float(s.rewrites) for s in steps if s.rewrites is not None]),
        violations=dict(sorted(broken.items())),
        failures=_failures(outcomes),
        times=Times(*(round(each, 2) for each in (_mean(times), *slowest))),
    )


def _failures(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """The first breach of each kind: where it was, and what the collector said."""
    first: dict[str, str] = {}
    for outcome in outcomes:
        for number, step in enumerate(outcome.steps, 1):
            if step.violation:
                what = step.said or step.violation.value
                first.setdefault(what, f"{outcome.trajectory}, step {number}: {what}")
    return tuple(list(first.values())[:MAX_FAILURES])


def gap(outcomes: Sequence[Outcome], floor: Sequence[Outcome], ceiling: Sequence[Outcome]) -> Gap:
    """How much of the room between two bounds was closed, resampled over trajectories."""
    sums = [[_sums(o) for o in row] for row in (outcomes, floor, ceiling)]
    whole = range(len(outcomes))
    percent = _closed(sums, whole)
    if percent is None:
        return Gap(None)
    draw = random.Random(0)  # noqa: S311 - repeatable on purpose
    samples = []
    for _ in range(RESAMPLES):
        share = _closed(sums, draw.choices(whole, k=len(whole)), room=0.0)
        if share is not None:
            samples.append(share)
    samples.sort()
    last = len(samples) - 1
    return Gap(percent, samples[int(0.025 * last)], samples[int(0.975 * last)])


_Sums = tuple[float, int, float, int]


def _sums(outcome: Outcome) -> _Sums:
    any_ = [step.any for step in outcome.steps if step.any is not None]
    src = [step.src for step in outcome.steps if step.src is not None]
    return sum(any_), len(any_), sum(src), len(src)


def _closed(sums: list[list[_Sums]], chosen: Sequence[int], room: float = NO_ROOM) -> float | None:
    got, low, high = (_nr([row[i] for i in chosen]) for row in sums)
    return 100 * (got - low) / (high - low) if high - low >= room and high > low else None


def _nr(rows: list[_Sums]) -> float:
    any_, n_any, src, n_src = map(sum, zip(*rows, strict=True))
    return 50 * (any_ / n_any if n_any else 0.0) + 50 * (src / n_src if n_src else 0.0)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
