"""OpenAI chat completions: `messages` of role, content and tool calls, and the rules for them.

    {"role": "assistant", "content": "…", "tool_calls": [{"id": …, "function": {…}}]}
    {"role": "tool", "tool_call_id": …, "content": "…"}

Many servers use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from marksweep.dialects import base, rulebook
from marksweep.dialects.base import Fault, Json, Messages, Rule, Slot, word
from marksweep.dialects.rulebook import Answers, each_message, results_after, separately
from marksweep.messages import FunctionCall, InlineData, Message, Part, Role, ToolResult

replace = msgspec.structs.replace

FUNCTION_CALLING = "https://platform.openai.com/docs/guides/function-calling"
API_REFERENCE = "https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages"

ANSWERS = Answers(each_message, results_after, separately)


_repeated_ids = rulebook.repeated_ids(
    base.call_of, "a tool call has no id, or that of another in the same message"
)


def _repeated_in_message(messages: Messages) -> dict[Slot, str]:
    """Find calls without an id, or with that of another in the same message."""
    return {
        Slot(i, slot.part): what
        for i, message in enumerate(messages)
        for slot, what in _repeated_ids([message]).items()
    }


def _late_system(messages: Messages) -> list[int]:
    front = next((i for i, m in enumerate(messages) if m.role is not Role.SYSTEM), len(messages))
    return [i for i in range(front, len(messages)) if messages[i].role is Role.SYSTEM]


def _system_late(messages: Messages) -> Iterator[Fault]:
    for i in _late_system(messages):
        yield Fault(i, "a system message comes after other messages")


def _system_to_front(_: base.Dialect, messages: Messages) -> base.Repaired:
    late = _late_system(messages)
    ordered = sorted(messages, key=lambda message: message.role is not Role.SYSTEM)
    return ordered, [Fault(i, "moved a system message to the front") for i in late]


def _says_nothing(message: Message) -> bool:
    if message.role is Role.TOOL:
        return message.raw.get("content") is None
    if any(part.thought is None for part in message.parts):
        return False
    return not any(message.raw.get(field) for field in ("refusal", "audio"))


def _content_missing(messages: Messages) -> Iterator[Fault]:
    for i, message in enumerate(messages):
        if _says_nothing(message):
            yield Fault(i, "a message has neither content nor tool calls")


def _repair_content(dialect: base.Dialect, messages: Messages) -> base.Repaired:
    out = list(messages)
    faults = list(_content_missing(messages))
    for fault in faults:
        message = messages[fault.position]
        if message.role is Role.TOOL:
            parts = [dialect.with_result(message.parts[0], "")]
        else:
            parts = [*message.parts, Part(text="", raw="")]
        out[fault.position] = base.with_parts(dialect, message, parts)
    return out, [Fault(fault.position, "set empty content") for fault in faults]


RULES = (
    Rule(
        "system-first",
        f"{API_REFERENCE}: developer and system messages carry instructions the model follows "
        "whatever the user says. Chat templates of compatible servers answer "
        "'System message must be at the beginning'.",
        "Move system and developer messages to the front.",
        _system_late,
        _system_to_front,
    ),
    Rule(
        "content-present",
        f"{API_REFERENCE}: content is required unless tool_calls is given. The API answers "
        "\"Invalid value for 'content': expected a string, got null\".",
        "Give the message content, an empty text if there is none.",
        _content_missing,
        _repair_content,
    ),
    Rule(
        "call-ids-unique",
        f"{FUNCTION_CALLING}: each call has a unique id, by which its output is matched.",
        "Give each call of a message its own id, and the same id to its tool message.",
        *rulebook.renaming(_repeated_in_message, ANSWERS),
    ),
    Rule(
        "results-have-calls",
        "The API answers \"messages with role 'tool' must be a response to a preceding message "
        f"with 'tool_calls'\"; {FUNCTION_CALLING}.",
        "Drop the tool message, or put back the assistant message that asked for it.",
        *rulebook.results_without_call(
            ANSWERS, "a tool message answers {result.call_id!r}, which no call asks for"
        ),
    ),
    Rule(
        "results-follow-calls",
        "The API answers \"An assistant message with 'tool_calls' must be followed by tool "
        f"messages responding to each 'tool_call_id'\"; {FUNCTION_CALLING}.",
        "Move the tool message directly behind the assistant message that asked for it.",
        *rulebook.results_astray(
            ANSWERS, "a tool message does not follow the call in message {last}"
        ),
    ),
    Rule(
        "calls-answered",
        'The API answers "The following tool_call_ids did not have response messages"; '
        f"{FUNCTION_CALLING}. A call at the very end may still be waiting.",
        "Add a tool message for each call that has none.",
        *rulebook.calls_unanswered(ANSWERS, "call {call.id!r} has no tool message"),
    ),
)
"""In the order in which a repair applies them."""


ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.MODEL,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}

WRITTEN = {Role.SYSTEM: "system", Role.USER: "user", Role.MODEL: "assistant", Role.TOOL: "tool"}

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which compatible servers put the model's reasoning."""


class OpenAIChat(base.TiedByCalls):
    """Reads and writes chat completions messages."""

    name = "openai_chat"
    rules: tuple[Rule, ...] = RULES

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Parse one message."""
        role = base.role_in(raw, ROLES)
        content = raw.get("content")
        if role is Role.TOOL:
            name = word(raw.get("name"))
            call_id = word(raw.get("tool_call_id")) or _legacy_id(name)
            result = ToolResult(call_id, name, content)
            return role, (Part(function_response=result, raw=content),)
        return role, (*_thoughts(raw), *base.parts_of(content, _part), *_calls(raw))

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy the message with these parts."""
        new = dict(raw)
        results = [part for part in parts if part.function_response]
        if results:
            new["content"] = results[0].raw
            if "tool_call_id" in raw:
                new["tool_call_id"] = results[0].function_response.call_id  # type: ignore[union-attr]
            return new
        legacy = raw.get("function_call")
        calls = [part for part in parts if part.function_call]
        blocks = [part.raw for part in parts if not part.function_call and part.thought is None]
        new["tool_calls"] = [part.raw for part in calls if part.raw is not legacy]
        if not any(part.raw is legacy for part in calls):
            new.pop("function_call", None)
        if not new["tool_calls"]:
            del new["tool_calls"]
        if not blocks:
            new["content"] = None if calls else ""
        elif len(blocks) == 1 and isinstance(blocks[0], str):
            new["content"] = blocks[0]
        else:
            new["content"] = [_block(block) for block in blocks]
        return new

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Make messages: one per result, one for all the rest."""
        results = [
            {
                "role": "tool",
                "tool_call_id": part.function_response.call_id,
                "content": base.as_text(part.function_response.result)
                if part.raw is None
                else part.raw,
            }
            for part in parts
            if part.function_response
        ]
        rest = [part for part in parts if not part.function_response]
        if results and not rest:
            return list(results)
        message: dict[str, Json] = {"role": "user" if results else WRITTEN[role]}
        blocks = [_written(part) for part in rest if part.text is not None or part.inline_data]
        calls = [_call(part.function_call) for part in rest if part.function_call]
        texts_only = all(part.inline_data is None for part in rest)
        if texts_only:
            message["content"] = "\n".join(part.text for part in rest if part.text) or (
                None if calls else ""
            )
        else:
            message["content"] = blocks
        if calls:
            message["tool_calls"] = calls
        return [*results, message]

    def answer(self, asked: Part, text: str) -> Part:
        """Make a result for a call."""
        call = asked.function_call or FunctionCall("", "")
        return Part(function_response=ToolResult(call.id, call.name, text), raw=text)

    def with_call_id(self, part: Part, call_id: str) -> Part:
        """Return the same call or result under another id."""
        if part.function_call:
            call = replace(part.function_call, id=call_id)
            return Part(function_call=call, raw={**part.raw, "id": call_id})
        if part.function_response:
            return replace(part, function_response=replace(part.function_response, call_id=call_id))
        return part

    def with_result(self, part: Part, text: str) -> Part:
        """Replace what a result says."""
        if part.function_response is None:
            return part
        content = base.shortened(part.raw, text, "text")
        return Part(function_response=replace(part.function_response, result=content), raw=content)


def _part(block: dict[str, Json]) -> Part:
    """Parse one block of a content list."""
    kind = block.get("type")
    if kind in ("text", "refusal"):
        return Part(text=word(block.get(kind)), raw=block)
    held = block.get(kind) if isinstance(kind, str) else None
    if kind == "image_url":
        url = held.get("url") if isinstance(held, dict) else held
        return Part(inline_data=InlineData("image/*", word(url)), raw=block)
    if kind == "input_audio" and isinstance(held, dict):
        data = InlineData(f"audio/{held.get('format', '*')}", word(held.get("data")))
        return Part(inline_data=data, raw=block)
    if kind == "file" and isinstance(held, dict):
        data = InlineData("application/*", word(held.get("file_data") or held.get("file_id")))
        return Part(inline_data=data, raw=block)
    return Part(raw=block)


def _thoughts(raw: dict[str, Json]) -> Iterator[Part]:
    for field in REASONING_FIELDS:
        if isinstance(raw.get(field), str) and raw[field]:
            yield Part(thought=raw[field], raw=raw[field])
            return


def _calls(raw: dict[str, Json]) -> Iterator[Part]:
    calls = raw.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise base.Unreadable(f"tool_calls is {type(calls).__name__}; expected a list")
    for call in calls or ():
        if not isinstance(call, dict):
            raise base.Unreadable(f"a tool call is {type(call).__name__}; expected an object")
        held = call.get("function") or call.get("custom")
        held = held if isinstance(held, dict) else {}
        args = base.decoded(held.get("arguments", held.get("input")))
        name = word(held.get("name"))
        yield Part(function_call=FunctionCall(word(call.get("id")), name, args), raw=call)
    legacy = raw.get("function_call")
    if isinstance(legacy, dict):
        name = word(legacy.get("name"))
        call = FunctionCall(_legacy_id(name), name, base.decoded(legacy.get("arguments")))
        yield Part(function_call=call, raw=legacy)


def _legacy_id(name: str) -> str:
    """Make an id for the legacy form without ids: a function's result follows its call."""
    return f"function:{name}" if name else ""


def _block(block: Json) -> Json:
    return {"type": "text", "text": block} if isinstance(block, str) else block


def _written(part: Part) -> Json:
    if part.inline_data is None:
        return {"type": "text", "text": part.text}
    mime, data = part.inline_data.mime_type, part.inline_data.data
    if mime.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": base.as_url(mime, data)}}
    if mime.startswith("audio/"):
        audio = {"data": data, "format": mime.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": audio}
    return {"type": "file", "file": {"file_data": base.as_url(mime, data)}}


def _call(call: FunctionCall) -> Json:
    function = {
        "name": call.name,
        "arguments": base.encoded(call.args if call.args is not None else {}),
    }
    return {"id": call.id, "type": "function", "function": function}


OPENAI_CHAT = OpenAIChat()
