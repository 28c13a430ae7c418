"""Replaces results by a text, as a heap does."""

from __future__ import annotations

from collections.abc import Callable

from marksweep.dialects.base import Dialect, with_parts
from marksweep.messages import Message, Part


def with_text(dialect: Dialect, message: Message, say: Callable[[Part], str | None]) -> Message:
    """Replace each result for which `say` returns a text."""
    parts = list(message.parts)
    for k, part in enumerate(parts):
        text = say(part) if part.function_response is not None else None
        if text is not None:
            parts[k] = dialect.with_result(part, text)
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return with_parts(dialect, message, parts)
