"""A conversation as text, for a summarizer to read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from marksweep.messages import Message, Role

SPEAKERS = {
    Role.USER: "User",
    Role.MODEL: "Assistant",
    Role.TOOL: "Tool",
    Role.SYSTEM: "System",
}

TALK = tuple(f"{speaker}: " for speaker in SPEAKERS.values())
"""How a paragraph of talk starts."""

OUTPUT = ("Result of ", "Error of ")
"""How a paragraph starts that a tool returned."""


_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str)


def transcript(messages: Sequence[Message]) -> str:
    """Write messages out, one paragraph each. Thoughts are left out, data is named."""
    return "\n\n".join("\n".join(_lines(message)) for message in messages if message.parts)


def _lines(message: Message) -> Iterator[str]:
    speaker = SPEAKERS[message.role]
    for part in message.parts:
        if part.text:
            yield f"{speaker}: {part.text}"
        elif part.function_call:
            yield f"{speaker} calls {part.function_call.name}({plain(part.function_call.args)})"
        elif part.function_response:
            outcome = "Error" if part.function_response.is_error else "Result"
            name = part.function_response.name or part.function_response.call_id
            yield f"{outcome} of {name}: {plain(part.function_response.result)}"
        elif part.inline_data:
            yield f"{speaker}: [{part.inline_data.mime_type}]"


def plain(value: object) -> str:
    """Write any value as text; what is not text as JSON."""
    if isinstance(value, str):
        return value
    return _JSON.encode(value)
