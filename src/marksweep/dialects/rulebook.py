"""What the rules of several providers have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from marksweep.dialects.base import (
    Calls,
    Dialect,
    Fault,
    Messages,
    Repaired,
    Results,
    Slot,
    composed,
    match,
    with_parts,
)
from marksweep.dialects.pairing import Separate, Together
from marksweep.messages import Message, Part, Role

OPENING = "The start of this conversation is not shown."
"""What a repair puts in front of a history that begins with the model."""


def starts_with_user(messages: Messages) -> Iterator[Fault]:
    """Find a history that begins with the model."""
    first = next((i for i, m in enumerate(messages) if m.role is not Role.SYSTEM), None)
    if first is not None and messages[first].role is Role.MODEL:
        yield Fault(first, "the first message is the model's")


def start_with_user(dialect: Dialect, messages: Messages) -> Repaired:
    """Put a short user message in front of the model's."""
    for fault in starts_with_user(messages):
        name = f"{messages[fault.position].message_id}.opening"
        opening = composed(dialect, Role.USER, [Part(text=OPENING)], name)
        out = [*messages[: fault.position], *opening, *messages[fault.position :]]
        return out, [Fault(fault.position, "put a user message in front")]
    return list(messages), []


def drop_parts(dialect: Dialect, messages: Messages, slots: dict[Slot, str]) -> Repaired:
    """Drop parts, each with the reason given; drop a message left empty, too."""
    gone: dict[int, set[int]] = {}
    for slot in slots:
        gone.setdefault(slot.message, set()).add(slot.part)
    out: list[Message] = []
    for i, message in enumerate(messages):
        if i not in gone:
            out.append(message)
            continue
        parts = [part for k, part in enumerate(message.parts) if k not in gone[i]]
        if parts:
            out.append(with_parts(dialect, message, parts))
    return out, [Fault(slot.message, f"dropped: {what}") for slot, what in sorted(slots.items())]


Check = Callable[[Messages], Iterator[Fault]]
Repair = Callable[[Dialect, Messages], Repaired]
Answers = Separate | Together
"""Where a provider wants the results of calls."""


def calls_unanswered(answers: Answers, what: str) -> Check:
    """Find calls that should have a result by now; `what` says so of a {call}."""

    def check(messages: Messages) -> Iterator[Fault]:
        for place in answers.places(messages):
            for slot in place.missing:
                call = messages[slot.message].parts[slot.part].function_call
                yield Fault(slot.message, what.format(call=call))

    return check


def results_astray(answers: Answers, what: str) -> Check:
    """Find results that are in a wrong place; `what` says so of a call in message {last}."""

    def check(messages: Messages) -> Iterator[Fault]:
        for place in answers.places(messages):
            for slot in place.astray:
                yield Fault(slot.message, what.format(last=place.group.last))

    return check


def results_without_call(calls: Calls, results: Results, what: str) -> Check:
    """Find results that answer nothing; `what` says so of a {result}."""

    def check(messages: Messages) -> Iterator[Fault]:
        for slot in match(messages, calls, results).orphans:
            result = messages[slot.message].parts[slot.part].function_response
            yield Fault(slot.message, what.format(result=result))

    return check


Find = Callable[[Messages], dict[Slot, str]]
"""Finds the parts that break a rule, each with what is wrong."""


def as_check(find: Find) -> Check:
    """Turn it into a check."""
    return lambda messages: (Fault(slot.message, what) for slot, what in find(messages).items())


def dropping(find: Find) -> Repair:
    """Repair by leaving those parts out."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        slots = find(messages)
        return drop_parts(dialect, messages, slots) if slots else (list(messages), [])

    return repair


def dropping_empty(check: Check, is_empty: Callable[[Part], bool]) -> Repair:
    """Repair by dropping empty parts that a check finds, and messages that are empty."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        faulty = {fault.position for fault in check(messages)}
        out: list[Message] = []
        for i, message in enumerate(messages):
            parts = [part for part in message.parts if not is_empty(part)]
            if i not in faulty:
                out.append(message)
            elif parts:
                out.append(with_parts(dialect, message, parts))
        return out, [Fault(i, "dropped what was empty") for i in sorted(faulty)]

    return repair


def system_inside(messages: Messages) -> Iterator[Fault]:
    """Find system messages where the provider wants none."""
    for i, message in enumerate(messages):
        if message.role is Role.SYSTEM:
            yield Fault(i, "a message has the role system")


def system_as_user(check: Check) -> Repair:
    """Turn system messages that a check finds into user messages; drop empty ones."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        faults = list(check(messages))
        wrong = {fault.position for fault in faults}
        out: list[Message] = []
        for i, message in enumerate(messages):
            if i not in wrong:
                out.append(message)
            elif message.text.strip():
                out += composed(dialect, Role.USER, [Part(text=message.text)], message.message_id)
        return out, [Fault(fault.position, "made it a message of the user") for fault in faults]

    return repair


def rename_calls(
    dialect: Dialect, messages: Messages, names: dict[Slot, str], calls: Calls, results: Results
) -> Repaired:
    """Rename calls, and their results accordingly."""
    found = match(messages, calls, results)
    new = dict(names)
    for call, name in names.items():
        if call in found.answers:
            new[found.answers[call]] = name
    touched = {slot.message for slot in new}
    out = [
        with_parts(
            dialect,
            message,
            [
                dialect.with_call_id(part, new[Slot(i, k)]) if Slot(i, k) in new else part
                for k, part in enumerate(message.parts)
            ],
        )
        if i in touched
        else message
        for i, message in enumerate(messages)
    ]
    return out, [Fault(slot.message, f"renamed a call to {name!r}") for slot, name in names.items()]


def repeated_ids(messages: Messages, calls: Calls) -> Iterator[Slot]:
    """Find calls without an id, or with one that an earlier call of the history has."""
    seen: set[str] = set()
    for i, message in enumerate(messages):
        for k, part in enumerate(message.parts):
            call = calls(part)
            if call is not None:
                if not call.id or call.id in seen:
                    yield Slot(i, k)
                seen.add(call.id)


def ids_repeated(
    calls: Calls, what: str, find: Callable[[Messages, Calls], Iterator[Slot]] = repeated_ids
) -> Check:
    """Find calls whose id is missing or taken."""
    return lambda messages: (Fault(slot.message, what) for slot in find(messages, calls))


def renaming(
    calls: Calls,
    results: Results,
    find: Callable[[Messages, Calls], Iterator[Slot]] = repeated_ids,
) -> Repair:
    """Repair by giving such calls and their results unique ids."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        names = fresh_ids(messages, list(find(messages, calls)), calls)
        if not names:
            return list(messages), []
        return rename_calls(dialect, messages, names, calls, results)

    return repair


def fresh_ids(messages: Messages, slots: list[Slot], calls: Calls) -> dict[Slot, str]:
    """Generate ids that no call of the history has."""
    taken = {call.id for m in messages for part in m.parts if (call := calls(part)) is not None}
    names: dict[Slot, str] = {}
    for slot in slots:
        call = calls(messages[slot.message].parts[slot.part])
        stem = (call.id if call else "") or "call"
        number = 2
        while f"{stem}_{number}" in taken:
            number += 1
        names[slot] = f"{stem}_{number}"
        taken.add(names[slot])
    return names
