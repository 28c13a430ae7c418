"""What must stay in a conversation, beside what is pinned or locked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marksweep.core.roots import Focus, Rule, locked, pinned
from marksweep.model import Segment


class Unanswered(NamedTuple):
    """What still waits, and what that needs."""

    start: int
    """Position of what the model said last; 0: it never spoke."""
    held: frozenset[int]
    """Positions of messages that it needs: calls without a result yet, for one."""


def conversation_rules(
    segments: Sequence[Segment], unanswered: Unanswered, recent_turns: int
) -> tuple[Rule, ...]:
    """Make the root rules for messages in order.

    What the model said last and all that follows belong to the next request. Where the model never
    spoke, that is the last message alone. A call that waits for its result stays, since the result
    would come to nothing, and so does what else the provider wants for it.
    """
    start = unanswered.start or (segments[-1].position if segments else 0)
    turns = list(dict.fromkeys(s.topic_id for s in segments if s.topic_id is not None))
    recent = frozenset(turns[-recent_turns:]) if recent_turns else frozenset()

    def not_answered(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
        return "the model has not answered it yet" if segment.position >= start else None

    def needed(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
        return "what is going on needs it" if segment.position in unanswered.held else None

    def recent_turn(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
        return f"in one of the last {len(recent)} turns" if segment.topic_id in recent else None

    return (pinned, locked, not_answered, needed, recent_turn)
