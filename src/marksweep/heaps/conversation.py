"""The conversation heap: the messages of one conversation, each a segment.

A segment keeps the provider's message as JSON in `raw`, so that what was swept comes back to the
last field, also after a restart. What must be together is tied when a message arrives; the running
total of tokens is kept; so taking in one message does not depend on how many there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import msgspec

from marksweep.core.fingerprint import digest
from marksweep.dialects.base import Dialect, Json, message_of
from marksweep.dialects.editing import Line, saying, with_texts
from marksweep.heaps.conversation_known import Known, Trimmed
from marksweep.heaps.conversation_roots import Unanswered
from marksweep.heaps.conversation_stash import RECALLED
from marksweep.heaps.segments import SegmentHeap
from marksweep.messages import Counter, Message, Outcome, Place, Role, Text
from marksweep.messages.text import (
    as_json,
    outcomes_of,
    said_in,
    texts_of,
)
from marksweep.messages.turns import (
    NOTICE,
    made_by_collection,
    starts_turn,
    turn_name,
    turn_number,
)
from marksweep.model import GCPolicy, Hold, Link, Reference, Segment, Snapshot
from marksweep.stores.base import Store

MESSAGE = "message"
"""The type of segments that are messages."""

SUMMARY = "summary"
"""The type of segments that stand for messages: told by the user, composed from their text."""

SPOKEN = frozenset({MESSAGE, SUMMARY, RECALLED})
"""Types that are written as messages. Others only take room: a system prompt, tool schemas."""

replace = msgspec.structs.replace


class ConversationHeap(SegmentHeap):
    """The live messages of a conversation, written through to a store."""

    def __init__(self, store: Store, workspace: str, *, dialect: Dialect, counter: Counter) -> None:
        self.dialect = dialect
        self.counter = counter
        self._known: dict[int, Known] = {}
        """Live messages by position: of very many, numbers are found several times as quickly."""
        self._line: Line | None = None
        self._untold: list[Segment] = []
        self._is_still = False
        self._version = 0
        self._start_over()
        super().__init__(store, workspace, count_tokens=lambda _: 0)

    def _start_over(self) -> None:
        """Forget what follows from the messages so far; it is worked out again when needed."""
        self._tying = self.dialect.tying()
        self._told = 0
        self._enter_turn(-1)
        self._opened = False
        self._answering = False
        self._last_answer = 0

    def _enter_turn(self, turn: int) -> None:
        self._turn = turn
        self._topic = turn_name(turn)

    def speak(self, dialect: Dialect) -> None:
        """Read all messages in another dialect from now on."""
        with self._guard:
            self.dialect = dialect
            self._known.clear()
            self._line = None
            self._start_over()
            self._untold = list(self.view.live.values())

    @property
    def next_position(self) -> int:
        """Where the next message will stand, if nobody else adds one before."""
        return self._last_position + 1

    def append(self, messages: Sequence[Message], pinned_by: str, now: datetime) -> list[str]:
        """Take new messages in; give them their ids. `pinned_by` empty: they are not pinned."""
        with self._editing():
            self._catch_up()
            line = self._line
            segments = [
                self._segment(_named(message, at), at, pinned_by, now)
                for at, message in enumerate(messages, self.next_position)
            ]
            names = [segment.segment_id for segment in segments]
            try:
                self._refuse_known(names)
                self._write(put=segments)
            except BaseException:
                self.speak(self.dialect)
                raise
            self._untold.clear()
            if line is not None:
                line.extend(self._placed_messages(segments))
                self._line = line
            return names

    def _segment(self, message: Message, at: int, pinned_by: str, now: datetime) -> Segment:
        asked = {n: self._at(n) for n in self._tell(at, message)}
        self._known[at] = Known(message, _outcomes(message, asked.values()))
        said = said_in(message)
        return Segment(
            segment_id=message.message_id,
            type=MESSAGE,
            created_at=now,
            text=said,
            raw=as_json(message.raw),
            tokens=self.counter(message),
            pinned=bool(pinned_by),
            pinned_by=pinned_by,
            topic_id=self._topic,
            references=tuple([_answer(n, asked[n]) for n in asked]),
            policy=self._policy(message),
            position=at,
            project_id=self.workspace,
        )

    def _at(self, position: int) -> Message | None:
        """Give the message at a position, if it is still there."""
        name = _name(position)
        known = self._known.get(position)
        if known is not None and known.message.message_id == name:
            return known.message
        segment = self.view.live.get(name)
        return self.message(segment) if segment else None

    def _policy(self, message: Message) -> GCPolicy:
        """Say how easily a message may go that has just been told.

        Instructions and the first request are locked, and so is what stands first of all:
        providers want a history to begin with the user, whatever that first message is.
        """
        opens = not self._opened and message.role is not Role.MODEL
        self._opened = self._opened or message.role is not Role.SYSTEM
        if opens or message.role is Role.SYSTEM or (self._turn == 0 and starts_turn(message)):
            return GCPolicy.LOCKED
        made = made_by_collection(message)
        if made is not None:
            return GCPolicy.EPHEMERAL if made[0] == NOTICE else GCPolicy.PRESERVABLE
        is_work = message.function_calls or message.function_responses
        return GCPolicy.EPHEMERAL if is_work else GCPolicy.PARTIAL

    def _tell(self, at: int, message: Message) -> list[int]:
        """Work out what follows from the next message; give the positions it is tied to."""
        self._told = at
        if starts_turn(message):
            self._enter_turn(self._turn + 1)
        if message.role is Role.MODEL and not self._answering:
            self._last_answer = at
        self._answering = message.role is Role.MODEL
        return self._tying.feed(at, message)

    def unanswered(self) -> Unanswered:
        """Say what the model has not answered, and what that needs."""
        self._catch_up()
        return Unanswered(self._last_answer, frozenset(self._tying.held()))

    def _catch_up(self) -> None:
        """Take note of messages that came from the store: after a restart, or from others."""
        if not self._untold:
            return
        for segment in sorted(self._untold, key=lambda s: s.position):
            if segment.type == MESSAGE and segment.position > self._told:
                message = self.message(segment)
                self._tell(segment.position, message)
                self._opened = self._opened or message.role is not Role.SYSTEM
                self._enter_turn(max(self._turn, turn_number(segment.topic_id)))
        self._untold.clear()

    def _take_in(self, segments: Sequence[Segment]) -> None:
        digests: dict[str, int] = {}
        for segment in segments:
            known = self._known.get(segment.position)
            trimmed = known.trimmed if known else None
            if known and trimmed and trimmed.segment is segment:
                digests[segment.segment_id] = trimmed.digest
                known.message, known.outcomes, known.trimmed = trimmed.message, None, None
            elif segment.segment_id in self.view.live:
                self._known.pop(segment.position, None)
        self._put(segments, digests)
        self._untold += segments

    def _write(self, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()) -> None:
        self._line = None
        super()._write(put=put, remove=remove)

    def _start_anew(self) -> None:
        super()._start_anew()
        self._known.clear()

    def _let_go(self, segment_ids: Sequence[str]) -> list[Segment]:
        gone = super()._let_go(segment_ids)
        for segment in gone:
            self._known.pop(segment.position, None)
        return gone

    @contextmanager
    def still(self) -> Iterator[None]:
        """Do not look for what others did. For use while the store's lock keeps them out."""
        self.refresh()
        self._is_still = True
        try:
            yield
        finally:
            self._is_still = False

    def refresh(self) -> None:
        """Take in what other processes did."""
        if self._is_still:
            return
        version = self._version
        super().refresh()
        if self._version != version:
            self._line = None

    def fix(self, kind: str, value: Json, tokens: int, now: datetime) -> None:
        """Note something that takes room in every request and never goes, such as tool schemas."""
        text = value if isinstance(value, str) else json.dumps(value)
        with self._editing():
            old = self.view.live.get(kind)
            if old is not None and old.text == text and old.tokens == tokens:
                return
            segment = Segment(
                segment_id=kind,
                type=kind,
                created_at=now,
                text=text,
                tokens=tokens,
                policy=GCPolicy.LOCKED,
                position=old.position if old else self._last_position + 1,
                project_id=self.workspace,
            )
            self._write(put=[segment])

    def snapshot(self) -> Snapshot:
        """Take the conversation as it is now."""
        with self._guard:
            self.refresh()
            fingerprint = self.view.fingerprint()
            return Snapshot(self.view.in_order(), fingerprint, self.workspace, "conversation")

    def stored(self) -> list[Json]:
        """Give the live messages as they were stored, in whatever dialect that was."""
        return [json.loads(s.raw) for s in self.view.in_order() if s.type == MESSAGE]

    def message(self, segment: Segment) -> Message:
        """Give the message of a live segment."""
        return self._know(segment).message

    def _know(self, segment: Segment) -> Known:
        known = self._known.get(segment.position)
        if known is None or known.message.message_id != segment.segment_id:
            known = Known(self.read_back(segment))
            if segment.type == MESSAGE:
                self._known[segment.position] = known
        return known

    def read_back(self, segment: Segment) -> Message:
        """Read the message of a segment, live or swept."""
        if not segment.raw:
            return saying(self.dialect, segment.text, segment.segment_id)
        return message_of(self.dialect, json.loads(segment.raw), segment.segment_id)

    def weigh(self, text: str) -> int:
        """Count the tokens that a text would take as a message of its own."""
        return self.counter(saying(self.dialect, text, SUMMARY))

    def messages(self) -> list[Message]:
        """Give all live messages in order, written as the provider wants them."""
        with self._guard:
            self.refresh()
            if self._line is None:
                line = Line(self.dialect)
                line.extend(self._placed_messages(self.view.in_order()))
                self._line = line
            return list(self._line.messages)

    def _placed_messages(self, segments: Iterable[Segment]) -> Iterator[tuple[int, Message]]:
        return ((s.position, self._know(s).message) for s in segments if s.type in SPOKEN)

    def outcomes(self, segment: Segment) -> tuple[Outcome, ...]:
        """Give the results a message carries, each with the call it answers."""
        known = self._known.get(segment.position)
        if (
            known is not None
            and known.outcomes is not None
            and known.message.message_id == segment.segment_id
        ):
            return known.outcomes
        if segment.type != MESSAGE:
            return ()
        known, live = self._know(segment), self.view.live
        paired = [r.target for r in segment.references if r.hold is Hold.PAIRED]
        asked = [self.message(live[name]) for name in paired if name in live]
        known.outcomes = _outcomes(known.message, asked)
        return known.outcomes

    def texts(self, segment: Segment) -> tuple[Text, ...]:
        """Give the texts of a message; what is no message is one text."""
        if segment.type not in SPOKEN:
            return (Text((0, ()), segment.text),)
        name = segment.segment_id
        is_live = self.view.live.get(name) is segment
        return tuple(texts_of(self.message(segment) if is_live else self.read_back(segment)))

    def trimmed(self, segment: Segment, texts: Mapping[Place, str]) -> Segment | None:
        """Put shorter texts in their places; None if that does not make the message shorter."""
        known = self._know(segment)
        shorter = with_texts(known.message, texts, self.dialect)
        if shorter is None:
            return None
        tokens = self.counter(shorter)
        if tokens >= segment.tokens:
            return None
        made = replace(segment, text=said_in(shorter), raw=as_json(shorter.raw), tokens=tokens)
        known.trimmed = Trimmed(made, digest(made), shorter)
        return made

    def note(self, text: str, before: Segment) -> Segment:
        """Make a note that stands right in front of a message."""
        name = f"{RECALLED}-{before.segment_id}"
        return Segment(
            segment_id=name,
            type=RECALLED,
            created_at=before.created_at,
            text=text,
            tokens=self.counter(saying(self.dialect, text, name)),
            position=before.position - 1,
            project_id=self.workspace,
        )


def _name(position: int) -> str:
    """Name the message at a position."""
    return f"m{position}"


def _named(message: Message, position: int) -> Message:
    """Give a message the name of its position; mostly it was read with that name."""
    name = _name(position)
    return message if message.message_id == name else replace(message, message_id=name)


def _answer(position: int, asked: Message | None) -> Reference:
    """Refer to the message at a position: by the very string it goes by, if it is there.

    Equal strings that are one are found without being read, and take their room once.
    """
    name = asked.message_id if asked else _name(position)
    return Reference(name, Link.ANSWERS, Hold.PAIRED)


def _outcomes(message: Message, asked: Iterable[Message | None]) -> tuple[Outcome, ...]:
    """Give the results of a message that answers others."""
    for part in message.parts:
        if part.function_response is not None:
            break
    else:
        return ()
    return tuple(outcomes_of(message, [call for m in asked if m for call in m.function_calls]))
