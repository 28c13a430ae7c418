"""What must stay in a conversation, beside what is pinned or locked."""

from __future__ import annotations

from collections.abc import Sequence

from marksweep.core.roots import Focus, Rule, locked, pinned
from marksweep.model import Segment


def conversation_rules(
    segments: Sequence[Segment], last_answer: int, recent_turns: int
) -> tuple[Rule, ...]:
    """Make the root rules for messages in order.

    The model's last message, at position `last_answer`, and all that follows it belong to the next
    request. Where the model never spoke (position 0), that is the last message alone.
    """
    unanswered = last_answer or (segments[-1].position if segments else 0)
    turns = list(dict.fromkeys(s.topic_id for s in segments if s.topic_id is not None))
    recent = frozenset(turns[-recent_turns:]) if recent_turns else frozenset()

    def not_answered(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
        return "the model has not answered it yet" if segment.position >= unanswered else None

    def recent_turn(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
        return f"in one of the last {len(recent)} turns" if segment.topic_id in recent else None

    return (pinned, locked, not_answered, recent_turn)
