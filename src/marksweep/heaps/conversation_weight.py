"""Tokens of a message, by default: each of its parts by itself, and a frame around them."""

from __future__ import annotations

import json

from marksweep.heaps.conversation_text import result_text
from marksweep.messages import Message, Part
from marksweep.tokens import count, data_tokens

FRAME = 4
"""Tokens that providers add around each message: its role and its borders."""


def count_message(message: Message) -> int:
    """Count a message; what we do not understand is counted as the JSON it is."""
    return FRAME + sum(map(_weigh, message.parts))


def _weigh(part: Part) -> int:
    if part.text is not None:
        return count(part.text)
    if part.function_call is not None:
        args = part.function_call.args
        written = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
        return count(part.function_call.name) + (count(written) if args is not None else 0)
    if part.function_response is not None:
        return count(result_text(part.function_response.result))
    if part.thought is not None:
        return count(part.thought)
    if part.inline_data is not None:
        return data_tokens(part.inline_data.mime_type, part.inline_data.data)
    return count(json.dumps(part.raw, ensure_ascii=False, default=str)) if part.raw else 0
