"""Gemini contents: user and model, each with parts; and the API's rules for them.

    {"role": "model", "parts": [{"functionCall": {"name": …, "args": {…}}, "thoughtSignature": …}]}
    {"role": "user", "parts": [{"functionResponse": {"name": …, "response": {…}}}]}

Calls need no id: a call is answered by name. The REST form writes `functionCall`, the Python SDK
`function_call`; both are read, and what is edited keeps its form. A request keeps the system prompt
in `systemInstruction`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_

from marksweep.dialects import base, rulebook
from marksweep.dialects.base import Fault, Json, Messages, Rule, Slot, word
from marksweep.dialects.rulebook import Answers, anywhere, each_message, one_after, together
from marksweep.messages import (
    FunctionCall,
    InlineData,
    Message,
    Part,
    Role,
    ToolResult,
    starts_turn,
)
from marksweep.sections import is_left_out

CONTENTS = "https://ai.google.dev/api/caching#Content"
FUNCTION_CALLING = "https://ai.google.dev/gemini-api/docs/function-calling"
SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"

NO_SIGNATURE = "skip_thought_signature_validator"
"""The signature that the documentation prescribes for calls that this model did not make."""


def named_call(part: Part) -> FunctionCall | None:
    """Return the call under its name, by which it is answered."""
    call = part.function_call
    return FunctionCall(call.name, call.name, call.args) if call else None


def named_result(part: Part) -> ToolResult | None:
    """Return the result under the name of its function."""
    result = part.function_response
    return ToolResult(result.name, result.name, result.result) if result else None


ANSWERS = Answers(each_message, one_after, together, anywhere, named_call, named_result)


def signature(part: Part) -> object:
    """Return the signature of a thought that a part carries."""
    raw = part.raw if isinstance(part.raw, dict) else {}
    return raw.get("thoughtSignature") or raw.get("thought_signature")


def _misplaced(messages: Messages) -> dict[Slot, str]:
    slots: dict[Slot, str] = {}
    for i, message in enumerate(messages):
        model = message.role is Role.MODEL
        for k, part in enumerate(message.parts):
            if model and part.function_response:
                slots[Slot(i, k)] = "a functionResponse is in a content of the model"
            elif not model and part.function_call:
                slots[Slot(i, k)] = "a functionCall is in a content of the user"
    return slots


def without_repeats(contents: list[Json]) -> list[Json]:
    """Drop every functionResponse that repeats one of its content; the same list if none does.

    Gemini CLI sends each result twice in a session that it resumes, and the API refuses that:
    https://github.com/google-gemini/gemini-cli/issues/29365.
    """
    out = [_with_distinct_responses(content) for content in contents]
    return contents if all(map(is_, out, contents)) else out


def _with_distinct_responses(content: Json) -> Json:
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list):
        return content
    kept: list[Json] = []
    seen: set[str] = set()
    for part in parts:
        response = _get(part, "functionResponse") if isinstance(part, dict) else None
        name = word(response.get("id")) if isinstance(response, dict) else ""
        if not name or name not in seen:
            kept.append(part)
        seen.add(name)
    return content if len(kept) == len(parts) else {**content, "parts": kept}


def _is_empty(part: Part) -> bool:
    said = part.text if part.text is not None else part.thought
    return said == "" and not signature(part)


def _says_nothing(messages: Messages) -> dict[Slot, str]:
    slots: dict[Slot, str] = {}
    for i, message in enumerate(messages):
        if not message.parts:
            slots[Slot(i, 0)] = "a content has no parts"
        empty = [k for k, part in enumerate(message.parts) if _is_empty(part)]
        slots |= {Slot(i, k): "a part's text is empty" for k in empty}
    return slots


def follows_model(before: Message, message: Message) -> bool:
    """Whether a content that calls follows another of the model."""
    return (
        before.role is Role.MODEL
        and message.role is Role.MODEL
        and bool(message.function_calls)
        and not before.function_calls
    )


def _call_after_model(messages: Messages) -> Iterator[Fault]:
    for i in range(1, len(messages)):
        if follows_model(messages[i - 1], messages[i]):
            yield Fault(i, "a content that calls follows another of the model")


def join_calls(dialect: base.Dialect, messages: Messages) -> base.Repaired:
    """Make one content of the model's text and the calls that follow it."""
    out: list[Message] = []
    faults: list[Fault] = []
    for i, message in enumerate(messages):
        if out and follows_model(out[-1], message):
            out[-1] = base.with_parts(dialect, out[-1], [*out[-1].parts, *message.parts])
            faults.append(Fault(i, "joined it to the content before"))
        else:
            out.append(message)
    return out, faults


def _unsigned(messages: Messages) -> dict[Slot, str]:
    """Find first calls without a signature in the current turn, if others there have one."""
    start = max((i for i, m in enumerate(messages) if m.role is Role.USER), default=-1) + 1
    firsts = [
        next((Slot(i, k) for k, part in enumerate(messages[i].parts) if part.function_call), None)
        for i in range(start, len(messages))
    ]
    calls = [slot for slot in firsts if slot]
    unsigned = [slot for slot in calls if not signature(messages[slot.message].parts[slot.part])]
    if len(unsigned) == len(calls):
        return {}
    return dict.fromkeys(unsigned, "the first functionCall of a step has no thoughtSignature")


def _signed(part: Part) -> Part:
    key = "thought_signature" if "function_call" in part.raw else "thoughtSignature"
    return _part({**part.raw, key: NO_SIGNATURE})


RULES = (
    Rule(
        "roles-known",
        f"{CONTENTS}: the role is user or model; a system prompt goes into systemInstruction.",
        "Put the text into the request's `systemInstruction`, or make it a content of the user.",
        *rulebook.system_as_user(rulebook.system_inside),
    ),
    Rule(
        "parts-by-role",
        f"{FUNCTION_CALLING}: the model's content calls, the user's responds.",
        "Drop the part, or move it to a content of the right role.",
        *rulebook.dropping(_misplaced),
    ),
    Rule(
        "parts-not-empty",
        "The API answers 'contents.parts must not be empty', Vertex 'it has an empty text "
        f"parameter'; {CONTENTS}. A part that carries a signature may have an empty text.",
        "Drop the empty part or content.",
        *rulebook.dropping(_says_nothing),
    ),
    Rule(
        "responses-have-calls",
        "The API answers 'Please ensure that function response turn comes immediately after a "
        f"function call turn'; {FUNCTION_CALLING}.",
        "Drop the functionResponse, or put back the content that called.",
        *rulebook.results_without_call(
            ANSWERS, "a functionResponse of {result.name!r}, which nothing asks for"
        ),
    ),
    Rule(
        "responses-follow-calls",
        "The API answers 'Please ensure that function response turn comes immediately after a "
        f"function call turn'; {FUNCTION_CALLING}.",
        "Move all responses into one content directly behind the calls.",
        *rulebook.results_astray(
            ANSWERS, "a functionResponse is not in the turn after message {last}"
        ),
    ),
    Rule(
        "as-many-responses-as-calls",
        "The API answers 'Please ensure that the number of function response parts is equal to "
        f"the number of function call parts of the function call turn'; {FUNCTION_CALLING}. "
        "A call at the very end may still be waiting.",
        "Add a functionResponse for each call that has none.",
        *rulebook.calls_unanswered(
            ANSWERS, "call of {call.name!r} has no functionResponse in the next turn"
        ),
    ),
    Rule(
        "calls-after-user",
        "The API answers 'Please ensure that function call turn comes immediately after a user "
        f"turn or after a function response turn'; {FUNCTION_CALLING}.",
        "Join the content to the model's content before it.",
        _call_after_model,
        join_calls,
    ),
    Rule(
        "starts-with-user",
        f"{CONTENTS}; a call in front breaks 'function call turn comes immediately after a user "
        "turn'.",
        "Put a content of the user in front.",
        rulebook.starts_with_user,
        rulebook.start_with_user,
    ),
    Rule(
        "signatures-kept",
        f"{SIGNATURES}: in the current turn the first functionCall of each step must carry its "
        "thoughtSignature, or the request fails with 400.",
        f"Pass the part back as it came; sign a foreign call '{NO_SIGNATURE}'.",
        *rulebook.editing(_unsigned, _signed, "marked the call as not signed"),
    ),
)
"""In the order in which a repair applies them."""


ROLES = {
    "user": Role.USER,
    "model": Role.MODEL,
    "function": Role.TOOL,
    "tool": Role.TOOL,
    "system": Role.SYSTEM,
}


class Gemini(base.TiedByCalls):
    """Reads and writes Gemini contents."""

    name = "gemini"
    rules: tuple[Rule, ...] = RULES

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Parse one content."""
        role = base.role_in(raw, ROLES, default="user")
        given = raw.get("parts")
        if given is None:
            given = []
        if not isinstance(given, list):
            raise base.Unreadable(f"parts is {type(given).__name__}; expected a list")
        parts = tuple(map(_part, given))
        if role in (Role.USER, Role.TOOL):
            answers = bool(parts) and all(part.function_response for part in parts)
            role = Role.TOOL if answers else Role.USER
        return role, parts

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy the content with these parts."""
        return {**raw, "parts": [part.raw for part in parts]}

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Compose one content; thoughts of other models are left out."""
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
        """Return the same call or result under another id."""
        key = _key(part.raw, "functionCall" if part.function_call else "functionResponse")
        return _part({**part.raw, key: {**part.raw[key], "id": call_id}})

    def with_result(self, part: Part, text: str) -> Part:
        """Replace what a result says."""
        if part.function_response is None:
            return part
        key = _key(part.raw, "functionResponse")
        held = dict(part.raw[key])
        if is_left_out(text):
            held.pop("parts", None)
        held["response"] = {"error" if part.function_response.is_error else "result": text}
        return _part({**part.raw, key: held})

    def tying(self) -> base.Tying:
        """Tie results to their calls, and thoughts to what the model did next."""
        return TurnTying(named_call, named_result)

    def joins(self, before: Message, after: Message) -> bool:
        """Join the model's text and the calls that follow it."""
        return follows_model(before, after)


class TurnTying(base.Tying):
    """Also keeps the user's content that began the newest turn.

    If calls of the turn are signed, the API requires signatures from there on. Without it the turn
    would include older calls, which may have none. It is kept whether or not they are signed, so
    that it is not swept after the signed calls were.
    """

    _began = -1

    def feed(self, i: int, message: Message) -> list[int]:
        """Read the next content; return the numbers of those it is tied to."""
        if message.role is Role.USER and (message.function_responses or starts_turn(message)):
            self._began = i
        return super().feed(i, message)

    def held(self) -> set[int]:
        """Return the numbers of contents that must stay."""
        return super().held() | ({self._began} if self._began >= 0 else set())


def _snake(key: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in key)


def _key(block: dict[str, Json], key: str) -> str:
    """Return the key as this block spells it."""
    return key if key in block else _snake(key)


def _get(block: dict[str, Json], key: str) -> Json:
    value = block.get(key)
    return block.get(_snake(key)) if value is None else value


def _part(block: Json) -> Part:
    """Parse one part."""
    if isinstance(block, str):
        return Part(text=block, raw={"text": block})
    if not isinstance(block, dict):
        raise base.Unreadable(f"a part is {type(block).__name__}; expected an object")
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
    """Compose a provider's part; None for a thought, which only its model can sign."""
    if part.text:
        return {"text": part.text}
    if part.function_call:
        call = part.function_call
        args = base.as_object(call.args)
        return {"functionCall": {**_id(call.id), "name": call.name, "args": args}}
    if part.function_response:
        result = part.function_response
        held = base.without_blocks(result.result)
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
    """Return the id, unless it was derived from a name."""
    return {} if not call_id or call_id.startswith("name:") else {"id": call_id}


GEMINI = Gemini()
