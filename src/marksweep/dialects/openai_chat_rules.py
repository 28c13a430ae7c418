"""What OpenAI's chat completions demand of a history."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.dialects.base import (
    Calls,
    Dialect,
    Fault,
    Messages,
    Repaired,
    Rule,
    Slot,
    call_of,
    result_of,
    with_parts,
)
from marksweep.dialects.pairing import Separate
from marksweep.dialects.rulebook import (
    calls_unanswered,
    ids_repeated,
    renaming,
    repeated_ids,
    results_astray,
    results_without_call,
)
from marksweep.messages import Message, Part, Role

PROVIDER = "openai_chat"

FUNCTION_CALLING = "https://platform.openai.com/docs/guides/function-calling"
API_REFERENCE = "https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages"

SEPARATE = Separate()


def _repeated_in_message(messages: Messages, calls: Calls) -> Iterator[Slot]:
    """Find calls without an id, or with that of another in the same message."""
    for i, message in enumerate(messages):
        for slot in repeated_ids([message], calls):
            yield Slot(i, slot.part)


def _late_system(messages: Messages) -> list[int]:
    front = next((i for i, m in enumerate(messages) if m.role is not Role.SYSTEM), len(messages))
    return [i for i in range(front, len(messages)) if messages[i].role is Role.SYSTEM]


def _system_late(messages: Messages) -> Iterator[Fault]:
    for i in _late_system(messages):
        yield Fault(i, "a system message comes after other messages")


def _system_to_front(_: Dialect, messages: Messages) -> Repaired:
    late = _late_system(messages)
    if not late:
        return list(messages), []
    front = [m for m in messages if m.role is Role.SYSTEM]
    rest = [m for m in messages if m.role is not Role.SYSTEM]
    return [*front, *rest], [Fault(i, "moved a system message to the front") for i in late]


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


def _repair_content(dialect: Dialect, messages: Messages) -> Repaired:
    out = list(messages)
    faults = list(_content_missing(messages))
    for fault in faults:
        message = messages[fault.position]
        if message.role is Role.TOOL:
            parts = [dialect.with_result(message.parts[0], "")]
        else:
            parts = [*message.parts, Part(text="", raw="")]
        out[fault.position] = with_parts(dialect, message, parts)
    return out, [Fault(fault.position, "set empty content") for fault in faults]


RULES = (
    Rule(
        "system-first",
        PROVIDER,
        f"{API_REFERENCE}: developer and system messages carry instructions the model follows "
        "whatever the user says. Chat templates of compatible servers answer "
        "'System message must be at the beginning'.",
        "Move system and developer messages to the front.",
        _system_late,
        _system_to_front,
    ),
    Rule(
        "content-present",
        PROVIDER,
        f"{API_REFERENCE}: content is required unless tool_calls is given. The API answers "
        "\"Invalid value for 'content': expected a string, got null\".",
        "Give the message content, an empty text if there is none.",
        _content_missing,
        _repair_content,
    ),
    Rule(
        "call-ids-unique",
        PROVIDER,
        f"{FUNCTION_CALLING}: each call has a unique id, by which its output is matched.",
        "Give each call of a message its own id, and the same id to its tool message.",
        ids_repeated(
            call_of,
            "a tool call has no id, or that of another in the same message",
            _repeated_in_message,
        ),
        renaming(call_of, result_of, _repeated_in_message),
    ),
    Rule(
        "results-have-calls",
        PROVIDER,
        "The API answers \"messages with role 'tool' must be a response to a preceding message "
        f"with 'tool_calls'\"; {FUNCTION_CALLING}.",
        "Drop the tool message, or put back the assistant message that asked for it.",
        results_without_call(
            call_of, result_of, "a tool message answers {result.call_id!r}, which no call asks for"
        ),
        SEPARATE.repair,
    ),
    Rule(
        "results-follow-calls",
        PROVIDER,
        "The API answers \"An assistant message with 'tool_calls' must be followed by tool "
        f"messages responding to each 'tool_call_id'\"; {FUNCTION_CALLING}.",
        "Move the tool message directly behind the assistant message that asked for it.",
        results_astray(SEPARATE, "a tool message does not follow the call in message {last}"),
        SEPARATE.repair,
    ),
    Rule(
        "calls-answered",
        PROVIDER,
        'The API answers "The following tool_call_ids did not have response messages"; '
        f"{FUNCTION_CALLING}. A call at the very end may still be waiting.",
        "Add a tool message for each call that has none.",
        calls_unanswered(SEPARATE, "call {call.id!r} has no tool message"),
        SEPARATE.repair,
    ),
)
"""In the order in which a repair applies them."""
