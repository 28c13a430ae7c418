"""Tokens of a message, by default: each of its parts by itself, and a frame around them."""

from __future__ import annotations

import json
from collections.abc import Callable

from marksweep.messages.message import Counter, Message, Part
from marksweep.messages.text import result_sent
from marksweep.tokens import count, data_tokens, in_whole

MEDIA = {
    "image": "image/*",
    "image_url": "image/*",
    "input_image": "image/*",
    "computer_screenshot": "image/*",
    "document": "application/*",
    "input_file": "application/*",
    "file": "application/*",
}
"""Blocks in results that are not text, and what they are."""

HIDDEN_CHARACTERS_PER_TOKEN = 6
"""Of thoughts that only their provider can read: an estimate, from base64 of the words."""

FRAME = 4
"""Tokens that providers add around each message: its role and its borders."""


def count_message(message: Message) -> int:
    """Count a message; what we do not understand is counted as the JSON it is."""
    return FRAME + sum(map(_weigh, message.parts))


def as_passed(counter: Callable[..., float]) -> Counter:
    """Let a counter see messages in the form they were passed in, or neutral if it wants that.

    Which of the two it wants shows at the first message that it can count in one form only.
    """
    counter = in_whole(counter)
    wants_neutral = False

    def weigh(message: Message) -> int:
        nonlocal wants_neutral
        if wants_neutral or message.raw is None:
            return counter(message)
        try:
            return counter(message.raw)
        except (AttributeError, TypeError, KeyError):
            tokens = counter(message)
            wants_neutral = True
            return tokens

    return weigh


def _weigh(part: Part) -> int:
    if part.text is not None:
        return count(part.text)
    if part.function_call is not None:
        return count(part.function_call.name) + count(_arguments(part))
    if part.function_response is not None:
        return _weigh_result(part.function_response.result)
    if part.thought is not None:
        return count(part.thought) or _hidden(part.raw)
    if part.inline_data is not None:
        return data_tokens(part.inline_data.mime_type, part.inline_data.data)
    return count(json.dumps(part.raw, ensure_ascii=False, default=str)) if part.raw else 0


def _arguments(part: Part) -> str:
    """Give the arguments of a call as they are sent: the provider's own string, if it has one."""
    raw = part.raw if isinstance(part.raw, dict) else {}
    function = raw.get("function")
    sent = (function if isinstance(function, dict) else raw).get("arguments")
    args = part.function_call.args if part.function_call is not None else None
    if isinstance(sent, str):
        return sent
    if args is None:
        return ""
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)


def _weigh_result(value: object) -> int:
    """Count a result block by block, so that a picture weighs what it costs, not what it spells."""
    if isinstance(value, str):
        return count(value)
    if isinstance(value, list):
        return sum(map(_weigh_result, value))
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind in MEDIA:
        return data_tokens(MEDIA[kind], json.dumps(value, default=str))
    return count(result_sent(value))


def _hidden(raw: object) -> int:
    """Estimate thoughts that are encrypted."""
    kept = (raw.get("encrypted_content") or raw.get("data")) if isinstance(raw, dict) else None
    return len(kept) // HIDDEN_CHARACTERS_PER_TOKEN if isinstance(kept, str) else 0
