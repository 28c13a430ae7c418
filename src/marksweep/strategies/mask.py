"""Mask: bulky results become one line each, the oldest first. Calls and messages stay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.messages import Outcome, Text
from marksweep.model import Action, Segment
from marksweep.sections import Sections, left_out

Outcomes = Callable[[Segment], Sequence[Outcome]]
"""Return the results in a message."""

Texts = Callable[[Segment], Sequence[Text]]
"""Return the texts of a message."""

Trimmed = Callable[[Segment, Mapping[int, Sections]], Segment | None]
"""Keep only these sections of some texts; None if the message does not get shorter."""

BULKY_CHARS = 400
"""Characters from which a result is worth masking. Lower masks more, and frees less each."""

SPARED_MESSAGES = 3
"""How many of the latest messages with results are left alone. More keeps more results readable."""


@dataclass(frozen=True)
class Mask:
    """Rank messages with bulky results by age."""

    name = "mask"

    outcomes: Outcomes
    trimmed: Trimmed
    _: KW_ONLY
    bulky: int = BULKY_CHARS
    spare: int = SPARED_MESSAGES

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose to mask the bulky results of each message, oldest first."""
        for i, outcomes in self._carrying(context):
            bulky = [outcome for outcome in outcomes if outcome.is_bulky(self.bulky)]
            if not bulky or not context.may_go((i,)):
                continue
            segment = context.segments[i]
            shorter = self.trimmed(segment, masked(bulky))
            if shorter is not None:
                names = ", ".join(dict.fromkeys([outcome.name or "a tool" for outcome in bulky]))
                reason = f"masked: old output of {names}, {segment.tokens} tokens"
                yield Proposal((i,), Action.MASK, reason, shorter)

    def _carrying(self, context: PlanningContext) -> Iterator[tuple[int, Sequence[Outcome]]]:
        """Find the messages with results, except the latest. Reads no more than requested."""
        spared: deque[tuple[int, Sequence[Outcome]]] = deque()
        for i, segment in enumerate(context.segments):
            if outcomes := self.outcomes(segment):
                spared.append((i, outcomes))
                if len(spared) > self.spare:
                    yield spared.popleft()


def masked(outcomes: Sequence[Outcome], why: str = "") -> dict[int, Sections]:
    """Leave out these results of a message completely."""
    return {o.part: left_out(o.text, why, o.media) for o in outcomes}
