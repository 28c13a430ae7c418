"""What must stay in a conversation, beside what is pinned or locked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from marksweep.core.roots import Focus, locked, pinned
from marksweep.model import GCPolicy, Segment


class Unanswered(NamedTuple):
    """What still waits, and what that needs."""

    start: int
    """Position of what the model said last; 0: it never spoke."""
    held: frozenset[int]
    """Positions of messages that it needs: calls without a result yet, for one."""


def conversation_roots(
    segments: Sequence[Segment], unanswered: Unanswered, recent_turns: int, now: datetime
) -> dict[int, str]:
    """Map the index of each message that must stay to its reason. `segments` are in order.

    What the model said last and all that follows belong to the next request. Where the model never
    spoke, that is the last message alone. A call that waits for its result stays, since the result
    would come to nothing, and so does what else the provider wants for it.
    """
    start = unanswered.start or (segments[-1].position if segments else 0)
    held = unanswered.held
    recent = _last_turns(segments, recent_turns)
    focus = Focus(now=now)
    roots: dict[int, str] = {}
    for i, segment in enumerate(segments):
        if segment.pinned or segment.policy is GCPolicy.LOCKED:
            roots[i] = pinned(segment, focus) or locked(segment, focus) or ""
        elif segment.position >= start:
            roots[i] = "the model has not answered it yet"
        elif segment.position in held:
            roots[i] = "what is going on needs it"
        elif segment.topic_id in recent:
            roots[i] = f"in one of the last {len(recent)} turns"
    return roots


def _last_turns(segments: Sequence[Segment], count: int) -> frozenset[str]:
    """Name the last turns."""
    named: dict[str, None] = {}
    for segment in reversed(segments):
        if len(named) >= count:
            break
        if segment.topic_id is not None:
            named[segment.topic_id] = None
    return frozenset(named)
