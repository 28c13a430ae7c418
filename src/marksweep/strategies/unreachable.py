"""Unreachable: results that nothing in use refers to become one line each.

A result holds names: paths, identifiers, numbers, its own and those of its call. What is said or
asked for afterwards names some of them again, and so refers to the latest result that holds the
name. References are followed from what was said and from the latest results; a call counts only if
its own result is reached, so a search that led nowhere goes with all that only it had used.

All of it is equally worthless, so the newest goes first: a cut near the end keeps the prompt cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.messages import Outcome
from marksweep.model import Action, Segment
from marksweep.strategies.coverage.text import maybe_names_in, names_in
from marksweep.strategies.mask import (
    BULKY_CHARS,
    SPARED_MESSAGES,
    Outcomes,
    Texts,
    Trimmed,
    masked,
)

WHY = "unreachable: nothing in use refers to it"


@dataclass(frozen=True)
class Unreachable:
    """Rank bulky results that nothing in use refers to, the newest first."""

    name = "unreachable"

    outcomes: Outcomes
    texts: Texts
    trimmed: Trimmed

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose to mask what is not reached.

        References lead back only, so one pass from the end is enough: `wanted` are the names that
        what is in use refers to, up to the latest result that holds them.
        """
        reached = bytearray(len(context.segments))
        for root in context.roots:
            _reach(reached, context.units.members(root))
        wanted: set[str] = set()
        spared = SPARED_MESSAGES
        for i in range(len(context.segments) - 1, -1, -1):
            segment, members = context.segments[i], context.units.members(i)
            outcomes = self.outcomes(segment)
            if outcomes:
                held = _held(outcomes, wanted)
                if held or spared:
                    _reach(reached, members)
                wanted -= held
                spared = max(0, spared - 1)
            said, asked = self._used(segment, outcomes)
            wanted |= said
            if asked and (reached[i] or not self._has_results(context, members)):
                wanted |= asked
            if i == members[0] and not reached[i]:
                yield from self._masked(context, members)

    def _masked(self, context: PlanningContext, members: tuple[int, ...]) -> Iterator[Proposal]:
        """Propose to mask the bulky results of a unit."""
        for i in reversed(members):
            segment = context.segments[i]
            bulky = [o for o in self.outcomes(segment) if o.is_bulky(BULKY_CHARS)]
            if bulky and context.may_go((i,)):
                shorter = self.trimmed(segment, masked(bulky, WHY))
                if shorter is not None:
                    yield Proposal((i,), Action.MASK, WHY, shorter)

    def _has_results(self, context: PlanningContext, members: tuple[int, ...]) -> bool:
        return any(self.outcomes(context.segments[i]) for i in members)

    def _used(self, segment: Segment, outcomes: Sequence[Outcome]) -> tuple[set[str], set[str]]:
        """Find the names in the words of a message, and in its calls; results do not count."""
        said: set[str] = set()
        asked: set[str] = set()
        if len(outcomes) == 1 and outcomes[0].text == segment.text:
            return said, asked
        results = [outcome.part for outcome in outcomes]
        for text in self.texts(segment):
            if text.part not in results:
                (asked if text.is_call else said).update(names_in(text.words))
        return said, asked


def _reach(reached: bytearray, members: tuple[int, ...]) -> None:
    """Mark a unit as in use."""
    for i in members:
        reached[i] = True


def _held(outcomes: Sequence[Outcome], wanted: set[str]) -> set[str]:
    """Find the wanted names in results and their calls."""
    held: set[str] = set()
    for outcome in outcomes:
        held |= wanted & maybe_names_in(f"{outcome.text}\n{outcome.args}")
    return held
