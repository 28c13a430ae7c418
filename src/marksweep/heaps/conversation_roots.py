"""What must stay in a conversation, beside what is pinned or locked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marksweep.core.roots import Focus, Rule, locked, pinned
from marksweep.model import Segment


class Unanswered(NamedTuple):
    """What still waits: for the model, or for a tool."""

    start: int
    """Position of what the model said last; 0: it never spoke."""
    calls: frozenset[int]
    """Positions of messages whose calls have no result yet."""


def conversation_rules(
    segments: Sequence[Segment], unanswered: Unanswered, recent_turns: int
) -> tuple[Rule, ...]:
    """Make the root rules for messages in order.

    What the model said last and all that follows belong to the next request. Where the model never
    spoke, that is the last message alone. A call that waits for its result stays: the result would
    come to nothing.
    """
    start = unanswered.start or (segments[-1].position if segments else 0)
    turns = list(dict.fromkeys(s.topic_id for s in segments if s.topic_id is not None))
    recent = frozenset(turns[-recent_turns:]) if recent_turns else frozenset()

    def not_answered(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
        return "the model has not answered it yet" if segment.position >= start else None

    def waiting_call(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
        return "its call waits for a result" if segment.position in unanswered.calls else None

    def recent_turn(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
        return f"in one of the last {len(recent)} turns" if segment.topic_id in recent else None

    return (pinned, locked, not_answered, waiting_call, recent_turn)
