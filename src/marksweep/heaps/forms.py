"""How a conversation heap names its messages, keeps them in segments and reads them back.

ProviderForm   messages of one provider, kept as the JSON it sent: what `Conversation` holds
NeutralForm    neutral messages, kept as JSON with all their fields: what `Session` holds
HeldForm       messages as they are, in memory: for a heap that lives for one collection
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

import msgspec

from marksweep.dialects import dialect_named
from marksweep.dialects.base import Dialect, TiedByCalls, Tying, message_of
from marksweep.dialects.editing import JoiningRules, saying
from marksweep.messages import Message, Part, Role, as_json, said_in
from marksweep.model import Segment

replace = msgspec.structs.replace


class Rules(JoiningRules, Protocol):
    """What messages ask for when others go: a dialect says so, and so does the neutral form."""

    def tying(self) -> Tying:
        """Begin to say which messages are valid only together."""
        ...


class MessageForm(Protocol):
    """A way to keep messages."""

    @property
    def rules(self) -> Rules:
        """Which messages belong together."""
        ...

    def named(self, message: Message, position: int) -> Message:
        """Give a new message the id it is known by in the heap."""
        ...

    def write(self, message: Message) -> str:
        """Give what a segment keeps of a message in `raw`."""
        ...

    def said(self, message: Message) -> str:
        """Give what a segment says in `text`, for people and for search."""
        ...

    def read(self, segment: Segment) -> Message:
        """Read the message of a segment, live or swept."""
        ...

    def say(self, text: str, message_id: str) -> Message:
        """Make a new message in the user's voice, such as a summary."""
        ...


class ProviderForm:
    """Messages in one provider's format, named by their position: m1, m2, …"""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    @property
    def rules(self) -> Rules:
        """Which messages belong together."""
        return self.dialect

    def named(self, message: Message, position: int) -> Message:
        """Name a message by its position; mostly it was read with that name."""
        name = f"m{position}"
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
        """Make a message of this provider."""
        return saying(self.dialect, text, message_id)


class NeutralForm:
    """Neutral messages under their own ids, whatever format they were read from."""

    def __init__(self, dialect: str = "") -> None:
        self.rules: Rules = dialect_named(dialect) if dialect else TiedByCalls()

    def named(self, message: Message, position: int) -> Message:  # noqa: ARG002
        """Leave a message its id."""
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


class HeldForm(NeutralForm):
    """Neutral messages that are held, not written: a segment keeps the name of its message's form.

    No two different messages ever have the same name, so a strategy that remembers messages from
    one collection to the next sees by it whether one has changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, Message] = {}
        self._forms: dict[str, tuple[str, ...]] = {}
        """The names of all forms of a message, by its id."""
        self._count = 0

    def speak(self, messages: Iterable[Message]) -> None:
        """Use the rules of the dialect that most of these messages were read in."""
        named = Counter(message.dialect for message in messages if message.dialect)
        self.rules = dialect_named(named.most_common(1)[0][0]) if named else TiedByCalls()

    def said(self, message: Message) -> str:
        """Say its words only: nobody searches what is held for one collection."""
        return message.text

    def write(self, message: Message) -> str:
        """Hold a message; give the name of its form."""
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
        """Give the message that is held."""
        held = self._held.get(segment.raw)
        return held if held is not None else self.say(segment.text, segment.segment_id)

    def forget_all_but(self, names: Iterable[str]) -> None:
        """Evict all forms but these, once the others are the most."""
        kept = set(names)
        if len(self._held) <= 2 * len(kept):
            return
        self._held = {name: each for name, each in self._held.items() if name in kept}
        self._forms = {}
        for name, message in self._held.items():
            forms = self._forms.get(message.message_id, ())
            self._forms[message.message_id] = (*forms, name)
