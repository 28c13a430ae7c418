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


class Line(msgspec.Struct, gc=False):
    """A child of the conversation in the making."""

    kind: ChildKind
    policy: GCPolicy
    label: str
    message_ids: list[str]
    tokens: int = 0
    first: int = 0


class Derived(msgspec.Struct, frozen=True):
    """What a history weighs: its words and work, and apart from them its thoughts."""

    conversation: Mapping[str, SourceEntry]
    thinking: Mapping[str, SourceEntry]
    keys: tuple[str, ...]
    """For each message, the key of its entry in `conversation`."""
    sizes: tuple[int, ...]
    """For each message, its tokens."""
    turns: tuple[Turn, ...]
    matches: Matches
    """Which results answer which calls."""


def derive(
    history: Sequence[Message],
    counter: Counter,
    *,
    declared: Mapping[str, SourceEntry],
    numbers: TurnNumbers,
    arrived: Arrivals,
) -> Derived:
    """Read the entries off a history. Each message is in exactly one of them."""
    turns = split_turns(history, numbers)
    found = match(history)
    keys = _keys(history, turns, found, declared)
    sizes = tuple(map(counter, history))
    lines: dict[str, Line] = {}
    thoughts: dict[str, tuple[int, list[str]]] = {}
    for at, message in enumerate(history):
        key, kind = keys[at]
        line = lines.get(key)
        if line is None:
            line = lines[key] = _open(key, kind, declared, at)
        line.message_ids.append(message.message_id)
        thought = thought_tokens(message, sizes[at], counter)
        line.tokens += sizes[at] - thought
        if thought:
            name = key.partition(".")[0]
            weight, ids = thoughts.get(name, (0, []))
            thoughts[name] = (weight + thought, [*ids, message.message_id])
    return Derived(
        {key: _close(line, declared.get(key), arrived) for key, line in lines.items()},
        {
            name: SourceEntry(
                InstructionSource.THINKING,
                weight,
                GCPolicy.EPHEMERAL,
                f"Thoughts in {name}",
                created_at=arrived(ids[0]),
                message_ids=tuple(ids),
            )
            for name, (weight, ids) in thoughts.items()
        },
        tuple(key for key, _ in keys),
        sizes,
        turns,
        found,
    )


def thought_tokens(message: Message, size: int, counter: Counter) -> int:
    """Tokens of a message that are thoughts: what it would weigh less without them."""
    if not any(part.thought for part in message.parts):
        return 0
    rest = tuple(part for part in message.parts if not part.thought)
    without = counter(msgspec.structs.replace(message, parts=rest)) if rest else 0
    return max(0, size - without)


def _keys(
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


def _open(key: str, kind: ChildKind, declared: Mapping[str, SourceEntry], at: int) -> Line:
    said = declared.get(key)
    policy = said.gc_policy if said and kind not in _FIXED else KIND_POLICY[kind]
    label = (said.label if said else None) or _label(key, kind)
    return Line(kind, policy, label, [], first=at)


def _close(line: Line, said: SourceEntry | None, arrived: Arrivals) -> SourceEntry:
    return SourceEntry(
        InstructionSource.CONVERSATION,
        line.tokens,
        line.policy,
        line.label,
        metadata={**(said.metadata if said else {}), "kind": str(line.kind), "first": line.first},
        created_at=said.created_at if said else arrived(line.message_ids[0]),
        message_ids=tuple(line.message_ids),
    )


def _label(key: str, kind: ChildKind) -> str:
    name = kind.value.replace("_", " ")
    place = key.partition(".")[0].rpartition("_")[2]
    return f"{name.capitalize()} {place}" if place.isdigit() else name.capitalize()
