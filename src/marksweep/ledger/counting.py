"""Tokens of a message, and how to count each message only once."""

from __future__ import annotations

import json

from marksweep.messages import Counter, Message, Part
from marksweep.tokens import count, data_tokens

FRAME = 4
"""Tokens that providers add around each message: its role and its borders."""


def count_message(message: Message) -> int:
    """Tokens of a message: each part by itself, and the frame around them."""
    return FRAME + sum(map(_part_tokens, message.parts))


def _part_tokens(part: Part) -> int:
    if part.text is not None:
        return count(part.text)
    if part.function_call is not None:
        return count(part.function_call.name) + count(_text(part.function_call.args))
    if part.function_response is not None:
        return count(_text(part.function_response.result))
    if part.thought is not None:
        return count(part.thought)
    if part.inline_data is not None:
        return data_tokens(part.inline_data.mime_type, part.inline_data.data)
    return 0


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


class CountOnce:
    """A counter that remembers. Messages are frozen, so a count holds as long as the message."""

    def __init__(self, counter: Counter = count_message) -> None:
        self._counter = counter
        self._known: dict[str, tuple[Message, int]] = {}

    def __call__(self, message: Message) -> int:
        """Tokens of a message, counted when it is first seen."""
        known = self._known.get(message.message_id)
        if known is not None and known[0] is message:
            return known[1]
        tokens = self._counter(message)
        self._known[message.message_id] = (message, tokens)
        return tokens

    def forget(self, message: Message) -> None:
        """Let go of a message that has left the history."""
        self._known.pop(message.message_id, None)
