"""Mask: bulky results become one line each, the oldest first. Calls and talk stay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
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


class _Masked(msgspec.Struct, frozen=True, gc=False):
    """A message with its bulky results masked."""

    source: Segment
    shorter: Segment
    reason: str


class Mask:
    """Rank messages with bulky results by age."""

    def __init__(
        self, outcomes: Outcomes, trimmed: Trimmed, *, bulky: int = BULKY, spare: int = SPARED
    ) -> None:
        self._outcomes = outcomes
        self._trimmed = trimmed
        self._bulky = bulky
        self._spare = spare
        self._ready: dict[str, _Masked] = {}
        """What was masked when it arrived, by id."""

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "mask"

    def arrive(self, segments: Iterable[Segment]) -> None:
        """Mask new messages beforehand, so that a collection need not wait for it."""
        for segment in segments:
            masked = self._masked(segment, self._outcomes(segment))
            if masked is not None:
                self._ready[segment.segment_id] = masked

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose to mask the bulky results of each message, oldest first."""
        outcomes_of, segments = self._outcomes, context.segments
        outcomes = [outcomes_of(segment) for segment in segments]
        carrying = [i for i, each in enumerate(outcomes) if each]
        if len(self._ready) > len(carrying):
            self._keep_only({segments[i].segment_id for i in carrying})
        for i in carrying[: len(carrying) - self._spare]:
            if not context.may_go((i,)):
                continue
            segment = segments[i]
            masked = self._ready.get(segment.segment_id)
            if masked is None or masked.source is not segment:
                self._ready.pop(segment.segment_id, None)  # It holds the whole text.
                masked = self._masked(segment, outcomes[i])
            if masked is not None:
                yield Proposal((i,), Action.MASK, masked.reason, masked.shorter)

    def _masked(self, segment: Segment, outcomes: Iterable[Outcome]) -> _Masked | None:
        bulky = [outcome for outcome in outcomes if len(outcome.text) >= self._bulky]
        shorter = self._trimmed(segment, notes(segment, bulky, "stashed")) if bulky else None
        if shorter is None:
            return None
        names = ", ".join(dict.fromkeys([outcome.name or "a tool" for outcome in bulky]))
        reason = f"masked: old output of {names}, {segment.tokens} tokens"
        return _Masked(segment, shorter, reason)

    def _keep_only(self, names: Collection[str]) -> None:
        """Forget messages that have left."""
        self._ready = {name: each for name, each in self._ready.items() if name in names}


def notes(segment: Segment, outcomes: Sequence[Outcome], why: str) -> dict[Place, str]:
    """Say of each result what stood in its place."""
    return {(outcome.part, ()): note(segment, outcome, why) for outcome in outcomes}


def note(segment: Segment, outcome: Outcome, why: str) -> str:
    """Say in one line what stood here, and how to get it back."""
    return f"[{why}: {outcome.said}, {len(outcome.text)} characters; id {segment.segment_id}]"
