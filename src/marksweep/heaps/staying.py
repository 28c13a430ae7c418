"""Which parts of a conversation must stay, and why; and which yield when nothing else is left.

1. Pinned and LOCKED: system messages, the first request, what somebody pinned.
2. Work in progress: what the model said last and all that follows; pending calls, and what else
   the provider requires for those.
3. The newest turns: their words, and of their work the newest exchanges.
4. The user's words: what the user typed, from the first message to the last, as long as that
   leaves room for anything else; also what is said beside results, together with these.

To fit the limit, bulky results and pastes in these are trimmed, and as the very last resort the
user's words go, the oldest first. Pinned messages never yield.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from marksweep.core.context import Yield
from marksweep.heaps.stash_search import GAP, RECALLED
from marksweep.messages import (
    Message,
    has_words_beside_results,
    starts_turn,
    turn_name,
    turn_number,
)
from marksweep.model import GCPolicy, Hold, Pressure, Segment

MESSAGE = "message"
"""The type of segments that are messages."""

SUMMARY = "summary"
"""The type of segments that stand for messages: user messages composed from their text."""

NOTE = "note"
"""The type of segments that a collection adds for the model to read, such as a notice."""

SPOKEN = frozenset({MESSAGE, SUMMARY, NOTE, GAP, RECALLED})
"""Types that are written as messages. Others only take room: a system prompt, tool schemas."""

USER_WORDS = "the user's words"
"""Why what the user typed stays."""

WORDS_SHARE = 0.1
"""Share of the limit that the user's words may take; of more, the newest stay.

Usually they take a hundredth. Some agents get the output of their commands as user messages: at a
half, these displace all that the agent wrote. Higher keeps more of a long chat's questions.
"""

LEAST_WORDS = 200
"""Tokens of the user's words that stay if the limit is small, as long as they are half of it."""

PASTED = 500
"""Maximum tokens of a user message that count as words: the rest of it was pasted."""

RECENT_EXCHANGES = 3
"""Newest calls with their results that recency protects, beside the words of the newest turns.

More keeps what the agent is working on; fewer lets a long turn shrink further.
"""


def words_room(limit: int) -> int:
    """Return the tokens that the user's words may take."""
    return min(max(int(WORDS_SHARE * limit), LEAST_WORDS), limit // 2)


class Protection(msgspec.Struct, frozen=True):
    """Turns that are protected, whatever the strategy.

    The words of the `recent_turns` newest turns stay, and the newest exchanges of their work; older
    tool output of a long turn may go. Over the hard limit only the user's words of them stay.
    """

    recent_turns: int = 0
    whole_turns: Mapping[int, str] = {}
    """Turns that stay whole, by number, with the reason."""
    exchanges: int = RECENT_EXCHANGES
    """Newest calls with their results that stay beside the words."""
    words_room: int | None = None
    """Tokens of the user's words that stay, the newest; None: all of them."""


class Unanswered(NamedTuple):
    """What is pending, and what that needs."""

    start: int
    """Position of what the model said last; 0: it never spoke."""
    held: frozenset[int]
    """Positions of messages that it needs, such as calls without a result yet."""


class Staying(NamedTuple):
    """What must stay, by index, each with the reason; and how far some of it yields."""

    roots: dict[int, str]
    yields: dict[int, Yield]


def staying(
    segments: Sequence[Segment],
    message: Callable[[Segment], Message],
    protection: Protection,
    unanswered: Unanswered,
    pressure: Pressure,
) -> Staying:
    """Return which of these messages must stay. They are in order.

    If the model never spoke, only the last message is in progress.
    """
    typed = _typed(segments, message)
    beside = _beside_results(segments, message)
    room = protection.words_room
    roots = dict.fromkeys(_kept_words(segments, typed, beside, room), USER_WORDS)
    yields = dict.fromkeys(roots, Yield.LAST)
    words, work = _recent(segments, protection)
    if pressure >= Pressure.HARD:
        words, work = [i for i in words if i in typed], []
    roots |= dict.fromkeys(work, f"one of the newest {protection.exchanges} exchanges")
    yields |= dict.fromkeys(work, Yield.TARGET)
    going_on = dict.fromkeys(words, f"in one of the last {protection.recent_turns} turns")
    held = [i for i, segment in enumerate(segments) if segment.position in unanswered.held]
    going_on |= dict.fromkeys(held, "what is going on needs it")
    spoken = [i for i, segment in enumerate(segments) if segment.type in SPOKEN]
    start = unanswered.start or (segments[spoken[-1]].position if spoken else 0)
    first = bisect_left(segments, start, key=attrgetter("position"))
    waiting = spoken[bisect_left(spoken, first) :]
    going_on |= dict.fromkeys(waiting, "the model has not answered it yet")
    roots |= going_on
    yields |= dict.fromkeys(going_on, Yield.LIMIT)
    whole = {turn_name(n): reason for n, reason in protection.whole_turns.items()}
    for i, segment in enumerate(segments):
        reason = whole.get(segment.topic_id or "")
        if segment.pinned:
            reason = f"pinned by {segment.pinned_by}" if segment.pinned_by else "pinned"
        elif segment.policy is GCPolicy.LOCKED:
            reason = "locked by its policy"
        if reason is not None:
            roots[i] = reason
            yields.pop(i, None)
            if i in typed and not segment.pinned and segment.topic_id not in whole:
                yields[i] = Yield.LIMIT
    return Staying(dict(sorted(roots.items())), yields)


def _typed(segments: Sequence[Segment], message: Callable[[Segment], Message]) -> dict[int, None]:
    """Find the messages that the user typed, except those that their host declared short-lived."""
    return {
        i: None
        for i, segment in enumerate(segments)
        if segment.type == MESSAGE
        and segment.policy is not GCPolicy.EPHEMERAL
        and starts_turn(message(segment))
    }


def _beside_results(
    segments: Sequence[Segment], message: Callable[[Segment], Message]
) -> frozenset[int]:
    """Find the messages in which the user says something beside results."""
    return frozenset(
        i
        for i, segment in enumerate(segments)
        if segment.type == MESSAGE and has_words_beside_results(message(segment))
    )


def _kept_words(
    segments: Sequence[Segment], typed: Collection[int], beside: Collection[int], room: int | None
) -> Iterator[int]:
    """Choose which user messages stay: all, or the newest for which there is room.

    In the room that is left, words beside results stay with these and with their calls. None stay
    that are older than the first for which there is no room: it would take theirs once trimmed.
    """
    left = math.inf if room is None else room
    for i in sorted(typed, reverse=True):
        left -= min(segments[i].tokens, PASTED)
        if left < 0:
            return
        yield i
    for i in sorted(beside, reverse=True):
        left -= segments[i].tokens
        if left < 0:
            return
        yield i


def _recent(segments: Sequence[Segment], protection: Protection) -> tuple[list[int], list[int]]:
    """Find the words and the work that recency protects; see `Protection`."""
    words: list[int] = []
    work: list[int] = []
    found: set[str] = set()
    exchanges = 0
    for i in range(len(segments) - 1, -1, -1):
        segment = segments[i]
        turn = segment.topic_id
        if segment.type != MESSAGE or turn is None or turn_number(turn) < 0:
            continue
        if turn not in found and len(found) >= protection.recent_turns:
            break
        found.add(turn)
        if segment.policy is not GCPolicy.EPHEMERAL:
            words.append(i)
        elif exchanges < protection.exchanges:
            work.append(i)
            exchanges += not any(r.hold is Hold.PAIRED for r in segment.references)
    return words, work
