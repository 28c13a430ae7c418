"""How a conversation heap names its messages, keeps, reads and edits them.

ProviderForm   messages of one provider, kept as the JSON it sent: what `Conversation` holds
NeutralForm    neutral messages, kept as JSON with all their fields: what `Session` holds
InMemoryForm   message objects: for a heap that lives for one collection

What a collection changes is written in the provider's format. New values, never edits.

Line         messages in order, joined where others were removed
with_texts   other texts in the places of some, such as the lines worth keeping of a result
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from operator import is_
from typing import Protocol

import msgspec

from marksweep.dialects import dialect_named
from marksweep.dialects.base import (
    Dialect,
    TiedByCalls,
    Tying,
    composed,
    message_of,
    with_parts,
)
from marksweep.messages import Message, Part, Role, as_json, said_in
from marksweep.model import Segment

replace = msgspec.structs.replace


class Rules(Protocol):
    """What messages require when others go: implemented by dialects and by the neutral form."""

    def tying(self) -> Tying:
        """Return a new `Ties`, which finds messages that are valid only together."""
        ...

    def joins(self, before: Message, after: Message) -> bool:
        """Whether two adjacent messages must be written as one."""
        ...


class MessageForm(Protocol):
    """A way to keep messages."""

    @property
    def rules(self) -> Rules:
        """Which messages belong together."""
        ...

    def named(self, message: Message, position: int) -> Message:
        """Return a new message with its id in the heap."""
        ...

    def write(self, message: Message) -> str:
        """Return what a segment keeps of a message in `raw`."""
        ...

    def said(self, message: Message) -> str:
        """Return the `text` of a segment, for people and for search."""
        ...

    def read(self, segment: Segment) -> Message:
        """Read the message of a segment, live or swept."""
        ...

    def say(self, text: str, message_id: str) -> Message:
        """Make a new message in the user's voice, such as a summary."""
        ...


class ProviderForm:
    """Messages in one provider's format, named by their position: m1, m2, …"""

    def __init__(self, dialect: Dialect, ids: str = "m") -> None:
        self.dialect = dialect
        self._ids = ids

    @property
    def rules(self) -> Rules:
        """Which messages belong together."""
        return self.dialect

    def named(self, message: Message, position: int) -> Message:
        """Name a message by its position; usually it was read with that name."""
        name = f"{self._ids}{position}"
        return message if message.message_id == name else replace(message, message_id=name)

    def write(self, message: Message) -> str:
        """Keep what the provider sent."""
        return as_json(message.raw)

    def said(self, message: Message) -> str:
        """Say everything but thoughts."""
        return said_in(message)

    def read(self, segment: Segment) -> Message:
        """Read what the provider sent; what was made here is only text."""
        if not segment.raw:
            return self.say(segment.text, segment.segment_id)
        return message_of(self.dialect, json.loads(segment.raw), segment.segment_id)

    def say(self, text: str, message_id: str) -> Message:
        """Make a message of this provider. It may not be between a call and its result."""
        (message,) = composed(self.dialect, Role.USER, [Part(text=text)], message_id)
        return message


class NeutralForm:
    """Neutral messages under their own ids, whatever format they were read from."""

    def __init__(self, dialect: str = "") -> None:
        self.rules: Rules = dialect_named(dialect) if dialect else TiedByCalls()

    def named(self, message: Message, position: int) -> Message:  # noqa: ARG002
        """Keep the message's id."""
        return message

    def said(self, message: Message) -> str:
        """Say everything but thoughts."""
        return said_in(message)

    def write(self, message: Message) -> str:
        """Keep every field. A result that is not plain data is kept as text."""
        return as_json(msgspec.to_builtins(message, enc_hook=str))

    def read(self, segment: Segment) -> Message:
        """Read every field."""
        if not segment.raw:
            return self.say(segment.text, segment.segment_id)
        return msgspec.convert(json.loads(segment.raw), Message)

    def say(self, text: str, message_id: str) -> Message:
        """Make a neutral message."""
        return Message(Role.USER, (Part(text=text),), message_id)


class InMemoryForm(NeutralForm):
    """Neutral messages held in memory: a segment stores the name of its message's form.

    No two different messages ever have the same name, so a strategy that remembers messages from
    one collection to the next can tell by the name whether one has changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, Message] = {}
        self._forms: dict[str, tuple[str, ...]] = {}
        """The names of all forms of a message, by its id."""
        self._count = 0

    def use_dialect_of(self, messages: Iterable[Message]) -> None:
        """Use the rules of the dialect that most of these messages were read in."""
        named = Counter(message.dialect for message in messages if message.dialect)
        self.rules = dialect_named(named.most_common(1)[0][0]) if named else TiedByCalls()

    def said(self, message: Message) -> str:
        """Return its words only: nobody searches messages held for one collection."""
        return message.text

    def write(self, message: Message) -> str:
        """Store a message; return the name of its form."""
        forms = self._forms.get(message.message_id, ())
        for name in forms:
            known = self._held[name]
            if known is message or known == message:
                return name
        self._count += 1
        name = f"{message.message_id} {self._count}"
        self._held[name] = message
        self._forms[message.message_id] = (*forms, name)
        return name

    def read(self, segment: Segment) -> Message:
        """Return the stored message."""
        held = self._held.get(segment.raw)
        return held if held is not None else self.say(segment.text, segment.segment_id)

    def forget_all_but(self, names: Iterable[str]) -> None:
        """Evict all forms but these, once the others are the majority."""
        kept = set(names)
        if len(self._held) <= 2 * len(kept):
            return
        self._held = {name: each for name, each in self._held.items() if name in kept}
        self._forms = {}
        for name, message in self._held.items():
            forms = self._forms.get(message.message_id, ())
            self._forms[message.message_id] = (*forms, name)


class Line:
    """The remaining messages of a history, joined where others were removed if needed."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._last = -1
        self.messages: list[Message] = []

    def extend(self, placed: Iterable[tuple[int, Message]]) -> None:
        """Add messages, each with its place in the history."""
        out, last = self.messages, self._last
        for at, message in placed:
            out.append(message)
            if at > last + 1:
                self._join_end()
            last = at
        self._last = last

    def _join_end(self) -> None:
        """Join the last messages for as long as they must be written as one."""
        out = self.messages
        while len(out) > 1 and self._rules.joins(out[-2], out[-1]):
            after = out.pop()
            out[-1] = _joined(out[-1], after)


def _joined(before: Message, after: Message) -> Message:
    """Write two messages as one: in their provider's form, if both were read from it."""
    parts = (*before.parts, *after.parts)
    if before.raw is None or after.raw is None:
        return replace(before, parts=parts, raw=None)
    return with_parts(dialect_named(before.dialect), before, parts)


def with_texts(message: Message, texts: Mapping[int, str]) -> Message | None:
    """Replace texts, by part, in the form of the provider; None if nothing changes.

    A message that was never read from a provider's has no such form.
    """
    is_read = message.raw is not None and message.dialect
    dialect = dialect_named(message.dialect) if is_read else None
    parts = list(message.parts)
    for at, text in texts.items():
        parts[at] = _with_text(parts[at], text, dialect)
    if all(map(is_, parts, message.parts)):
        return None
    raw = dialect.rebuild(message.raw, parts) if dialect else None
    return replace(message, parts=tuple(parts), raw=raw)


def _with_text(part: Part, text: str, dialect: Dialect | None) -> Part:
    """Return a part that says something else; a call stays as the agent wrote it."""
    result = part.function_response
    if result is not None:
        if dialect is not None:
            return dialect.with_result(part, text)
        return Part(function_response=replace(result, result=text))
    if part.function_call is not None:
        return part
    return _with_words(part, text) if dialect is not None else Part(text=text)


def _with_words(part: Part, text: str) -> Part:
    """Return a text part with another text, in its provider's form.

    A text that is elsewhere in its block, as in a document, is left unchanged.
    """
    raw = part.raw
    if isinstance(raw, dict):
        if raw.get("text") != part.text:
            return part
        raw = {**raw, "text": text}
    else:
        raw = text
    return replace(part, text=text, raw=raw)
