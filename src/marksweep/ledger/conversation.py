"""The entries of a conversation, derived from its history.

Nothing here is stored: who holds the history holds the truth, and the ledger reads it. What the
history cannot say, a host declares by message id: that these two messages are a clarification.

    system_0             a system message                        LOCKED
    original_request     the first request                       LOCKED
    turn_3               the words of a turn                     PARTIAL
    turn_3.working_0     a call with its results                 EPHEMERAL
    gc_summary_2         what a collection wrote                 PRESERVABLE
    gc_notice_2          that a collection took place            EPHEMERAL
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence

import msgspec

from marksweep.dialects.pairing import Matches, match
from marksweep.ledger.entries import KIND_POLICY, ChildKind, InstructionSource, SourceEntry
from marksweep.messages import Counter, Message, Role
from marksweep.messages.turns import (
    PREAMBLE,
    SUMMARY,
    Turn,
    TurnNumbers,
    UserMessages,
    split_turns,
)
from marksweep.model import GCPolicy

Arrivals = Callable[[str], float]
"""When a message was first seen, in seconds since the epoch."""


class Named(msgspec.Struct, frozen=True, gc=False):
    """An entry of the conversation: its key, what it stands for, how easily it may go."""

    key: str
    kind: ChildKind
    policy: GCPolicy


class Reading(msgspec.Struct, frozen=True):
    """What each message of a history is."""

    entries: tuple[Named, ...]
    """For each message, the entry it belongs to; one object for all messages of an entry."""
    sizes: tuple[int, ...]
    """For each message, its tokens."""
    turns: tuple[Turn, ...]
    matches: Matches
    """Which results answer which calls."""
    made: Mapping[int, tuple[str, int]]
    """The summaries and notices, by position: which of them, and its number."""


class Derived(msgspec.Struct, frozen=True):
    """What a history weighs: its words and work, and apart from them its thoughts."""

    conversation: Mapping[str, SourceEntry]
    thinking: Mapping[str, SourceEntry]


def read_off(
    history: Sequence[Message],
    counter: Counter,
    voices: UserMessages,
    *,
    declared: Mapping[str, SourceEntry],
    numbers: TurnNumbers,
) -> Reading:
    """Say what each message is. Each belongs to exactly one entry."""
    turns = split_turns(history, voices.starts, numbers)
    found = match(history)
    made = voices.made
    entries = _name(history, turns, found, made)
    if declared:
        entries = _declare(history, entries, declared)
    return Reading(tuple(entries), tuple(map(counter, history)), turns, found, made)


def entries_of(
    history: Sequence[Message],
    reading: Reading,
    counter: Counter,
    *,
    declared: Mapping[str, SourceEntry],
    arrived: Arrivals,
) -> Derived:
    """Sum a reading up as entries of the ledger."""
    weights: Tally[str] = Tally()
    members: dict[str, list[str]] = {}
    named: dict[str, Named] = {}
    thoughts: Tally[str] = Tally()
    thinkers: dict[str, list[str]] = {}
    for message, entry, size in zip(history, reading.entries, reading.sizes, strict=True):
        key = entry.key
        thought = thought_tokens(message, size, counter)
        weights[key] += size - thought
        named.setdefault(key, entry)
        members.setdefault(key, []).append(message.message_id)
        if thought:
            turn = key.partition(".")[0]
            thoughts[turn] += thought
            thinkers.setdefault(turn, []).append(message.message_id)
    conversation = {
        key: SourceEntry(
            InstructionSource.CONVERSATION,
            weights[key],
            named[key].policy,
            label=_label(key, named[key].kind, declared),
            metadata={**_metadata(key, declared), "kind": named[key].kind.value},
            created_at=declared[key].created_at if key in declared else arrived(ids[0]),
            message_ids=tuple(ids),
        )
        for key, ids in members.items()
    }
    thinking = {
        turn: SourceEntry(
            InstructionSource.THINKING,
            thoughts[turn],
            GCPolicy.EPHEMERAL,
            f"Thoughts in {turn}",
            created_at=arrived(ids[0]),
            message_ids=tuple(ids),
        )
        for turn, ids in thinkers.items()
    }
    return Derived(conversation, thinking)


def thought_tokens(message: Message, size: int, counter: Counter) -> int:
    """Tokens of a message that are thoughts: what it would weigh less without them."""
    if not any(part.thought for part in message.parts):
        return 0
    rest = tuple(part for part in message.parts if not part.thought)
    without = counter(msgspec.structs.replace(message, parts=rest)) if rest else 0
    return max(0, size - without)


def _name(
    history: Sequence[Message],
    turns: Sequence[Turn],
    found: Matches,
    made: Mapping[int, tuple[str, int]],
) -> list[Named]:
    """Name the entry each message belongs to, by what we read."""
    entries = [_entry(PREAMBLE, ChildKind.TURN)] * len(history)
    for turn in turns:
        entry = _entry(f"turn_{turn.number}", ChildKind.TURN)
        entries[turn.start : turn.stop] = [entry] * (turn.stop - turn.start)
    _name_work(found, entries)
    system = Role.SYSTEM
    for n, at in enumerate([at for at, m in enumerate(history) if m.role is system]):
        entries[at] = _entry(f"system_{n}", ChildKind.SYSTEM_MESSAGE)
    for at, (name, number) in made.items():
        kind = ChildKind.TURN_SUMMARY if name == SUMMARY else ChildKind.NOTICE
        entries[at] = _entry(f"{name}{number}", kind)
    if turns:
        entries[turns[0].start] = _entry("original_request", ChildKind.ORIGINAL_REQUEST)
    return entries


def _declare(
    history: Sequence[Message], entries: Sequence[Named], declared: Mapping[str, SourceEntry]
) -> list[Named]:
    """Let declarations win over what we read. The first message says what an entry stands for."""
    said = {id_: key for key, entry in declared.items() for id_ in entry.message_ids}
    firsts: dict[str, Named] = {}
    given = []
    for message, read in zip(history, entries, strict=True):
        key = read.key if read.kind in _FIXED else said.get(message.message_id, read.key)
        if key not in firsts:
            policy = _policy(read.kind, declared.get(key))
            firsts[key] = Named(key, read.kind, policy)
        given.append(firsts[key])
    return given


def _entry(key: str, kind: ChildKind) -> Named:
    return Named(key, kind, KIND_POLICY[kind])


_FIXED = frozenset({ChildKind.SYSTEM_MESSAGE, ChildKind.ORIGINAL_REQUEST})
"""What no declaration can make collectable."""


def _name_work(found: Matches, entries: list[Named]) -> None:
    """Name messages with calls, in order, and those that answer them alike."""
    worked: Tally[str] = Tally()
    for at in sorted({slot.message for slot in (*found.answers, *found.unanswered)}):
        turn = entries[at].key
        entries[at] = _entry(f"{turn}.working_{worked[turn]}", ChildKind.WORKING_OUTPUT)
        worked[turn] += 1
    for asked, answer in found.answers.items():
        entries[answer.message] = entries[asked.message]


def _policy(kind: ChildKind, said: SourceEntry | None) -> GCPolicy:
    return said.gc_policy if said is not None and kind not in _FIXED else KIND_POLICY[kind]


def _metadata(key: str, declared: Mapping[str, SourceEntry]) -> Mapping[str, object]:
    return declared[key].metadata if key in declared else {}


def _label(key: str, kind: ChildKind, declared: Mapping[str, SourceEntry]) -> str:
    if key in declared:
        return declared[key].label or key
    name = kind.value.replace("_", " ")
    place = key.partition(".")[0].rpartition("_")[2]
    return f"{name.capitalize()} {place}" if place.isdigit() else name.capitalize()
