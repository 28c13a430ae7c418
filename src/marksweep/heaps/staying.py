"""What of a conversation must stay, and why.

pinned, LOCKED       system messages, the first request, what somebody pinned
what goes on         what the model said last and all that follows; calls that wait for their
                     results, and what else the provider wants for those
the newest turns     their words, and of their work the newest exchanges
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

import msgspec

from marksweep.core.roots import Focus, locked, pinned
from marksweep.heaps.stash_search import RECALLED
from marksweep.messages import Message, starts_turn, turn_name, turn_number
from marksweep.model import GCPolicy, Hold, Pressure, Segment

MESSAGE = "message"
"""The type of segments that are messages."""

SUMMARY = "summary"
"""The type of segments that stand for messages: said by the user, composed from their text."""

NOTE = "note"
"""The type of segments that a collection adds for the model to read, such as a notice."""

SPOKEN = frozenset({MESSAGE, SUMMARY, NOTE, RECALLED})
"""Types that are written as messages. Others only take room: a system prompt, tool schemas."""

RECENT_EXCHANGES = 3
"""Newest calls with their results that recency protects, beside the words of the newest turns.

More keeps what the agent is working on; fewer lets a long turn shrink further.
"""


class Protection(msgspec.Struct, frozen=True):
    """Turns that are spared, whatever the strategy.

    Of the `recent_turns` newest the words stay, and of their work the newest exchanges; older tool
    output of a long turn may go. Over the hard limit only the user's words of them stay.
    """

    recent_turns: int = 0
    whole_turns: Mapping[int, str] = {}
    """Turns that stay whole, by number, with the reason."""
    exchanges: int = RECENT_EXCHANGES
    """Newest calls with their results that stay beside the words."""


class Unanswered(NamedTuple):
    """What still waits, and what that needs."""

    start: int
    """Position of what the model said last; 0: it never spoke."""
    held: frozenset[int]
    """Positions of messages that it needs: calls without a result yet, for one."""


class Staying:
    """The messages of a conversation in order, seen by what must stay of them."""

    def __init__(
        self,
        segments: Sequence[Segment],
        message: Callable[[Segment], Message],
        pressure: Pressure,
        now: datetime,
    ) -> None:
        self._segments = segments
        self._message = message
        self._pressure = pressure
        self._focus = Focus(now=now)

    def roots(self, protection: Protection, unanswered: Unanswered) -> dict[int, str]:
        """Map the index of each segment that must stay to its reason.

        Where the model never spoke, what goes on is the last message alone.
        """
        segments = self._segments
        spoken = [i for i, segment in enumerate(segments) if segment.type in SPOKEN]
        start = unanswered.start or (segments[spoken[-1]].position if spoken else 0)
        first = bisect_left(segments, start, key=attrgetter("position"))
        roots = self._recent(protection)
        whole = {turn_name(n): reason for n, reason in protection.whole_turns.items()}
        if whole:
            roots |= {i: whole[s.topic_id] for i, s in enumerate(segments) if s.topic_id in whole}
        held = [i for i, segment in enumerate(segments) if segment.position in unanswered.held]
        roots |= dict.fromkeys(held, "what is going on needs it")
        waits = "the model has not answered it yet"
        roots |= dict.fromkeys(spoken[bisect_left(spoken, first) :], waits)
        for i, segment in enumerate(segments):
            if segment.pinned or segment.policy is GCPolicy.LOCKED:
                roots[i] = pinned(segment, self._focus) or locked(segment, self._focus) or ""
        return dict(sorted(roots.items()))

    def _recent(self, protection: Protection) -> dict[int, str]:
        """Protect what recency spares; see `Protection`."""
        words: list[int] = []
        work: list[int] = []
        found: set[str] = set()
        exchanges = 0
        for i in range(len(self._segments) - 1, -1, -1):
            segment = self._segments[i]
            turn = segment.topic_id
            if segment.type != MESSAGE or turn is None or turn_number(turn) < 0:
                continue
            if turn not in found and len(found) >= protection.recent_turns:
                break
            found.add(turn)
            if self._pressure >= Pressure.HARD:
                words += [i] if starts_turn(self._message(segment)) else []
            elif segment.policy is not GCPolicy.EPHEMERAL:
                words.append(i)
            elif exchanges < protection.exchanges:
                work.append(i)
                exchanges += not any(r.hold is Hold.PAIRED for r in segment.references)
        reason = f"one of the newest {protection.exchanges} exchanges"
        return dict.fromkeys(work, reason) | dict.fromkeys(
            words, f"in one of the last {len(found)} turns"
        )
