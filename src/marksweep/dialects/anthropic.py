"""Anthropic messages: user and assistant, each with content blocks.

    {"role": "assistant", "content": [{"type": "thinking", …}, {"type": "tool_use", "id": …}]}
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": …}, {"type": "text", …}]}

Consecutive messages of one role are read as one. The system prompt is not a message; a request
keeps it in `system`. What the system says later is a message between one of the user and one of the
assistant, and stays with both.
"""

from __future__ import annotations

from collections.abc import Sequence

from marksweep.dialects.anthropic_rules import RULES, client_result
from marksweep.dialects.base import Json, Rule, TiedByCalls, Tying, as_text, parts_of, role_in, word
from marksweep.messages import FunctionCall, InlineData, Message, Part, Role, ToolResult

ROLES = {"user": Role.USER, "assistant": Role.MODEL, "system": Role.SYSTEM}

SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
"""Calls that the provider runs itself. Their results are in the same turn of the assistant."""


class TyingSystem(Tying):
    """Ties what the system says to the user's message before it and the assistant's after it."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[int, Role] | None = None

    def feed(self, i: int, message: Message) -> list[int]:
        """Take the next message in; give the numbers of those it is tied to."""
        tied = super().feed(i, message)
        if self._last is not None and Role.SYSTEM in (message.role, self._last[1]):
            tied = sorted({*tied, self._last[0]})
        self._last = (i, message.role)
        return tied


class Anthropic(TiedByCalls):
    """Reads and writes Anthropic messages."""

    name = "anthropic"
    rules: tuple[Rule, ...] = RULES

    def tying(self) -> Tying:
        """Tie results to their calls, thoughts to what followed, the system to its neighbours."""
        return TyingSystem()

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Understand one message."""
        role = role_in(raw, ROLES)
        parts = tuple(parts_of(raw.get("content"), _part))
        if role is Role.USER and parts and all(part.function_response for part in parts):
            role = Role.TOOL
        return role, parts

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy the message with these parts."""
        blocks = [part.raw for part in parts]
        if len(blocks) == 1 and isinstance(blocks[0], str):
            return {**raw, "content": blocks[0]}
        blocks = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        return {**raw, "content": blocks}

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Make one message; results come first, and what was thought elsewhere is left out."""
        texts = [part.text for part in parts]
        if len(texts) == 1 and texts[0] is not None:
            content: Json = texts[0]
        else:
            results = [part for part in parts if part.function_response]
            rest = [part for part in parts if not part.function_response]
            content = [block for part in (*results, *rest) if (block := part.raw or _written(part))]
        return [{"role": "assistant" if role is Role.MODEL else "user", "content": content}]

    def answer(self, asked: Part, text: str) -> Part:
        """Make a result for a call."""
        call = asked.function_call or FunctionCall("", "")
        raw = {"type": "tool_result", "tool_use_id": call.id, "content": text}
        return Part(function_response=ToolResult(call.id, call.name, text), raw=raw)

    def with_call_id(self, part: Part, call_id: str) -> Part:
        """Give the same call or result under another id."""
        return _part({**part.raw, "id" if part.function_call else "tool_use_id": call_id})

    def with_result(self, part: Part, text: str) -> Part:
        """Replace what a result says; the results of server tools stay as they are."""
        if client_result(part) is None:
            return part
        return _part({**part.raw, "content": text})

    def with_arguments(self, part: Part, arguments: Json) -> Part:
        """Replace what a call asks for; the calls of server tools stay as they are."""
        if part.function_call is None or part.raw.get("type") in SERVER_CALLS:
            return part
        return _part({**part.raw, "input": arguments})


def _part(block: dict[str, Json]) -> Part:
    """Understand one block."""
    kind = word(block.get("type"))
    if kind == "text":
        return Part(text=word(block.get("text")), raw=block)
    if kind == "tool_use" or kind in SERVER_CALLS:
        call = FunctionCall(word(block.get("id")), word(block.get("name")), block.get("input"))
        return Part(function_call=call, raw=block)
    if kind.endswith("tool_result"):
        is_error = block.get("is_error") is True
        result = ToolResult(word(block.get("tool_use_id")), "", block.get("content"), is_error)
        return Part(function_response=result, raw=block)
    if kind in ("thinking", "redacted_thinking"):
        return Part(thought=word(block.get("thinking")), raw=block)
    if kind in ("image", "document"):
        return _media(kind, block)
    return Part(raw=block)


def _media(kind: str, block: dict[str, Json]) -> Part:
    source = block.get("source")
    if not isinstance(source, dict):
        return Part(raw=block)
    if source.get("type") == "text":
        return Part(text=word(source.get("data")), raw=block)
    mime = word(source.get("media_type")) or ("image/*" if kind == "image" else "application/pdf")
    data = word(source.get("data") or source.get("url") or source.get("file_id"))
    return Part(inline_data=InlineData(mime, data), raw=block)


def _written(part: Part) -> Json:
    """Make a block of a neutral part; nothing for a thought, which only its model can sign."""
    if part.text:
        return {"type": "text", "text": part.text}
    if part.function_call:
        call = part.function_call
        given = call.args if isinstance(call.args, dict) else {}
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}
    if part.function_response:
        result = part.function_response
        block = {"type": "tool_result", "tool_use_id": result.call_id}
        block["content"] = as_text(result.result)
        return {**block, "is_error": True} if result.is_error else block
    if part.inline_data:
        return _written_media(part.inline_data)
    return None


def _written_media(media: InlineData) -> Json:
    kind = "image" if media.mime_type.startswith("image/") else "document"
    if "://" in media.data[:16]:
        return {"type": kind, "source": {"type": "url", "url": media.data}}
    mime, data = media.mime_type, media.data
    if data.startswith("data:") and ";base64," in data:
        mime, data = data.removeprefix("data:").split(";base64,", 1)
    return {"type": kind, "source": {"type": "base64", "media_type": mime, "data": data}}


ANTHROPIC = Anthropic()
