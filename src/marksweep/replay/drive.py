"""Drive a collector through a trajectory, as an agent would, and record each step.

The collector sees past messages only. Before each step it is given what is new, and asked for
the context of the next request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from marksweep.errors import MarksweepError
from marksweep.replay.guards import LookaheadGuard, Violation, check
from marksweep.replay.hits import Reader, StepProofs
from marksweep.replay.needs import Study
from marksweep.replay.records import Count, Wire, calls_of, content_of, price

CACHED_PRICE = 0.1
"""Price of a token that the prompt cache holds; one that it does not hold costs 1."""


class Collector(Protocol):
    """Anything that can be scored: dropping, stubs, trimming, summaries, paging back in."""

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run with the messages that must stay and the budget in tokens."""

    def add(self, messages: list[Wire]) -> None:
        """Take the new messages since the last call."""

    def context(self) -> list[Wire]:
        """The full context for the next request."""


class StepResult(msgspec.Struct, frozen=True, gc=False):
    """How one step went."""

    any: float | None
    """Share of its needs that were there; None if it has none, or is left out."""
    src: float | None
    churn: int
    """Old tokens that had to be read again."""
    fresh: int
    """Tokens of the request that the prompt cache does not hold."""
    cached: int
    """Tokens of the request that it holds: the prefix shared with the request before."""
    fresh_uncollected: int
    """What `fresh` would be if nothing were ever dropped."""
    cached_uncollected: int
    seconds: float
    rewrites: bool | None = None
    """Whether the request before is not a prefix of this one; None before the limit is reached."""
    violation: Violation | None = None
    said: str = ""
    """What the collector said when it failed."""

    @property
    def cost(self) -> float:
        """Price of the request, in uncached tokens."""
        return self.fresh + CACHED_PRICE * self.cached

    @property
    def cost_uncollected(self) -> float:
        """The same if nothing were ever dropped."""
        return self.fresh_uncollected + CACHED_PRICE * self.cached_uncollected


class Pricer:
    """Tokens of messages, each distinct message counted once."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._known: dict[object, int] = {}

    def __call__(self, message: Wire) -> int:
        """Tokens of one message."""
        key = (content_of(message), *calls_of(message))
        if key not in self._known:
            self._known[key] = price(message, self._count)
        return self._known[key]


def limit_of(prices: Sequence[int], pinned: int, percent: float) -> int:
    """Tokens allowed at a budget in percent: the prefix, and that share of everything else."""
    return sum(prices[:pinned]) + int(percent / 100 * sum(prices[pinned:]))


def drive(
    found: Study,
    needed: tuple[StepProofs, ...],
    collector: Collector,
    limit: int,
    *,
    tokens: Pricer,
    reader: Reader,
) -> list[StepResult]:
    """Run a collector over a trajectory and score every step."""
    messages = list(found.trajectory.messages)
    pinned = messages[: found.trajectory.pinned]
    pinned_tokens = sum(map(tokens, pinned))
    guard = LookaheadGuard(messages, reader)
    broken = _failure(lambda: collector.start([*pinned], limit))
    before: list[Wire] = []
    seen = 0
    results: list[StepResult] = []
    for step, proof in zip(found.steps, needed, strict=True):
        tail = messages[step.tail : step.at]
        tail_tokens = sum(map(tokens, tail))
        seen += tail_tokens
        began = time.perf_counter()
        context, said = ([], broken) if broken else _ask(collector, tail)
        seconds = time.perf_counter() - began
        violation = Violation.ERROR if said else check(context, pinned, tail)
        if violation in (Violation.MALFORMED, Violation.ERROR):
            context = []
        fits = pinned_tokens + tail_tokens <= limit
        size = sum(map(tokens, context))
        if violation is None and size > max(limit, pinned_tokens + tail_tokens):
            violation = Violation.BUDGET
        guard.advance(step.at)
        if violation is None and guard.is_in(context):
            violation = Violation.PEEKED
        count, shared = _shared(before, context, tokens)
        scored = fits and violation is None
        shown = reader.read(context[len(pinned) :]) if scored and proof.any else None
        results.append(
            StepResult(
                any=_score(shown.recall(proof.any) if shown else None, fits and bool(proof.any)),
                src=_score(shown.recall(proof.src) if shown else None, fits and bool(proof.src)),
                churn=max(0, size - shared - tail_tokens) if results else 0,
                fresh=size - shared,
                cached=shared,
                fresh_uncollected=tail_tokens if results else pinned_tokens + tail_tokens,
                cached_uncollected=pinned_tokens + seen - tail_tokens if results else 0,
                seconds=seconds,
                rewrites=count < len(before) if pinned_tokens + seen > limit else None,
                violation=violation,
                said=said,
            )
        )
        before = context
    return results


def _score(recall: float | None, counts: bool) -> float | None:
    """A step that needs something and showed nothing scores 0."""
    return (recall or 0.0) if counts else None


def _ask(collector: Collector, tail: list[Wire]) -> tuple[list[Wire], str]:
    """The context for the next request, or what went wrong."""
    given: list[list[Wire]] = []

    def ask() -> None:
        collector.add([*tail])
        given.append(collector.context())

    said = _failure(ask)
    return (given[0] if given else []), said


def _failure(call: Callable[[], None]) -> str:
    """What a call raised, as text; empty if it did not."""
    try:
        call()
    except MarksweepError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - whatever a collector raises is its own failure
        return f"{type(error).__name__}: {error}"
    return ""


def _shared(before: list[Wire], context: list[Wire], tokens: Pricer) -> tuple[int, int]:
    """Messages of the longest common prefix, and their tokens."""
    count = shared = 0
    for old, new in zip(before, context, strict=False):
        if old is not new and old != new:
            break
        count += 1
        shared += tokens(new)
    return count, shared
