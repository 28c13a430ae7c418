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
from marksweep.ledger.turns import (
    SUMMARY,
    Turn,
    TurnNumbers,
    made_by_collection,
    split_turns,
    tool_units,
)
from marksweep.messages import Counter, Message, Role
from marksweep.model import GCPolicy

Arrivals = Callable[[str], float]
"""When a message was first seen, in seconds since the epoch."""


PREAMBLE = "preamble"
"""The key of what stands before the first turn."""


class Reading(msgspec.Struct, frozen=True):
    """What each message of a history is."""

    keys: tuple[str, ...]
    """For each message, the key of its entry."""
    sizes: tuple[int, ...]
    """For each message, its tokens."""
    kinds: Mapping[str, ChildKind]
    """For each key, what it stands for."""
    policies: Mapping[str, GCPolicy]
    """For each key, how easily it may go."""
    turns: tuple[Turn, ...]
    matches: Matches
    """Which results answer which calls."""


class Derived(msgspec.Struct, frozen=True):
    """What a history weighs: its words and work, and apart from them its thoughts."""

    conversation: Mapping[str, SourceEntry]
    thinking: Mapping[str, SourceEntry]


def read_off(
    history: Sequence[Message],
    counter: Counter,
    *,
    declared: Mapping[str, SourceEntry],
    numbers: TurnNumbers,
) -> Reading:
    """Say what each message is. Each belongs to exactly one entry."""
    turns = split_turns(history, numbers)
    found = match(history)
    named = _names(history, turns, found, declared)
    kinds: dict[str, ChildKind] = {}
    last = None
    for key, kind in named:
        if key is not last:  # A call and its results have one key.
            kinds.setdefault(key, kind)
            last = key
    return Reading(
        tuple([key for key, _ in named]),
        tuple(map(counter, history)),
        kinds,
        {key: _policy(kind, declared.get(key)) for key, kind in kinds.items()},
        turns,
        found,
    )


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
    members: dict[str, list[str]] = {key: [] for key in reading.kinds}
    thoughts: Tally[str] = Tally()
    thinkers: dict[str, list[str]] = {}
    for message, key, size in zip(history, reading.keys, reading.sizes, strict=True):
        thought = thought_tokens(message, size, counter)
        weights[key] += size - thought
        members[key].append(message.message_id)
        if thought:
            turn = key.partition(".")[0]
            thoughts[turn] += thought
            thinkers.setdefault(turn, []).append(message.message_id)
    conversation = {
        key: SourceEntry(
            InstructionSource.CONVERSATION,
            weights[key],
            reading.policies[key],
            label=_label(key, reading.kinds[key], declared),
            metadata={**_metadata(key, declared), "kind": reading.kinds[key].value},
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


def _names(
    history: Sequence[Message],
    turns: Sequence[Turn],
    found: Matches,
    declared: Mapping[str, SourceEntry],
) -> list[tuple[str, ChildKind]]:
    """Name the entry each message belongs to. A declaration wins over what we read."""
    keys = [(PREAMBLE, ChildKind.TURN)] * len(history)
    for turn in turns:
        keys[turn.start : turn.stop] = [(f"turn_{turn.number}", ChildKind.TURN)] * (
            turn.stop - turn.start
        )
    _name_work(found, keys)
    _name_specials(history, turns, keys)
    said = {id_: key for key, entry in declared.items() for id_ in entry.message_ids}
    for at, message in enumerate(history):
        key = said.get(message.message_id)
        if key is not None and keys[at][1] not in _FIXED:
            keys[at] = (key, keys[at][1])
    return keys


_FIXED = frozenset({ChildKind.SYSTEM_MESSAGE, ChildKind.ORIGINAL_REQUEST})
"""What no declaration can make collectable."""


def _name_work(found: Matches, keys: list[tuple[str, ChildKind]]) -> None:
    worked: Tally[str] = Tally()
    for unit in tool_units(found):
        turn, _ = keys[unit[0]]
        name = f"{turn}.working_{worked[turn]}"
        worked[turn] += 1
        for at in unit:
            keys[at] = (name, ChildKind.WORKING_OUTPUT)


def _name_specials(
    history: Sequence[Message], turns: Sequence[Turn], keys: list[tuple[str, ChildKind]]
) -> None:
    systems = 0
    for at, message in enumerate(history):
        if message.role is Role.SYSTEM:
            keys[at] = (f"system_{systems}", ChildKind.SYSTEM_MESSAGE)
            systems += 1
        elif made := made_by_collection(message):
            name, number = made
            kind = ChildKind.TURN_SUMMARY if name == SUMMARY else ChildKind.NOTICE
            keys[at] = (f"{name}{number}", kind)
    if turns:
        keys[turns[0].start] = ("original_request", ChildKind.ORIGINAL_REQUEST)


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
