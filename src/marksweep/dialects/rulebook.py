"""What the rules of several providers have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

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
from marksweep.dialects.pairing import Answers
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


def edit_parts(
    dialect: Dialect, messages: Messages, new: Mapping[Slot, Part | None]
) -> list[Message]:
    """Replace parts, or drop those that become None; drop a message left empty, too."""
    changed = {slot.message for slot in new}
    out: list[Message] = []
    for i, message in enumerate(messages):
        if i not in changed:
            out.append(message)
            continue
        edited = (new.get(Slot(i, k), part) for k, part in enumerate(message.parts))
        parts = [part for part in edited if part is not None]
        if parts:
            out.append(with_parts(dialect, message, parts))
    return out


Check = Callable[[Messages], Iterator[Fault]]
Repair = Callable[[Dialect, Messages], Repaired]


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


def results_without_call(answers: Answers, what: str) -> Check:
    """Find results that answer nothing; `what` says so of a {result}."""

    def check(messages: Messages) -> Iterator[Fault]:
        for slot in match(messages, answers.calls, answers.results).orphans:
            result = messages[slot.message].parts[slot.part].function_response
            yield Fault(slot.message, what.format(result=result))

    return check


Find = Callable[[Messages], Mapping[Slot, str]]
"""Finds the parts that break a rule, each with what is wrong."""


def as_check(find: Find) -> Check:
    """Turn it into a check."""
    return lambda messages: (Fault(slot.message, what) for slot, what in find(messages).items())


def editing(find: Find, edit: Callable[[Part], Part], done: str) -> Repair:
    """Repair by editing those parts; `done` says how."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        slots = find(messages)
        new = {slot: edit(messages[slot.message].parts[slot.part]) for slot in slots}
        return edit_parts(dialect, messages, new), [Fault(slot.message, done) for slot in slots]

    return repair


def dropping(find: Find) -> Repair:
    """Repair by leaving those parts out, and messages without any other."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        slots = find(messages)
        faults = [Fault(slot.message, f"dropped: {what}") for slot, what in sorted(slots.items())]
        return edit_parts(dialect, messages, dict.fromkeys(slots)), faults

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


def repeated_ids(calls: Calls, what: str) -> Find:
    """Find calls without an id, or with one that an earlier call of the history has."""

    def find(messages: Messages) -> Mapping[Slot, str]:
        seen: set[str] = set()
        found: dict[Slot, str] = {}
        for i, message in enumerate(messages):
            for k, part in enumerate(message.parts):
                call = calls(part)
                if call is not None:
                    if not call.id or call.id in seen:
                        found[Slot(i, k)] = what
                    seen.add(call.id)
        return found

    return find


def renaming(find: Find, calls: Calls, results: Results) -> Repair:
    """Repair by giving such calls and their results unique ids."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        answers = match(messages, calls, results).answers
        names = _fresh_ids(messages, find(messages), calls)
        new: dict[Slot, Part | None] = {}
        for call, name in names.items():
            for slot in filter(None, (call, answers.get(call))):
                part = messages[slot.message].parts[slot.part]
                new[slot] = dialect.with_call_id(part, name)
        renamed = [Fault(at.message, f"renamed a call to {name!r}") for at, name in names.items()]
        return edit_parts(dialect, messages, new), renamed

    return repair


def _fresh_ids(messages: Messages, slots: Iterable[Slot], calls: Calls) -> dict[Slot, str]:
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
