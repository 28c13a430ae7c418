"""The entries of a conversation, derived from the snapshot of its heap.

Nothing here is stored: the ledger reads the heap, its policies included.
What the messages cannot say, a host declares by message id: that these two are a clarification.

    system_0             a system message                        LOCKED
    original_request     the first request                       LOCKED
    turn_3               the words of a turn                     PARTIAL
    turn_3.working_0     a call with its results                 EPHEMERAL
    gc_summary_2         what a collection wrote                 PRESERVABLE
    gc_notice_2          that a collection took place            EPHEMERAL
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from marksweep.heaps.conversation import ConversationHeap
from marksweep.heaps.staying import SPOKEN
from marksweep.ledger.entries import ChildKind, InstructionSource, SourceEntry
from marksweep.messages import (
    PREAMBLE,
    SUMMARY,
    Counter,
    Message,
    Role,
    is_summary,
    made_by_collection,
    starts_turn,
)
from marksweep.model import GCPolicy, Hold, Segment


class EntryRef(NamedTuple):
    """The entry that a message belongs to: its key, and what it is for."""

    key: str
    kind: ChildKind


SUMMARY_LABEL = "Context Summary"
"""What a ledger calls a summary of a collection."""

CREATED_BY = "created_by"
"""The metadata that names the plugin that made a summary."""

KIND = "kind"
"""The metadata that names what a child is."""

FIXED = frozenset({ChildKind.SYSTEM_MESSAGE, ChildKind.ORIGINAL_REQUEST})
"""What no declaration can make collectable."""


def classify(
    heap: ConversationHeap,
    segments: Iterable[Segment],
    declared: Mapping[str, SourceEntry],
    turns: Container[str | None] | None = None,
) -> dict[str, EntryRef]:
    """Return which entry each message belongs to, by segment id. Each belongs to exactly one.

    With `turns`, only messages of these are classified.
    """
    said = {id_: key for key, entry in declared.items() for id_ in entry.message_ids}
    spoken = [segment for segment in segments if segment.type in SPOKEN]
    first = next((s for s in spoken if starts_turn(heap.message(s))), None)
    reading = _Classifier(first.segment_id if first else "")
    found: dict[str, EntryRef] = {}
    for segment in spoken:
        if turns is None or segment.topic_id in turns:
            ref = reading.classify(segment, heap.message(segment))
            key = said.get(segment.segment_id)
            named = key is not None and ref.kind not in FIXED
            found[segment.segment_id] = EntryRef(key, ref.kind) if named and key else ref
    return found


class _Classifier:
    """Classifies messages in order."""

    def __init__(self, first_request: str) -> None:
        self._first_request = first_request
        self._systems = 0
        self._work: dict[str, EntryRef] = {}
        """The entries of calls and results, by segment id."""
        self._worked: Tally[str] = Tally()

    def classify(self, segment: Segment, message: Message) -> EntryRef:
        """Classify the next message."""
        turn = segment.topic_id or PREAMBLE
        if message.role is Role.SYSTEM:
            self._systems += 1
            return EntryRef(f"system_{self._systems - 1}", ChildKind.SYSTEM_MESSAGE)
        if message.role is Role.USER:
            if segment.segment_id == self._first_request:
                return EntryRef("original_request", ChildKind.ORIGINAL_REQUEST)
            made = made_by_collection(message)
            if is_summary(message):
                key = f"{SUMMARY}{made[1]}" if made else segment.segment_id
                return EntryRef(key, ChildKind.TURN_SUMMARY)
            if made is not None:
                return EntryRef(f"{made[0]}{made[1]}", ChildKind.NOTICE)
        if message.is_work:
            return self._working(segment, turn)
        return EntryRef(turn, ChildKind.TURN)

    def _working(self, segment: Segment, turn: str) -> EntryRef:
        """Count exchanges in order; results belong to the call they answer."""
        asked = [r.target for r in segment.references if r.hold is Hold.PAIRED]
        known = next((self._work[name] for name in asked if name in self._work), None)
        if known is None:
            known = EntryRef(f"{turn}.working_{self._worked[turn]}", ChildKind.WORKING_OUTPUT)
            self._worked[turn] += 1
        self._work[segment.segment_id] = known
        return known


def entries_of(
    heap: ConversationHeap, declared: Mapping[str, SourceEntry]
) -> dict[InstructionSource, dict[str, SourceEntry]]:
    """Sum up a conversation as entries of the ledger: its words and work, and its thoughts."""
    segments = {s.segment_id: s for s in heap.snapshot().segments}
    refs = classify(heap, segments.values(), declared)
    members: dict[EntryRef, list[Segment]] = {}
    thinkers: dict[str, list[Segment]] = {}
    thoughts: dict[str, int] = {}
    for name, ref in refs.items():
        segment = segments[name]
        members.setdefault(ref, []).append(segment)
        thought = thought_tokens(heap.message(segment), segment.tokens, heap.counter)
        if thought:
            thoughts[name] = thought
            thinkers.setdefault(ref.key.partition(".")[0], []).append(segment)
    conversation: dict[str, SourceEntry] = {}
    for ref, entry in members.items():
        said = declared.get(ref.key)
        conversation[ref.key] = SourceEntry(
            InstructionSource.CONVERSATION,
            sum(s.tokens - thoughts.get(s.segment_id, 0) for s in entry),
            entry[0].policy,
            label=(said.label or ref.key) if said else _label(ref),
            metadata={**(said.metadata if said else {}), KIND: ref.kind.value},
            created_at=said.created_at if said else entry[0].created_at.timestamp(),
            message_ids=[s.segment_id for s in entry],
        )
    thinking = {
        turn: SourceEntry(
            InstructionSource.THINKING,
            sum(thoughts[s.segment_id] for s in entry),
            GCPolicy.EPHEMERAL,
            f"Thoughts in {turn}",
            created_at=entry[0].created_at.timestamp(),
            message_ids=[s.segment_id for s in entry],
        )
        for turn, entry in thinkers.items()
    }
    return {InstructionSource.CONVERSATION: conversation, InstructionSource.THINKING: thinking}


def declaration(name: str, value: str) -> str:
    """Return the tag by which a message carries a part of its entry's metadata."""
    return f"{name}:{value}"


def declared_in(segments: Iterable[Segment]) -> Iterator[tuple[str, SourceEntry]]:
    """Yield the entries that messages carry themselves, by key: their kind, or who made them."""
    for segment in segments:
        parts = [tag.partition(":") for tag in segment.tags]
        metadata: dict[str, object] = {
            name: value for name, _, value in parts if name in (KIND, CREATED_BY)
        }
        if metadata:
            kind = metadata.get(KIND)
            yield (
                f"{kind}_{segment.segment_id}" if kind else segment.segment_id,
                SourceEntry(
                    InstructionSource.CONVERSATION,
                    segment.tokens,
                    segment.policy,
                    label=None if kind else SUMMARY_LABEL,
                    metadata=metadata,
                    created_at=segment.created_at.timestamp(),
                    message_ids=[segment.segment_id],
                ),
            )


def thought_tokens(message: Message, size: int, counter: Counter) -> int:
    """Tokens of a message that are thoughts: the difference without them."""
    if not any(part.thought for part in message.parts):
        return 0
    rest = tuple(part for part in message.parts if not part.thought)
    without = counter(msgspec.structs.replace(message, parts=rest)) if rest else 0
    return max(0, size - without)


def _label(ref: EntryRef) -> str:
    if ref.kind is ChildKind.TURN_SUMMARY:
        return SUMMARY_LABEL
    name = ref.kind.value.replace("_", " ").capitalize()
    place = ref.key.partition(".")[0].rpartition("_")[2]
    return f"{name} {place}" if place.isdigit() else name
