"""What is passed to a conversation, read; and the dialect it turns out to be in.

Plain text is the same in several dialects, so a conversation settles on one only when a message has
its marks. A system prompt and tools take room in every request, and are kept as what is fixed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from marksweep.dialects import Skipped, dialect_named, read
from marksweep.dialects.base import Json
from marksweep.dialects.detecting import marks_in
from marksweep.dialects.history import LISTS, History, insist_on
from marksweep.errors import BadInput
from marksweep.heaps.conversation import ConversationHeap
from marksweep.heaps.forms import ProviderForm
from marksweep.messages import Message
from marksweep.tokens import count

PLAIN = "openai_chat"
"""The dialect of a conversation that has been plain text so far."""

TRANSCRIPTS = ("claude_code", "codex")
"""Dialects whose lines hold messages of others."""


class Intake:
    """Reads for one heap."""

    def __init__(self, heap: ConversationHeap, dialect: str | None) -> None:
        self._heap = heap
        self.dialect = dialect or PLAIN
        """The format of the messages."""
        self._is_sure = dialect is not None
        self.skipped: list[Skipped] = []
        self.learn(heap.stored())

    def read(self, messages: Json, now: datetime) -> History:
        """Read messages or a whole request, and fix what of it takes room in every request."""
        if isinstance(messages, dict):
            if not self._is_sure:
                self._speak(read(messages).dialect)
            self.learn(messages.get(LISTS.get(self.dialect, "")))
        else:
            self.learn(messages)
        start = self._heap.next_position
        history = insist_on(read(messages, self.dialect, start=start), stacklevel=4)
        self.skipped += history.skipped
        if isinstance(messages, dict):
            self.fix("system", history.system.raw if history.system else None, now)
            self.fix("tools", messages.get("tools"), now)
        return history

    def fix(self, kind: str, value: Json, now: datetime) -> None:
        """Count something that takes room in every request; None is nothing."""
        if value is not None:
            text = _as_text(value)
            self._heap.set_overhead(kind, kind, count(text), now, text=text)

    def learn(self, values: Json) -> None:
        """Settle on a dialect if one of these messages has its marks."""
        if self._is_sure or isinstance(values, str) or not isinstance(values, Sequence):
            return
        named = [m.dialect for m in values if isinstance(m, Message) and m.dialect]
        found = list(dict.fromkeys(named)) or marks_in(values)
        if len(found) > 1 and found[0] not in TRANSCRIPTS:
            raise BadInput(
                f"messages of {' and '.join(found)} in one conversation. Pass dialect=, or convert "
                "them first: `written(read(messages).messages, dialect)`."
            )
        if found:
            self._speak(found[0])

    def _speak(self, dialect: str) -> None:
        self._is_sure = True
        if dialect != self.dialect:
            self.dialect = dialect
            self._heap.set_form(ProviderForm(dialect_named(dialect)))


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
