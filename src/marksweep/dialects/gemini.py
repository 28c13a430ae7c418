"""Gemini contents: user and model, each with parts. Calls need no id: a call is answered by name.

    {"role": "model", "parts": [{"functionCall": {"name": …, "args": {…}}, "thoughtSignature": …}]}
    {"role": "user", "parts": [{"functionResponse": {"name": …, "response": {…}}}]}

The REST form writes `functionCall`, the Python SDK `function_call`; both are read, and what is
edited keeps its form. A request keeps the system prompt in `systemInstruction`.
"""

from __future__ import annotations

from collections.abc import Sequence

from marksweep.dialects.base import Json, Rule, TiedByCalls, Tying, Unreadable, role_in, word
from marksweep.dialects.gemini_rules import (
    RULES,
    follows_model,
    named_call,
    named_result,
)
from marksweep.messages import FunctionCall, InlineData, Message, Part, Role, ToolResult

ROLES = {
    "user": Role.USER,
    "model": Role.MODEL,
    "function": Role.TOOL,
    "tool": Role.TOOL,
    "system": Role.SYSTEM,
}


class Gemini(TiedByCalls):
    """Reads and writes Gemini contents."""

    name = "gemini"
    rules: tuple[Rule, ...] = RULES

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Understand one content."""
        role = role_in(raw, ROLES, default="user")
        given = raw.get("parts")
        if given is None:
            given = []
        if not isinstance(given, list):
            raise Unreadable(f"parts is {type(given).__name__}; expected a list")
        parts = tuple(map(_part, given))
        if role in (Role.USER, Role.TOOL):
            answers = bool(parts) and all(part.function_response for part in parts)
            role = Role.TOOL if answers else Role.USER
        return role, parts

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy the content with these parts."""
        return {**raw, "parts": [part.raw for part in parts]}

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Make one content; what was thought elsewhere is left out."""
        written = [block for part in parts if (block := part.raw or _written(part))]
        return [{"role": "model" if role is Role.MODEL else "user", "parts": written}]

    def answer(self, asked: Part, text: str) -> Part:
        """Make a result for a call."""
        call = asked.function_call or FunctionCall("", "")
        given = _get(asked.raw or {}, "functionCall") or {}
        response: dict[str, Json] = {"name": call.name, "response": {"result": text}}
        if given.get("id"):
            response["id"] = given["id"]
        key = "function_response" if "function_call" in (asked.raw or {}) else "functionResponse"
        return _part({key: response})

    def with_call_id(self, part: Part, call_id: str) -> Part:
        """Give the same call or result under another id."""
        key = _key(part.raw, "functionCall" if part.function_call else "functionResponse")
        return _part({**part.raw, key: {**part.raw[key], "id": call_id}})

    def with_result(self, part: Part, text: str) -> Part:
        """Replace what a result says."""
        if part.function_response is None:
            return part
        key = _key(part.raw, "functionResponse")
        held = {k: v for k, v in part.raw[key].items() if k != "parts"}
        return _part({**part.raw, key: {**held, "response": {"result": text}}})

    def with_arguments(self, part: Part, arguments: Json) -> Part:
        """Replace what a call asks for."""
        if part.function_call is None:
            return part
        key = _key(part.raw, "functionCall")
        return _part({**part.raw, key: {**part.raw[key], "args": arguments}})

    def tying(self) -> Tying:
        """Tie results to their calls, and thoughts to what the model did next."""
        return TurnTying(named_call, named_result)

    def joins(self, before: Message, after: Message) -> bool:
        """Join the model's text and the calls that come to follow it."""
        return follows_model(before, after)


class TurnTying(Tying):
    """Holds the user's content that began the newest turn, too.

    If calls of the turn are signed, the API wants signatures from there on. Without it the turn
    would reach back to older calls, which may have none. It is held whether or not they are, so
    that it does not go once the signed calls have gone.
    """

    _began = -1

    def feed(self, i: int, message: Message) -> list[int]:
        """Take the next content in; give the numbers of those it is tied to."""
        if message.role is Role.USER:
            self._began = i
        return super().feed(i, message)

    def held(self) -> set[int]:
        """Give the numbers of contents that must stay."""
        return super().held() | ({self._began} if self._began >= 0 else set())


def _snake(key: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in key)


def _key(block: dict[str, Json], key: str) -> str:
    """Give the key as this block spells it."""
    return key if key in block else _snake(key)


def _get(block: dict[str, Json], key: str) -> Json:
    value = block.get(key)
    return block.get(_snake(key)) if value is None else value


def _part(block: Json) -> Part:
    """Understand one part."""
    if isinstance(block, str):
        return Part(text=block, raw={"text": block})
    if not isinstance(block, dict):
        raise Unreadable(f"a part is {type(block).__name__}; expected an object")
    called = _get(block, "functionCall")
    if isinstance(called, dict):
        name = word(called.get("name"))
        call = FunctionCall(word(called.get("id")) or f"name:{name}", name, called.get("args"))
        return Part(function_call=call, raw=block)
    answered = _get(block, "functionResponse")
    if isinstance(answered, dict):
        name = word(answered.get("name"))
        response = answered.get("response")
        is_error = isinstance(response, dict) and "error" in response
        call_id = word(answered.get("id")) or f"name:{name}"
        return Part(function_response=ToolResult(call_id, name, response, is_error), raw=block)
    if "text" in block:
        text = word(block["text"])
        return Part(thought=text, raw=block) if block.get("thought") else Part(text=text, raw=block)
    for key, field in (("inlineData", "data"), ("fileData", "fileUri")):
        held = _get(block, key)
        if isinstance(held, dict):
            mime = word(_get(held, "mimeType")) or "application/*"
            return Part(inline_data=InlineData(mime, word(_get(held, field))), raw=block)
    return Part(raw=block)


def _written(part: Part) -> Json:
    """Make a part of the provider's; nothing for a thought, which only its model can sign."""
    if part.text:
        return {"text": part.text}
    if part.function_call:
        call = part.function_call
        args = call.args if isinstance(call.args, dict) else {}
        return {"functionCall": {**_id(call.id), "name": call.name, "args": args}}
    if part.function_response:
        result = part.function_response
        held = result.result
        response = held if isinstance(held, dict) else {"result": held}
        answer = {**_id(result.call_id), "name": result.name, "response": response}
        return {"functionResponse": answer}
    if part.inline_data:
        mime, data = part.inline_data.mime_type, part.inline_data.data
        if "://" in data[:16]:
            return {"fileData": {"mimeType": mime, "fileUri": data}}
        return {"inlineData": {"mimeType": mime, "data": data}}
    return None


def _id(call_id: str) -> dict[str, str]:
    """Give the id, unless it is only made from a name."""
    return {} if not call_id or call_id.startswith("name:") else {"id": call_id}


GEMINI = Gemini()
