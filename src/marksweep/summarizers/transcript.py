"""A conversation as text, for a summarizer to read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

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


_encode = msgspec.json.Encoder(order="sorted").encode


def transcript(messages: Sequence[Message]) -> str:
    """Write messages as text, one paragraph each. Thoughts are left out, data is named."""
    asked: dict[str, str] = {}
    return "\n\n".join("\n".join(_lines(m, asked)) for m in messages if m.parts)


def _lines(message: Message, asked: dict[str, str]) -> Iterator[str]:
    """Write the parts of a message; `asked` names the tools that have not answered yet, by call."""
    speaker = SPEAKERS[message.role]
    for part in message.parts:
        if part.text:
            yield f"{speaker}: {part.text}"
        elif (call := part.function_call) is not None:
            asked[call.id] = call.name
            yield f"{speaker} calls {call.name}({plain(call.args)})"
        elif (result := part.function_response) is not None:
            outcome = "Error" if result.is_error else "Result"
            name = asked.pop(result.call_id, "")
            yield f"{outcome} of {result.name or name or 'a tool'}: {plain(result.result)}"
        elif part.inline_data:
            yield f"{speaker}: [{part.inline_data.mime_type}]"


def plain(value: object) -> str:
    """Write any value as text; what is not text as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(_encode(value), indent=0).decode()
    except (TypeError, ValueError, OverflowError):  # Lone surrogates, and values not in JSON.
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
