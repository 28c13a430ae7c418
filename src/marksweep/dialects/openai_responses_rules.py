"""What OpenAI's Responses demand of their input items."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.dialects.base import (
    Dialect,
    Fault,
    Messages,
    Repaired,
    Rule,
    call_of,
    composed,
    match,
    result_of,
)
from marksweep.dialects.pairing import NO_RESULT, last_asking
from marksweep.dialects.rulebook import (
    drop_parts,
    ids_repeated,
    renaming,
    results_without_call,
)
from marksweep.messages import Message, Role

PROVIDER = "openai_responses"

FUNCTION_CALLING = "https://platform.openai.com/docs/guides/function-calling"
REASONING = "https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context"


def _drop_outputs(dialect: Dialect, messages: Messages) -> Repaired:
    orphans = match(messages).orphans
    if not orphans:
        return list(messages), []
    return drop_parts(dialect, messages, dict.fromkeys(orphans, "dropped an output without a call"))


def _waiting_from(messages: Messages) -> int:
    """Give the index from which calls may still wait: the model's last run, before results."""
    i = last_asking(messages)
    while i >= 0 and messages[i].role is Role.MODEL:
        i -= 1
    return i + 1


def _missing(messages: Messages) -> list[int]:
    waiting = _waiting_from(messages)
    return [slot.message for slot in match(messages).unanswered if slot.message < waiting]


def _calls_unanswered(messages: Messages) -> Iterator[Fault]:
    for i in _missing(messages):
        call_id = messages[i].function_calls[0].id
        yield Fault(i, f"call {call_id!r} has no output")


def _add_outputs(dialect: Dialect, messages: Messages) -> Repaired:
    missing = set(_missing(messages))
    out: list[Message] = []
    held: list[Message] = []
    for i, message in enumerate(messages):
        if message.role is not Role.MODEL:
            out += held
            held = []
        out.append(message)
        if i in missing:
            part = dialect.answer(message.parts[0], NO_RESULT)
            held += composed(dialect, Role.TOOL, [part], f"{message.message_id}.result")
    faults = [
        Fault(i, f"added an output for {messages[i].function_calls[0].id!r}") for i in missing
    ]
    return [*out, *held], faults


def _loose_thoughts(messages: Messages) -> list[int]:
    loose: list[int] = []
    followed = False
    for i in range(len(messages) - 1, -1, -1):
        message = messages[i]
        thinks = any(part.thought is not None for part in message.parts)
        if thinks and not followed:
            loose.append(i)
        else:
            followed = message.role is Role.MODEL
    return loose[::-1]


def _reasoning_alone(messages: Messages) -> Iterator[Fault]:
    for i in _loose_thoughts(messages):
        yield Fault(i, "a reasoning item is not followed by what the model said or did")


def _drop_reasoning(_: Dialect, messages: Messages) -> Repaired:
    loose = set(_loose_thoughts(messages))
    out = [message for i, message in enumerate(messages) if i not in loose]
    return out, [Fault(i, "dropped a reasoning item that stood alone") for i in sorted(loose)]


RULES = (
    Rule(
        "call-ids-unique",
        PROVIDER,
        f"{FUNCTION_CALLING}: an output is matched to its call by call_id.",
        "Give each call its own call_id, and the same to its output.",
        ids_repeated(call_of, "a call has no call_id, or that of an earlier call"),
        renaming(call_of, result_of),
    ),
    Rule(
        "outputs-have-calls",
        PROVIDER,
        "The API answers 'No tool call found for function call output with call_id …'; "
        f"{FUNCTION_CALLING}.",
        "Drop the output, or put back its call before it.",
        results_without_call(
            call_of,
            result_of,
            "an output answers {result.call_id!r}, which no earlier call asks for",
        ),
        _drop_outputs,
    ),
    Rule(
        "calls-have-outputs",
        PROVIDER,
        "The API answers 'No tool output found for function call …'; "
        f"{FUNCTION_CALLING}. A call at the very end may still be waiting.",
        "Add an output for the call.",
        _calls_unanswered,
        _add_outputs,
    ),
    Rule(
        "reasoning-followed",
        PROVIDER,
        "The API answers \"Item 'rs_…' of type 'reasoning' was provided without its required "
        f'following item"; {REASONING}.',
        "Drop the reasoning item, or put back the item that followed it.",
        _reasoning_alone,
        _drop_reasoning,
    ),
)
"""In the order in which a repair applies them."""
