"""OpenAI Responses: `input` is a flat list of items, matched by `call_id`.

{"type": "reasoning", "id": …, "encrypted_content": …}
{"type": "function_call", "call_id": …, "name": …, "arguments": "…"}
{"type": "function_call_output", "call_id": …, "output": "…"}
"""

from __future__ import annotations

from collections.abc import Sequence

from marksweep.dialects.base import (
    Json,
    Rule,
    TiedByCalls,
    Unreadable,
    as_text,
    as_url,
    decoded,
    encoded,
    parts_of,
    role_in,
    word,
)
from marksweep.dialects.openai_responses_rules import RULES
from marksweep.messages import FunctionCall, InlineData, Part, Role, ToolResult

ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.MODEL,
}

CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
"""Items that ask for a call, and where each keeps its arguments. Each is answered by an item of
type `<its type>_output`. Other `…_call` items are run by the provider and hold their result."""

OUTPUTS = {f"{kind}_output": kind for kind in CALLS}

TEXTS = ("input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text")


class OpenAIResponses(TiedByCalls):
    """Reads and writes Responses items."""

    name = "openai_responses"
    rules: tuple[Rule, ...] = RULES

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Understand one item."""
        if not isinstance(raw, dict):
            raise Unreadable(f"{type(raw).__name__} where an item object was expected")
        kind = word(raw.get("type")) or ("message" if "role" in raw else "")
        if kind == "message":
            return role_in(raw, ROLES), tuple(parts_of(raw.get("content"), _part))
        if kind in CALLS:
            name = word(raw.get("name")) or kind
            call = FunctionCall(word(raw.get("call_id")), name, decoded(raw.get(CALLS[kind])))
            return Role.MODEL, (Part(function_call=call, raw=raw),)
        if kind in OUTPUTS:
            result = ToolResult(word(raw.get("call_id")), word(raw.get("name")), raw.get("output"))
            return Role.TOOL, (Part(function_response=result, raw=raw),)
        if kind == "reasoning":
            return Role.MODEL, (Part(thought=_thought(raw), raw=raw),)
        if kind:
            return Role.MODEL, (Part(raw=raw),)
        raise Unreadable("an item without type or role")

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy the item with these parts."""
        if not parts:
            return {**raw, "content": ""}
        if "content" not in raw or raw.get("type", "message") != "message":
            return parts[0].raw
        blocks = [part.raw for part in parts]
        if len(blocks) == 1 and isinstance(blocks[0], str):
            return {**raw, "content": blocks[0]}
        kind = "output_text" if raw.get("role") == "assistant" else "input_text"
        blocks = [{"type": kind, "text": b} if isinstance(b, str) else b for b in blocks]
        return {**raw, "content": blocks}

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Make items: one for all that is said, one per call and result."""
        items: list[Json] = []
        said = [part for part in parts if part.text is not None or part.inline_data]
        others = [part for part in parts if part.function_call or part.function_response]
        if said or not others:
            items.append(_message(role, said))
        for part in others:
            if part.raw is not None:
                items.append(part.raw)
            elif part.function_call:
                call = part.function_call
                args = encoded(call.args if call.args is not None else {})
                item = {"type": "function_call", "call_id": call.id, "name": call.name}
                items.append({**item, "arguments": args})
            elif part.function_response:
                result = part.function_response
                output = as_text(result.result)
                item = {"type": "function_call_output", "call_id": result.call_id}
                items.append({**item, "output": output})
        return items

    def answer(self, asked: Part, text: str) -> Part:
        """Make a result for a call, of the kind its call wants."""
        call = asked.function_call or FunctionCall("", "")
        kind = asked.raw["type"] if asked.raw else "function_call"
        raw = {"type": f"{kind}_output", "call_id": call.id, "output": text}
        return Part(function_response=ToolResult(call.id, call.name, text), raw=raw)

    def with_call_id(self, part: Part, call_id: str) -> Part:
        """Give the same call or result under another id."""
        _, parts = self.read({**part.raw, "call_id": call_id})
        return parts[0]

    def with_result(self, part: Part, text: str) -> Part:
        """Replace what a result says."""
        if part.function_response is None or isinstance(part.raw.get("output"), dict):
            return part
        _, parts = self.read({**part.raw, "output": text})
        return parts[0]

    def with_arguments(self, part: Part, arguments: Json) -> Part:
        """Replace what a function call asks for; other calls stay as they are."""
        if part.function_call is None or part.raw.get("type") != "function_call":
            return part
        _, parts = self.read({**part.raw, "arguments": encoded(arguments)})
        return parts[0]


def _part(block: dict[str, Json]) -> Part:
    kind = block.get("type")
    if kind in TEXTS:
        text = block.get("text", block.get("refusal"))
        return Part(text=word(text), raw=block)
    if kind == "input_image":
        address = word(block.get("image_url") or block.get("file_id"))
        return Part(inline_data=InlineData("image/*", address), raw=block)
    if kind == "input_file":
        held = word(block.get("file_data") or block.get("file_url") or block.get("file_id"))
        return Part(inline_data=InlineData("application/*", held), raw=block)
    if kind == "input_audio":
        return Part(inline_data=InlineData("audio/*", word(block.get("data"))), raw=block)
    return Part(raw=block)


def _thought(raw: dict[str, Json]) -> str:
    """Give what a reasoning item shows of itself; what is encrypted stays in `raw`."""
    shown = [*_list(raw.get("summary")), *_list(raw.get("content"))]
    return "\n".join(word(item.get("text")) for item in shown if isinstance(item, dict))


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _message(role: Role, parts: Sequence[Part]) -> Json:
    written = {Role.SYSTEM: "system", Role.MODEL: "assistant"}.get(role, "user")
    if all(part.inline_data is None for part in parts):
        text = "\n".join(part.text or "" for part in parts)
        return {"type": "message", "role": written, "content": text}
    content: list[Json] = []
    for part in parts:
        if part.inline_data is None:
            content.append({"type": "input_text", "text": part.text})
        elif part.inline_data.mime_type.startswith("image/"):
            address = as_url(part.inline_data.mime_type, part.inline_data.data)
            content.append({"type": "input_image", "image_url": address})
        else:
            address = as_url(part.inline_data.mime_type, part.inline_data.data)
            content.append({"type": "input_file", "file_data": address})
    return {"type": "message", "role": written, "content": content}


OPENAI_RESPONSES = OpenAIResponses()
