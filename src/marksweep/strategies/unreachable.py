"""Unreachable: results that nothing in use refers to become one line each.

A result holds names: paths, identifiers, numbers, its own and those of its call. What is said or
asked for afterwards names some of them again, and so refers to the latest result that holds the
name. References are followed from what was said and from the latest results; a call counts only if
its own result is reached, so a search that led nowhere goes with all that only it had used.

All of it is equally worthless, so the newest goes first: a cut near the end keeps the prompt cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.messages import Outcome
from marksweep.model import Action
from marksweep.strategies.coverage import Texts
from marksweep.strategies.coverage.text import maybe_names_in, names_in
from marksweep.strategies.mask import BULKY_CHARS, SPARED_MESSAGES, Outcomes, Trimmed, masked

WHY = "unreachable: nothing in use refers to it"


class Unreachable:
    """Rank bulky results that nothing in use refers to, the newest first."""

    name = "unreachable"

    def __init__(self, outcomes: Outcomes, texts: Texts, trimmed: Trimmed) -> None:
        self._outcomes = outcomes
        self._texts = texts
        self._trimmed = trimmed

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose to mask what is not reached."""
        outcomes = [self._outcomes(segment) for segment in context.segments]
        reached = self._reached(context, outcomes)
        for i in range(len(context.segments) - 1, -1, -1):
            if reached[i] or not context.may_go((i,)):
                continue
            bulky = [outcome for outcome in outcomes[i] if len(outcome.text) >= BULKY_CHARS]
            if not bulky:
                continue
            segment = context.segments[i]
            shorter = self._trimmed(segment, masked(bulky, WHY))
            if shorter is not None:
                yield Proposal((i,), Action.MASK, WHY, shorter)

    def _reached(
        self, context: PlanningContext, outcomes: Sequence[Sequence[Outcome]]
    ) -> bytearray:
        """Mark what is in use. References lead back only, so one pass from the end suffices."""
        references = self._references(context, outcomes)
        carrying = [i for i, each in enumerate(outcomes) if each]
        reached = bytearray(b"\1") * len(outcomes)
        for i in carrying:
            for mate in context.units.members(i):
                reached[mate] = False
        for i in chain(carrying[-SPARED_MESSAGES:], context.roots, references.said):
            reached[i] = True
        for i in range(len(outcomes) - 1, -1, -1):
            if reached[i]:
                for mate in (*context.units.members(i), *references.asked.get(i, ())):
                    reached[mate] = True
        return reached

    def _references(
        self, context: PlanningContext, outcomes: Sequence[Sequence[Outcome]]
    ) -> _References:
        """Find the results whose names are used later."""
        said, asked = self._used(context, outcomes)
        ever = set().union(*said.values(), *asked.values())
        found = _References(set(), {})
        holders: dict[str, int] = {}
        for i, each in enumerate(outcomes):
            found.said.update([holders[name] for name in said.get(i, ()) if name in holders])
            if i in asked:
                found.asked[i] = {holders[name] for name in asked[i] if name in holders}
            for outcome in each:
                held = maybe_names_in(f"{outcome.text}\n{outcome.args}")
                holders.update(dict.fromkeys(held & ever, i))
        return found

    def _used(
        self, context: PlanningContext, outcomes: Sequence[Sequence[Outcome]]
    ) -> tuple[dict[int, set[str]], dict[int, set[str]]]:
        """Find the names in the words of messages, and in their calls; results do not count."""
        said: dict[int, set[str]] = {}
        asked: dict[int, set[str]] = {}
        for i, segment in enumerate(context.segments):
            if len(outcomes[i]) == 1 and outcomes[i][0].text == segment.text:
                continue
            results = [outcome.part for outcome in outcomes[i]]
            for text in self._texts(segment):
                if text.place[0] not in results and (names := names_in(text.words)):
                    (asked if text.is_call else said).setdefault(i, set()).update(names)
        return said, asked


class _References(NamedTuple):
    """The results that messages refer to, by index."""

    said: set[int]
    """In their words: these stay, so what they name is in use."""
    asked: dict[int, set[int]]
    """In the calls of each: these count if what came of them is in use."""
