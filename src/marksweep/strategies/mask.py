"""Mask: bulky results become one line each, the oldest first. Calls and talk stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.messages import Outcome, Place
from marksweep.model import Action, Segment

Outcomes = Callable[[Segment], Sequence[Outcome]]
"""Give the results that a message carries."""

Trimmed = Callable[[Segment, Mapping[Place, str]], Segment | None]
"""Put shorter texts in their places; None if that does not make the message shorter."""

BULKY = 400
"""Characters from which a result is worth masking. Lower masks more, and frees less each."""

SPARED = 3
"""How many of the latest messages with results are left alone. More keeps more at hand."""


class Mask:
    """Rank messages with bulky results by age."""

    def __init__(
        self, outcomes: Outcomes, trimmed: Trimmed, *, bulky: int = BULKY, spare: int = SPARED
    ) -> None:
        self._outcomes = outcomes
        self._trimmed = trimmed
        self._bulky = bulky
        self._spare = spare

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "mask"

    def arrive(self, segments: Iterable[Segment]) -> None:
        """Have new messages masked beforehand, so that a collection need not wait for it."""
        for segment in segments:
            bulky = self._bulky_of(self._outcomes(segment))
            if bulky:
                self._masked(segment, bulky)

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose to mask the bulky results of each message, oldest first."""
        outcomes_of = self._outcomes
        outcomes = [outcomes_of(segment) for segment in scene.segments]
        carrying = [i for i, each in enumerate(outcomes) if each]
        for i in carrying[: len(carrying) - self._spare]:
            bulky = self._bulky_of(outcomes[i])
            if not (bulky and scene.may_go((i,))):
                continue
            segment = scene.segments[i]
            shorter = self._masked(segment, bulky)
            if shorter is not None:
                reason = f"masked: old output of {_tools(bulky)}, {segment.tokens} tokens"
                yield Proposal((i,), Action.MASK, reason, shorter)

    def _bulky_of(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        return [outcome for outcome in outcomes if len(outcome.text) >= self._bulky]

    def _masked(self, segment: Segment, bulky: Sequence[Outcome]) -> Segment | None:
        return self._trimmed(segment, notes(segment, bulky, "stashed"))


def _tools(outcomes: Sequence[Outcome]) -> str:
    """Name the tools, each once; mostly it is one."""
    if len(outcomes) == 1:
        return outcomes[0].name or "a tool"
    return ", ".join(dict.fromkeys([outcome.name or "a tool" for outcome in outcomes]))


def notes(segment: Segment, outcomes: Sequence[Outcome], why: str) -> dict[Place, str]:
    """Say of each result what stood in its place."""
    return {(outcome.part, ()): note(segment, outcome, why) for outcome in outcomes}


def note(segment: Segment, outcome: Outcome, why: str) -> str:
    """Say in one line what stood here, and how to get it back."""
    return f"[{why}: {outcome.said}, {len(outcome.text)} characters; id {segment.segment_id}]"
