"""Scored: unreachable first, then related, then reached; within each, the highest score first.

Reached segments that are long and cold but worth having are compressed before any reached segment
is stashed, if a way to shorten text is given.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import lru_cache

from marksweep.core.context import PlanningContext
from marksweep.core.mark import Mark
from marksweep.core.score import (
    Scorer,
    age_hours,
    age_in_words,
    minutes_in_words,
    references_in_words,
    rounded_minutes,
    seed_age,
)
from marksweep.core.strategy import Proposal
from marksweep.model import Action, Link, Segment

Shorten = Callable[[Segment], Segment | None]
"""Make a shorter segment that replaces one, or None if it cannot be shortened."""

COLD_HOURS = 2.0
"""Hours untouched after which a reached segment is cold. Lower compresses sooner."""

VERBOSE_TOKENS = 400
"""Tokens from which a segment is worth compressing. Lower compresses more, and frees less each."""

DELETE_AFTER_HOURS = 24.0 * 7
"""Age at which a log or note that nothing refers to may be deleted, where deletion is allowed."""

DISPOSABLE_TYPES = frozenset({"log", "note"})


class Disposal(StrEnum):
    """Where swept segments go."""

    STASH = "stash"
    """All to the stash."""
    AUTO = "auto"
    """To the stash, but old logs and notes that nothing refers to are deleted."""
    DELETE = "delete"
    """All deleted, as requested."""


@dataclass(frozen=True)
class Scored:
    """Rank by reachability, then by a scorer."""

    name = "scored"

    scorer: Scorer = seed_age
    _: KW_ONLY
    disposal: Disposal = Disposal.STASH
    shorten: Shorten | None = None
    delete_after_hours: float = DELETE_AFTER_HOURS
    cold_hours: float = COLD_HOURS
    verbose_tokens: int = VERBOSE_TOKENS

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose garbage, then related, then reached segments."""
        for mark in (Mark.GARBAGE, Mark.RELATED, Mark.REACHED):
            ranked, scores, ages = self.ranked(context, mark)
            if mark is Mark.REACHED and self.shorten is not None:
                yield from self._compressions(context, ranked, self.shorten)
            for i in ranked:
                reason = reason_to_go(context.segments[i], ages[i], mark, scores[i])
                yield Proposal((i,), self.action(context, i), reason)

    def ranked(
        self, context: PlanningContext, wanted: Mark
    ) -> tuple[list[int], array[float], array[float]]:
        """Return the units of one mark that may go, by their first member, highest score first.

        With them come arrays that hold the score and the age in hours of each at its index: reading
        them in heap order is faster than in the order of scores. A unit is
        worth as much as its best member, so the lowest score counts.
        """
        segments, marks, now, scorer = context.segments, context.marks, context.now, self.scorer
        members_of, may_go, level = context.units.members, context.may_go, int(wanted)
        scores = array("d", bytes(8 * len(segments)))
        ages = array("f", bytes(4 * len(segments)))
        found = []
        for i in context.units.firsts():
            if marks[i] == level:
                members = members_of(i)
                if may_go(members):
                    found.append(i)
                    ages[i] = age_hours(segments[i], now)
                    scores[i] = scorer(segments[i], now)
                    if len(members) > 1:
                        scores[i] = min(scorer(segments[mate], now) for mate in members)
        # A sort keeps the order of equals: of equal scores the newest goes, for the prompt cache.
        found.reverse()
        found.sort(key=scores.__getitem__, reverse=True)
        return found, scores, ages

    def cold_but_important(self, context: PlanningContext) -> Iterator[tuple[Segment, str]]:
        """Yield what is worth shortening, with the reason, the highest score first."""
        ranked, _, _ = self.ranked(context, Mark.REACHED)
        return ((context.segments[i], reason) for i, reason in self._cold(context, ranked))

    def _cold(self, context: PlanningContext, ranked: list[int]) -> Iterator[tuple[int, str]]:
        for i in ranked:
            segment = context.segments[i]
            if len(context.units.members(i)) > 1 or not self._is_cold_but_important(
                segment, context
            ):
                continue
            age = age_in_words(age_hours(segment, context.now))
            yield (
                i,
                f"cold but important: reached from a root, {segment.tokens} tokens, "
                f"untouched for {age}",
            )

    def _compressions(
        self, context: PlanningContext, ranked: list[int], shorten: Shorten
    ) -> Iterator[Proposal]:
        for i, reason in self._cold(context, ranked):
            shorter = shorten(context.segments[i])
            if shorter is not None:
                yield Proposal((i,), Action.COMPRESS, reason, shorter)

    def _is_cold_but_important(self, segment: Segment, context: PlanningContext) -> bool:
        """Return whether a reached segment is long, untouched, and not already shortened."""
        return (
            segment.tokens >= self.verbose_tokens
            and age_hours(segment, context.now) >= self.cold_hours
            and not any(reference.link == Link.DERIVED for reference in segment.references)
        )

    def action(self, context: PlanningContext, i: int) -> Action:
        """Return how the unit of a segment goes. It is deleted only if every member may be."""
        if self.disposal == Disposal.DELETE:
            return Action.DELETE
        if self.disposal == Disposal.STASH:
            return Action.STASH
        unit = [context.segments[mate] for mate in context.units.members(i)]
        disposable = all(
            may_be_deleted(
                segment.type,
                segment.refcount,
                age_hours(segment, context.now),
                self.delete_after_hours,
            )
            for segment in unit
        )
        return Action.DELETE if disposable else Action.STASH


def may_be_deleted(
    kind: str, refcount: int, age: float, delete_after_hours: float = DELETE_AFTER_HOURS
) -> bool:
    """Return whether a segment may be deleted rather than stashed, where deletion is allowed."""
    return kind in DISPOSABLE_TYPES and refcount == 0 and age > delete_after_hours


_HELD = {
    Mark.GARBAGE: "unreachable",
    Mark.RELATED: "unreachable, only related to what is in use",
    Mark.REACHED: "in reach, but of low value",
}


def reason_to_go(segment: Segment, age: float, mark: Mark, score: float) -> str:
    """Return why a segment ranks where it does."""
    return _said(mark, segment.type, rounded_minutes(age), segment.refcount, round(score, 2))


@lru_cache(maxsize=10_000)
def _said(mark: Mark, kind: str, minutes: int, refcount: int, score: float) -> str:
    """Return a reason; equal reasons share one string, since a large heap has many."""
    return (
        f"{_HELD[mark]}: {kind}, untouched for {minutes_in_words(minutes)}, "
        f"{references_in_words(refcount)}, score {score:.2f}"
    )
