"""What must stay in a conversation, beside what is pinned or locked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
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

    Turns follow each other, so that the last ones stand at the end.

    What the model said last and all that follows belong to the next request. Where the model never
    spoke, that is the last message alone. A call that waits for its result stays, since the result
    would come to nothing, and so does what else the provider wants for it.
    """
    locked_by = GCPolicy.LOCKED
    fixed = [i for i, s in enumerate(segments) if s.pinned or s.policy is locked_by]
    start = unanswered.start or (segments[-1].position if segments else 0)
    waiting = range(_index(segments, start), len(segments))
    recent, turns = _last_turns(segments, recent_turns)
    focus = Focus(now=now)
    roots = dict.fromkeys(recent, f"in one of the last {turns} turns")
    roots |= dict.fromkeys(_standing(segments, unanswered.held), "what is going on needs it")
    roots |= dict.fromkeys(waiting, "the model has not answered it yet")
    for i in fixed:
        roots[i] = pinned(segments[i], focus) or locked(segments[i], focus) or ""
    return dict(sorted(roots.items()))


def _last_turns(segments: Sequence[Segment], count: int) -> tuple[list[int], int]:
    """Give the messages of the last turns, by index, and how many turns that are."""
    found: list[int] = []
    named: set[str] = set()
    for i in range(len(segments) - 1, -1, -1):
        turn = segments[i].topic_id
        if turn is None:
            continue
        if turn not in named and len(named) >= count:
            break
        named.add(turn)
        found.append(i)
    return found, len(named)


def _standing(segments: Sequence[Segment], positions: Iterable[int]) -> Iterator[int]:
    """Give the index of what stands at these positions."""
    for position in positions:
        yield from range(_index(segments, position), _index(segments, position + 1))


def _index(segments: Sequence[Segment], position: int) -> int:
    """Give the index of the first segment at a position or behind it."""
    return bisect_left(segments, position, key=attrgetter("position"))
