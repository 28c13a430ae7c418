"""What the Gemini API demands of its contents."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.dialects.base import Dialect, Fault, Messages, Repaired, Rule, Slot, with_parts
from marksweep.dialects.pairing import Together, anywhere, each_message, one_after
from marksweep.dialects.rulebook import (
    as_check,
    calls_unanswered,
    dropping,
    dropping_empty,
    results_astray,
    results_without_call,
    start_with_user,
    starts_with_user,
    system_as_user,
    system_inside,
)
from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult

PROVIDER = "gemini"

CONTENTS = "https://ai.google.dev/api/caching#Content"
FUNCTION_CALLING = "https://ai.google.dev/gemini-api/docs/function-calling"
SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"

NO_SIGNATURE = "skip_thought_signature_validator"
"""What the documentation gives for calls that were not made by this model."""


def named_call(part: Part) -> FunctionCall | None:
    """Give the call under its name, by which it is answered."""
    call = part.function_call
    return FunctionCall(call.name, call.name, call.args) if call else None


def named_result(part: Part) -> ToolResult | None:
    """Give the result under the name of its function."""
    result = part.function_response
    return ToolResult(result.name, result.name, result.result) if result else None


TOGETHER = Together(each_message, one_after, anywhere, named_call, named_result)


def signature(part: Part) -> object:
    """Give the signature of a thought that a part carries."""
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


def _is_empty(part: Part) -> bool:
    said = part.text if part.text is not None else part.thought
    return said == "" and not signature(part)


def _says_nothing(messages: Messages) -> Iterator[Fault]:
    for i, message in enumerate(messages):
        if not message.parts:
            yield Fault(i, "a content has no parts")
        elif any(map(_is_empty, message.parts)):
            yield Fault(i, "a part's text is empty")


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


def join_calls(dialect: Dialect, messages: Messages) -> Repaired:
    """Make one content of the model's text and the calls that follow it."""
    out: list[Message] = []
    faults: list[Fault] = []
    for i, message in enumerate(messages):
        if out and follows_model(out[-1], message):
            out[-1] = with_parts(dialect, out[-1], [*out[-1].parts, *message.parts])
            faults.append(Fault(i, "joined it to the content before"))
        else:
            out.append(message)
    return out, faults


def _unsigned(messages: Messages) -> list[Slot]:
    """Find first calls without a signature in the current turn, if others there have one."""
    start = max((i for i, m in enumerate(messages) if m.role is Role.USER), default=-1) + 1
    firsts = [
        next((Slot(i, k) for k, part in enumerate(messages[i].parts) if part.function_call), None)
        for i in range(start, len(messages))
    ]
    calls = [slot for slot in firsts if slot]
    signed = {slot for slot in calls if signature(messages[slot.message].parts[slot.part])}
    return [slot for slot in calls if slot not in signed] if signed else []


def _signature_missing(messages: Messages) -> Iterator[Fault]:
    for slot in _unsigned(messages):
        yield Fault(slot.message, "the first functionCall of a step has no thoughtSignature")


def _sign(dialect: Dialect, messages: Messages) -> Repaired:
    out = list(messages)
    slots = _unsigned(messages)
    for slot in slots:
        message = messages[slot.message]
        parts = list(message.parts)
        raw = parts[slot.part].raw
        key = "thought_signature" if "function_call" in raw else "thoughtSignature"
        parts[slot.part] = Part(raw={**raw, key: NO_SIGNATURE})
        out[slot.message] = with_parts(dialect, message, parts)
    return out, [Fault(slot.message, "marked the call as not signed") for slot in slots]


RULES = (
    Rule(
        "roles-known",
        PROVIDER,
        f"{CONTENTS}: the role is user or model; a system prompt goes into systemInstruction.",
        "Put the text into the request's `systemInstruction`, or make it a content of the user.",
        system_inside,
        system_as_user(system_inside),
    ),
    Rule(
        "parts-by-role",
        PROVIDER,
        f"{FUNCTION_CALLING}: the model's content calls, the user's responds.",
        "Drop the part, or move it to a content of the right role.",
        as_check(_misplaced),
        dropping(_misplaced),
    ),
    Rule(
        "parts-not-empty",
        PROVIDER,
        "The API answers 'contents.parts must not be empty', Vertex 'it has an empty text "
        f"parameter'; {CONTENTS}. A part that carries a signature may have an empty text.",
        "Drop the empty part or content.",
        _says_nothing,
        dropping_empty(_says_nothing, _is_empty),
    ),
    Rule(
        "responses-have-calls",
        PROVIDER,
        "The API answers 'Please ensure that function response turn comes immediately after a "
        f"function call turn'; {FUNCTION_CALLING}.",
        "Drop the functionResponse, or put back the content that called.",
        results_without_call(
            named_call,
            named_result,
            "a functionResponse of {result.name!r}, which nothing asks for",
        ),
        TOGETHER.repair,
    ),
    Rule(
        "responses-follow-calls",
        PROVIDER,
        "The API answers 'Please ensure that function response turn comes immediately after a "
        f"function call turn'; {FUNCTION_CALLING}.",
        "Move all responses into one content directly behind the calls.",
        results_astray(TOGETHER, "a functionResponse is not in the turn after message {last}"),
        TOGETHER.repair,
    ),
    Rule(
        "as-many-responses-as-calls",
        PROVIDER,
        "The API answers 'Please ensure that the number of function response parts is equal to "
        f"the number of function call parts of the function call turn'; {FUNCTION_CALLING}. "
        "A call at the very end may still be waiting.",
        "Add a functionResponse for each call that has none.",
        calls_unanswered(
            TOGETHER, "call of {call.name!r} has no functionResponse in the next turn"
        ),
        TOGETHER.repair,
    ),
    Rule(
        "calls-after-user",
        PROVIDER,
        "The API answers 'Please ensure that function call turn comes immediately after a user "
        f"turn or after a function response turn'; {FUNCTION_CALLING}.",
        "Join the content to the model's content before it.",
        _call_after_model,
        join_calls,
    ),
    Rule(
        "starts-with-user",
        PROVIDER,
        f"{CONTENTS}; a call in front breaks 'function call turn comes immediately after a user "
        "turn'.",
        "Put a content of the user in front.",
        starts_with_user,
        start_with_user,
    ),
    Rule(
        "signatures-kept",
        PROVIDER,
        f"{SIGNATURES}: in the current turn the first functionCall of each step must carry its "
        "thoughtSignature, or the request fails with 400.",
        f"Pass the part back as it came; sign a foreign call '{NO_SIGNATURE}'.",
        _signature_missing,
        _sign,
    ),
)
"""In the order in which a repair applies them."""
