"""The conversation heap: the messages of one conversation, each a segment.

Messages are tied together when they arrive, and get their turn and policy then; a running total of
tokens is kept. So the cost of adding a message does not depend on how many there are.

    system messages, the first request, the first message of all      LOCKED
    summaries that a collection wrote                                 PRESERVABLE
    words of the user and the agent                                   PARTIAL
    calls, their results, notices of a collection                     EPHEMERAL

How segments store messages, so that swept ones come back exactly, is defined by their form; see
forms.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.dialects.base import Json
from marksweep.errors import BadInput
from marksweep.heaps.forms import Line, MessageForm, with_texts
from marksweep.heaps.gaps import Gaps
from marksweep.heaps.live_index import Fingerprint
from marksweep.heaps.segments import SegmentHeap
from marksweep.heaps.stash_search import GAP, RECALLED, note_of
from marksweep.heaps.staying import (
    MESSAGE,
    NOTE,
    SPOKEN,
    SUMMARY,
    Protection,
    Staying,
    Unanswered,
    staying,
)
from marksweep.messages import (
    Counter,
    Message,
    Outcome,
    Role,
    Text,
    TurnNumbers,
    is_summary,
    left_out_in,
    made_by_collection,
    outcomes_of,
    starts_turn,
    texts_of,
    turn_name,
    turn_number,
)
from marksweep.model import GCPolicy, Hold, Link, Pressure, Reference, Segment, Snapshot
from marksweep.sections import Sections, shown
from marksweep.stores.base import Store

replace = msgspec.structs.replace


ROLES_BY_NAME = {"assistant": Role.MODEL}
"""Providers' names of roles that have another name here."""

LAST_REQUEST = "last_request"
"""Id and type of the stored record of the last request: not a part of the conversation."""

KEPT = "keep"
"""`pinned_by` of messages that the host keeps."""


def request_record(workspace: str, now: datetime, record: str = "") -> Segment:
    """Make the stored record of a request; an empty one only makes the workspace exist."""
    return Segment(
        segment_id=LAST_REQUEST,
        type=LAST_REQUEST,
        created_at=now,
        raw=record,
        project_id=workspace,
    )


class ReadMessage(msgspec.Struct, gc=False):
    """A message in memory, with what its segment stores of it: other content, another message."""

    raw: str
    message: Message
    outcomes: tuple[Outcome, ...] | None = None
    """The results in it, computed when first needed."""


class ConversationHeap(SegmentHeap):
    """The live messages of a conversation, written through to a store."""

    def __init__(
        self,
        store: Store,
        workspace: str,
        *,
        form: MessageForm,
        counter: Counter,
        turns: TurnNumbers | None = None,
        fingerprint: Fingerprint | None = None,
        keep: Collection[str] = (),
    ) -> None:
        """Open a heap. `turns` numbers turns by their first message; without, they are counted.

        `keep` names tools and roles whose messages are pinned when they arrive.
        """
        if isinstance(keep, str):
            raise BadInput(f"keep is {keep!r}; expected a list of names: keep=[{keep!r}].")
        self._keep = frozenset(ROLES_BY_NAME.get(name, name) for name in keep)
        self.form = form
        self.counter = counter
        self._turns = turns
        self._messages: dict[str, ReadMessage] = {}
        """Live messages that were read, by id."""
        self._drafts: dict[str, ReadMessage] = {}
        """Replacements made since the last change, by id: a sweep does not read them again."""
        self._names: dict[int, str] = {}
        """The ids of live messages, by position."""
        self.last_request = ""
        """What was recorded with `record_request`; empty: nothing."""
        self._line: Line | None = None
        self._unread: list[Segment] = []
        """Segments from the store that are not yet in turns and ties."""
        self._refresh_is_off = False
        self._version = 0
        self._start_over()
        super().__init__(
            store,
            workspace,
            count_tokens=lambda _: 0,
            recent_messages=0,
            fingerprint=fingerprint,
        )

    def _start_over(self) -> None:
        """Drop what is derived from the messages so far; it is recomputed when needed."""
        self._tying = self.form.rules.tying()
        self._last_read = 0
        self._turn = -1
        self._topic = turn_name(-1)
        self._is_open = False
        self._is_requested = False
        self._is_answering = False
        self._last_answer = 0

    def set_form(self, form: MessageForm) -> None:
        """Read all messages in another form from now on."""
        with self._guard:
            self.form = form
            self._messages.clear()
            self._drafts.clear()
            self._read_again()

    def _read_again(self) -> None:
        """Recompute what is derived from the live messages."""
        self._line = None
        self._start_over()
        self._unread = list(self.index.live.values())

    def last_arrival(self) -> datetime | None:
        """Return when the newest live message arrived; None if there is none."""
        return max((s.created_at for s in self.index.live.values() if was_said(s)), default=None)

    @property
    def next_position(self) -> int:
        """The position of the next message, if nobody else adds one before."""
        return self._last_position + 1

    def append(
        self,
        messages: Sequence[Message],
        pinned_by: str,
        now: datetime,
        *,
        policies: Mapping[str, GCPolicy] | None = None,
        arrived: Callable[[str], datetime] | None = None,
    ) -> list[str]:
        """Add new messages and assign their ids. `pinned_by` empty: they are not pinned.

        `policies` are the policies of messages, by their ids, and `arrived` says when they arrived,
        if not now.
        """
        with self._editing():
            self.catch_up()
            line = self._line
            declared = policies or {}
            segments = []
            for at, each in enumerate(messages, self.next_position):
                message = self.form.named(each, at)
                came = arrived(message.message_id) if arrived else now
                segments.append(self._segment(message, at, pinned_by, came, declared))
            names = [segment.segment_id for segment in segments]
            try:
                self._refuse_known(names)
                self._write(put=segments)
            except BaseException:
                self.set_form(self.form)
                raise
            self._unread.clear()
            if line is not None:
                line.extend(self._placed_messages(segments))
                self._line = line
            return names

    def drop_from(self, position: int) -> None:
        """Remove all messages from a position on, as if they had never been added."""
        with self._editing():
            live = [s for s in self.index.live.values() if s.type in SPOKEN]
            gone = {s.segment_id for s in live if s.position >= position}
            notes = {f"{RECALLED}-{name}" for name in gone} & {s.segment_id for s in live}
            self._write(remove=[*gone, *notes, LAST_REQUEST])
            if self._turns is not None:
                self._turns.take_back(gone)
            left = [segment.position for segment in self.index.live.values()]
            self._last_position = max([0, position - 1, *left])
            self._read_again()

    def record_request(self, record: str, now: datetime) -> None:
        """Store a record of the request that is about to be sent, in place of the last one."""
        with self._editing():  # No message changes, so their line stays.
            super()._write(put=[request_record(self.workspace, now, record)])

    def declare(self, message_id: str, policy: GCPolicy, tag: str) -> None:
        """Set the policy of a live message, and store why; what is locked stays locked."""
        with self._editing():
            segment = self._find(message_id)
            if segment.policy is not GCPolicy.LOCKED:
                self._write(put=[replace(segment, policy=policy, tags=(tag,))])

    def _segment(
        self,
        message: Message,
        at: int,
        pinned_by: str,
        came: datetime,
        declared: Mapping[str, GCPolicy],
    ) -> Segment:
        kind, policy = _kind(message)
        is_locked, tied = self._read(at, message)
        ties = [self._names[n] for n in tied if n in self._names]
        raw = self.form.write(message)
        self._names[at] = message.message_id
        self._messages[message.message_id] = ReadMessage(raw, message)
        if not pinned_by and self._keep and self._is_kept(message, ties):
            pinned_by = KEPT
        if is_locked:
            policy = GCPolicy.LOCKED
        elif declared:
            policy = declared.get(message.message_id, policy)
        return Segment(
            segment_id=message.message_id,
            type=kind,
            created_at=came,
            text=self.form.said(message),
            raw=raw,
            tokens=self.counter(message),
            pinned=bool(pinned_by),
            pinned_by=pinned_by,
            topic_id=self._topic,
            references=tuple([Reference(name, Link.ANSWERS, Hold.PAIRED) for name in ties]),
            policy=policy,
            position=at,
            project_id=self.workspace,
        )

    def _is_kept(self, message: Message, ties: Iterable[str]) -> bool:
        """Whether the host keeps messages of this role, or those of a tool that has a part here."""
        if message.role in self._keep:
            return True
        tied = [self._named(name) for name in ties]
        calls = [call for each in (*tied, message) for call in each.function_calls]
        names = {call.name for call in message.function_calls}
        return not self._keep.isdisjoint(names | {o.name for o in outcomes_of(message, calls)})

    def _read(self, at: int, message: Message, turn: int | None = None) -> tuple[bool, list[int]]:
        """Process the next message; return whether it is locked, and the positions it is tied to.

        `turn` is its turn if that is known already. The very first message is locked: providers
        require a history to begin with the user.
        """
        self._last_read = at
        role, starts = message.role, starts_turn(message)
        if starts:
            self._enter_turn(message.message_id, turn)
        if role is Role.MODEL and not self._is_answering:
            self._last_answer = at
        self._is_answering = role is Role.MODEL
        is_first = (starts and not self._is_requested) or (
            not self._is_open and role is not Role.MODEL
        )
        self._is_requested = self._is_requested or starts
        self._is_open = self._is_open or role is not Role.SYSTEM
        return is_first or role is Role.SYSTEM, self._tying.feed(at, message)

    def _enter_turn(self, started_by: str, number: int | None) -> None:
        if self._turns is not None:
            self._turn = self._turns.number(started_by, number)
        else:
            self._turn = self._turn + 1 if number is None else number
        self._topic = turn_name(self._turn)

    def catch_up(self) -> None:
        """Process messages that came from the store: after a restart, an undo, or from others."""
        if not self._unread:
            return
        for segment in sorted(self._unread, key=lambda s: s.position):
            if not was_said(segment):
                continue
            message, turn = self.message(segment), turn_number(segment.topic_id)
            if segment.position > self._last_read:
                self._read(segment.position, message, turn)
                self._turn = max(self._turn, turn)  # The message that began it may be swept.
                self._topic = turn_name(self._turn)
                if self._turns is not None:
                    self._turns.reserve(turn)
            elif self._turns is not None and starts_turn(message):
                self._turns.number(message.message_id, turn)
        self._unread.clear()

    def unanswered(self) -> Unanswered:
        """Return what the model has not answered, and what that needs."""
        self.catch_up()
        return Unanswered(self._last_answer, frozenset(self._tying.held()))

    def context(self, protection: Protection, pressure: Pressure, now: datetime) -> PlanningContext:
        """Return the planning context, and where recalled messages are placed."""
        snapshot, start = self.snapshot(), self.unanswered().start
        roots, yields = self.staying(snapshot.segments, protection, pressure)
        first = next((i for i, s in enumerate(snapshot.segments) if s.position >= start), None)
        waiting = first if start else None
        return PlanningContext(
            snapshot, roots, now, pressure=pressure, unanswered=waiting, yields=yields
        )

    def staying(
        self, segments: Sequence[Segment], protection: Protection, pressure: Pressure
    ) -> Staying:
        """Return which of these segments must stay, and how far they yield. They are in order."""
        return staying(segments, self.message, protection, self.unanswered(), pressure)

    def _take_in(self, segments: Sequence[Segment]) -> None:
        records = [segment for segment in segments if segment.type == LAST_REQUEST]
        if records:
            self.last_request = records[0].raw
            segments = [segment for segment in segments if segment.type != LAST_REQUEST]
        for segment in segments:
            draft = self._drafts.get(segment.segment_id)
            if draft is not None and draft.raw == segment.raw:
                self._messages[segment.segment_id] = draft
            if was_said(segment):
                self._names[segment.position] = segment.segment_id
        self._drafts.clear()
        self._put(segments)
        self._unread += segments

    def _write(self, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()) -> None:
        self._line = None
        super()._write(put=put, remove=remove)

    def _reset(self) -> None:
        super()._reset()
        self.last_request = ""
        self._messages.clear()
        self._names.clear()

    def _let_go(self, segment_ids: Sequence[str]) -> list[Segment]:
        gone = super()._let_go(segment_ids)
        if LAST_REQUEST in segment_ids:
            self.last_request = ""
        for segment in gone:
            self._messages.pop(segment.segment_id, None)
            if was_said(segment):
                self._names.pop(segment.position, None)
        return gone

    @contextmanager
    def without_refresh(self) -> Iterator[None]:
        """Skip checking for changes by others. For use while the store's lock excludes them."""
        self.refresh()
        self._refresh_is_off = True
        try:
            yield
        finally:
            self._refresh_is_off = False

    def refresh(self) -> None:
        """Apply changes by other processes."""
        if self._refresh_is_off:
            return
        version = self._version
        super().refresh()
        if self._version != version:
            self._line = None

    def set_overhead(
        self,
        name: str,
        kind: str,
        tokens: int,
        now: datetime,
        *,
        text: str = "",
        policy: GCPolicy = GCPolicy.LOCKED,
    ) -> None:
        """Record something besides messages that takes room in every request: tool schemas."""
        old = self.live().get(name)
        if old is not None and old.text == text and old.tokens == tokens:
            return
        with self._editing():
            old = self.index.live.get(name)
            segment = Segment(
                segment_id=name,
                type=kind,
                created_at=now,
                text=text,
                tokens=tokens,
                policy=policy,
                position=old.position if old else self._last_position + 1,
                project_id=self.workspace,
            )
            self._write(put=[segment])

    def snapshot(self) -> Snapshot:
        """Return the current state of the conversation."""
        with self._guard:
            self.refresh()
            fingerprint = self.index.fingerprint()
            return Snapshot(self.index.in_order(), fingerprint, self.workspace, "conversation")

    def stored(self) -> list[Json]:
        """Return the live messages as they were stored, in whatever form."""
        return [json.loads(s.raw) for s in self.index.in_order() if was_said(s)]

    def message(self, segment: Segment) -> Message:
        """Return the message of a segment; cached as long as it is live."""
        return self._read_message(segment).message

    def _named(self, message_id: str) -> Message:
        """Return a live message, or one that is being added."""
        live = self.index.live.get(message_id)
        return self.message(live) if live is not None else self._messages[message_id].message

    def _read_message(self, segment: Segment) -> ReadMessage:
        for known in (self._messages, self._drafts):
            held = known.get(segment.segment_id)
            if held is not None and held.raw == segment.raw:
                return held
        held = ReadMessage(segment.raw, self.form.read(segment))
        live = self.index.live.get(segment.segment_id)
        if live is not None and live.raw == segment.raw and was_said(segment):
            self._messages[segment.segment_id] = held
        return held

    def weigh(self, text: str) -> int:
        """Count the tokens that a text would take as a separate message."""
        return self.counter(self.form.say(text, SUMMARY))

    def messages(self) -> list[Message]:
        """Return all live messages in order, in the provider's format."""
        with self._guard:
            self.refresh()
            if self._line is None:
                line = Line(self.form.rules)
                line.extend(self._placed_messages(self.index.in_order()))
                self._line = line
            return list(self._line.messages)

    def _placed_messages(self, segments: Iterable[Segment]) -> Iterator[tuple[int, Message]]:
        return ((s.position, self.message(s)) for s in segments if s.type in SPOKEN)

    def outcomes(self, segment: Segment) -> tuple[Outcome, ...]:
        """Return the results in a message, each with the call it answers."""
        if segment.type != MESSAGE:
            return ()
        held = self._read_message(segment)
        if held.outcomes is None:
            held.outcomes = self._outcomes_of(segment, held.message)
        return held.outcomes

    def _outcomes_of(self, segment: Segment, message: Message) -> tuple[Outcome, ...]:
        if not message.function_responses:
            return ()
        live = self.index.live
        tied = [r.target for r in segment.references if r.hold is Hold.PAIRED and r.target in live]
        calls = [call for name in tied for call in self.message(live[name]).function_calls]
        return tuple(outcomes_of(message, calls))

    def texts(self, segment: Segment) -> tuple[Text, ...]:
        """Return the texts of a message; what is not a message is one text."""
        if segment.type not in SPOKEN:
            return (Text(0, segment.text),)
        if segment.type == GAP:
            return ()
        return tuple(texts_of(self.message(segment)))

    def trimmed(self, segment: Segment, texts: Mapping[int, Sections]) -> Segment | None:
        """Keep only these sections of some parts; None if the message does not get shorter."""
        if segment.type not in SPOKEN:
            return None
        if segment.type == RECALLED:
            written = {part: note_of(kept) for part, kept in texts.items()}
            if not all(written.values()):
                return None
        else:
            subjects = {outcome.part: outcome.subject for outcome in self.outcomes(segment)}
            written = {
                part: shown(kept, subjects.get(part, ""), segment.segment_id)
                for part, kept in texts.items()
            }
        shorter = with_texts(self.message(segment), written)
        if shorter is None:
            return None
        made = self.revised(segment, shorter)
        return made if made.tokens < segment.tokens else None

    def insert(self, message: Message, position: int, now: datetime) -> None:
        """Insert a message that a collection made, in place of others."""
        with self._editing():
            self._write(put=[self.stand_in(message, position, now)])

    def stand_in(self, message: Message, position: int, now: datetime) -> Segment:
        """Make a segment from a message that a collection puts in place of others."""
        kind, policy = _kind(message)
        return Segment(
            segment_id=message.message_id,
            type=GAP if kind == GAP else NOTE,
            created_at=now,
            text=self.form.said(message),
            raw="" if kind == GAP else self.form.write(message),
            tokens=self.counter(message),
            policy=policy,
            position=position,
            project_id=self.workspace,
        )

    def revised(self, segment: Segment, message: Message) -> Segment:
        """Return a segment with another message in it."""
        text, raw = self.form.said(message), self.form.write(message)
        self._drafts[segment.segment_id] = ReadMessage(raw, message)
        return replace(segment, text=text, raw=raw, tokens=self.counter(message))

    def revise(self, message: Message) -> None:
        """Replace the live message with the same id."""
        with self._editing():
            self._write(put=[self.revised(self._find(message.message_id), message)])

    def gaps(self) -> Gaps:
        """Return the maker of the lines that stand for swept messages."""
        return Gaps(self.message, self.form, self.counter)

    def note(self, excerpts: Sections, before: Segment) -> Segment:
        """Make a note of excerpts that comes right before a message."""
        name = f"{RECALLED}-{before.segment_id}"
        text = note_of(excerpts)
        return Segment(
            segment_id=name,
            type=RECALLED,
            created_at=before.created_at,
            text=text,
            tokens=self.counter(self.form.say(text, name)),
            position=before.position - 1,
            project_id=self.workspace,
        )


def was_said(segment: Segment) -> bool:
    """Whether a segment is a message that arrived, not one that a collection made."""
    return bool(segment.raw) and segment.type not in (NOTE, RECALLED)


def _kind(message: Message) -> tuple[str, GCPolicy]:
    """Return the type of a message's segment, and its policy, wherever the message is."""
    if message.role is Role.USER:
        if is_summary(message):
            return SUMMARY, GCPolicy.PRESERVABLE
        if left_out_in(message) is not None:
            return GAP, GCPolicy.EPHEMERAL
        if made_by_collection(message) is not None:
            return MESSAGE, GCPolicy.EPHEMERAL
    return MESSAGE, GCPolicy.EPHEMERAL if message.is_work else GCPolicy.PARTIAL
