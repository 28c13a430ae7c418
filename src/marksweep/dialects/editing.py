"""What a collection does to messages, written as their provider wants it. New values, never edits.

Line         messages in order, with seams where others were
saying       a new message, such as a summary
with_texts   other texts in the places of some, such as the lines worth keeping of a result
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Protocol

import msgspec

from marksweep.dialects.base import Dialect, Json, composed, with_parts
from marksweep.dialects.history import dialect_named
from marksweep.messages import Message, Part, Path, Place, Role

replace = msgspec.structs.replace


class JoiningRules(Protocol):
    """Says what must be joined; a dialect does."""

    def joins(self, before: Message, after: Message) -> bool:
        """Whether two messages that come next to each other must be written as one."""
        ...


class Line:
    """The messages that are left of a history, joined at the seams where that is needed."""

    def __init__(self, rules: JoiningRules) -> None:
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
            dialect = dialect_named(out[-1].dialect)
            out[-1] = with_parts(dialect, out[-1], [*out[-1].parts, *after.parts])


def saying(dialect: Dialect, text: str, message_id: str, role: Role = Role.USER) -> Message:
    """Make a new message, such as a summary. It may not be between a call and its result."""
    (message,) = composed(dialect, role, [Part(text=text)], message_id)
    return message


def with_texts(
    message: Message, texts: Mapping[Place, str], dialect: Dialect | None
) -> Message | None:
    """Put other texts in their places, in the form of the provider; None if nothing changes.

    A message that was never read from a provider's has no such form.
    """
    dialect = dialect if message.raw is not None else None
    parts = list(message.parts)
    for (at, path), text in texts.items():
        parts[at] = _with_text(parts[at], path, text, dialect)
    if all(map(is_, parts, message.parts)):
        return None
    raw = dialect.rebuild(message.raw, parts) if dialect else None
    return replace(message, parts=tuple(parts), raw=raw)


def _with_text(part: Part, path: Path, text: str, dialect: Dialect | None) -> Part:
    call, result = part.function_call, part.function_response
    if result is not None:
        if dialect is not None:
            return dialect.with_result(part, text)
        return Part(function_response=replace(result, result=text))
    if call is not None:
        arguments = _with_leaf(call.args, path, text)
        if dialect is not None:
            return dialect.with_arguments(part, arguments)
        return Part(function_call=replace(call, args=arguments))
    return _with_words(part, text) if dialect is not None else Part(text=text)


def _with_leaf(value: Json, path: Path, text: str) -> Json:
    """Give arguments with another text at the end of a way through them."""
    if not path:
        return text
    key, *rest = path
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[key] = _with_leaf(value[key], tuple(rest), text)  # type: ignore[index]
    return copied


def _with_words(part: Part, text: str) -> Part:
    """Give a text part with other words, in the form its provider has it.

    A text that is elsewhere in its block, as that of a document does, is left as it is.
    """
    raw = part.raw
    if isinstance(raw, dict):
        if raw.get("text") != part.text:
            return part
        raw = {**raw, "text": text}
    else:
        raw = text
    return replace(part, text=text, raw=raw)
