"""Unreachable: results that nothing in use refers to become one line each.

A result holds names: paths, identifiers, numbers, its own and those of its call. What is said or
asked for afterwards names some of them again, and so refers to the latest result that holds the
name. References are followed from what was said and from the latest results; a call counts only if
its own result is reached, so a search that led nowhere goes with all that only it had used.

All of it is equally worthless, so the newest goes first: a cut near the end keeps the prompt cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from marksweep.core.atoms import names_in
from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.model import Action, Segment
from marksweep.strategies.coverage_held import Texts
from marksweep.strategies.mask import BULKY, SPARED, Masked, Outcomes, note

WHY = "unreachable: nothing in use refers to it"


class Unreachable:
    """Rank bulky results that nothing in use refers to, the newest first."""

    def __init__(self, outcomes: Outcomes, texts: Texts, masked: Masked) -> None:
        self._outcomes = outcomes
        self._texts = texts
        self._masked = masked

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "unreachable"

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose to mask what is not reached."""
        reached = self._reached(scene)
        for i in range(len(scene.segments) - 1, -1, -1):
            segment = scene.segments[i]
            if reached[i] or not scene.may_go((i,)):
                continue
            bulky = [o for o in self._outcomes(segment) if len(o.text) >= BULKY]
            if not bulky:
                continue
            shorter = self._masked(segment, {o.part: note(segment, o, WHY) for o in bulky})
            if shorter is not None:
                yield Proposal((i,), Action.MASK, WHY, shorter)

    def _reached(self, scene: Scene) -> bytearray:
        """Mark what is in use. References lead back only, so one pass from the end suffices."""
        references = self._references(scene)
        carrying = [i for i, segment in enumerate(scene.segments) if self._outcomes(segment)]
        tied = {mate for i in carrying for mate in scene.units.members(i)}
        reached = bytearray(i not in tied for i in range(len(scene.segments)))
        said = (each.said for each in references)
        for i in chain(carrying[len(carrying) - SPARED :], scene.roots, *said):
            reached[i] = True
        for i in range(len(scene.segments) - 1, -1, -1):
            if reached[i]:
                for mate in (*scene.units.members(i), *references[i].asked):
                    reached[mate] = True
        return reached

    def _references(self, scene: Scene) -> list[_References]:
        """Find, for each message, the results whose names it uses."""
        used = [self._used(segment) for segment in scene.segments]
        ever = frozenset[str]().union(*chain.from_iterable(used))
        holders: dict[str, int] = {}
        references = []
        for i, segment in enumerate(scene.segments):
            said, asked = ({holders[name] for name in names & holders.keys()} for names in used[i])
            references.append(_References(said, asked))
            for outcome in self._outcomes(segment):
                held = names_in(outcome.text) | names_in(str(outcome.args))
                holders.update(dict.fromkeys(held & ever, i))
        return references

    def _used(self, segment: Segment) -> tuple[set[str], set[str]]:
        """Find the names in a message's words, and in its calls; results do not count."""
        results = {outcome.part for outcome in self._outcomes(segment)}
        said: set[str] = set()
        asked: set[str] = set()
        for text in self._texts(segment):
            if text.place[0] not in results:
                (asked if text.is_call else said).update(names_in(text.words))
        return said, asked


class _References(NamedTuple):
    """The results that a message refers to, by index."""

    said: set[int]
    """In its words: these stay, so what they name is in use."""
    asked: set[int]
    """In its calls: these count if what came of them is in use."""
