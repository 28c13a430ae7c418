"""What the rules of several providers have in common.

First, where the result of a call must be. Providers differ in that:

    separately   each in a separate message, right after the call's (chat completions), or anywhere
                 later (Responses)
    together     all at the start of what the user says next (Anthropic, Gemini)

Then, checks and repairs that more than one provider needs: most functions return both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from marksweep.dialects.base import (
    Calls,
    Check,
    Dialect,
    Fault,
    Messages,
    Repair,
    Repaired,
    Results,
    Slot,
    call_of,
    composed,
    match,
    result_of,
    with_parts,
)
from marksweep.messages import Message, Part, Role

NO_RESULT = "No result was recorded for this call."
"""The result that a repair adds for a call that has none."""


class Group(NamedTuple):
    """Consecutive model messages whose calls are answered in one place."""

    first: int
    last: int


Groups = Callable[[Messages], Iterator[Group]]
Reach = Callable[[Messages, int], int]
Standing = Callable[[Messages, int, int, Results], Iterator[Slot]]


def each_message(messages: Messages) -> Iterator[Group]:
    """Answer each message separately."""
    for i, message in enumerate(messages):
        if message.role is Role.MODEL:
            yield Group(i, i)


def each_run(messages: Messages) -> Iterator[Group]:
    """Answer consecutive model messages together: the provider reads them as one."""
    first = None
    for i, message in enumerate(messages):
        if message.role is Role.MODEL:
            first = i if first is None else first
        elif first is not None:
            yield Group(first, i - 1)
            first = None
    if first is not None:
        yield Group(first, len(messages) - 1)


def run_after(messages: Messages, last: int) -> int:
    """Let every message up to the model's next one answer."""
    end = last + 1
    while end < len(messages) and messages[end].role is not Role.MODEL:
        end += 1
    return end


def results_after(messages: Messages, last: int) -> int:
    """Let the results directly behind the calls answer."""
    end = last + 1
    while end < len(messages) and messages[end].role is Role.TOOL:
        end += 1
    return end


def all_after(messages: Messages, last: int) -> int:  # noqa: ARG001
    """Let every later message answer."""
    return len(messages)


def one_after(messages: Messages, last: int) -> int:
    """Let only the next message answer."""
    return min(last + 2, len(messages))


def anywhere(messages: Messages, start: int, end: int, results: Results) -> Iterator[Slot]:
    """Return the slots of all results."""
    for i in range(start, end):
        for k, part in enumerate(messages[i].parts):
            if results(part) is not None:
                yield Slot(i, k)


def leading(messages: Messages, start: int, end: int, results: Results) -> Iterator[Slot]:
    """Return the slots of the results that come before anything else."""
    for i in range(start, end):
        for k, part in enumerate(messages[i].parts):
            if results(part) is None:
                return
            yield Slot(i, k)


class GroupCheck(NamedTuple):
    """The findings about the calls of one group."""

    group: Group
    calls: list[Slot]
    missing: list[Slot]
    """Calls without any result, which must have one by now."""
    astray: list[Slot]
    """Results in the wrong place."""


class Answer(NamedTuple):
    """A result that belongs behind a group of calls."""

    call: Slot
    part: Part
    found_at: Slot | None
    """Where it was; None: it is new."""


class Moves(NamedTuple):
    """What a repair does with the results of a history."""

    gone: set[Slot]
    """Results that leave their place."""
    behind: dict[int, list[Answer]]
    """The results that belong behind a message."""


Layout = Callable[[Dialect, Messages, Moves], list[Message]]


def separately(dialect: Dialect, messages: Messages, moves: Moves) -> list[Message]:
    """Write each result as a message; those that were there are moved unchanged."""
    dropped = {slot.message for slot in moves.gone}
    out: list[Message] = []
    for i, message in enumerate(messages):
        if i not in dropped:
            out.append(message)
        for call, part, found_at in moves.behind.get(i, ()):
            if found_at is not None:
                out.append(messages[found_at.message])
            else:
                name = f"{messages[call.message].message_id}.result{call.part}"
                out += composed(dialect, Role.TOOL, [part], name)
    return out


def together(dialect: Dialect, messages: Messages, moves: Moves) -> list[Message]:
    """Write all results at the start of what the user says next."""
    changed = {slot.message for slot in moves.gone}
    out: list[Message] = []
    incoming: list[Part] = []
    for i, message in enumerate(messages):
        parts = [part for k, part in enumerate(message.parts) if Slot(i, k) not in moves.gone]
        if incoming and message.role is not Role.TOOL:
            out += composed(dialect, Role.TOOL, incoming, f"{out[-1].message_id}.results")
            incoming = []
        if incoming:
            out.append(with_parts(dialect, message, [*incoming, *parts]))
        elif i not in changed:
            out.append(message)
        elif parts:
            out.append(with_parts(dialect, message, parts))
        incoming = [answer.part for answer in moves.behind.get(i, ())]
    if incoming:
        out += composed(dialect, Role.TOOL, incoming, f"{out[-1].message_id}.results")
    return out


@dataclass(frozen=True)
class Answers:
    """Where a provider wants the results of calls: after a group of model messages.

    `groups` says which model messages are answered at once, `reach` where the messages that may
    answer end, `standing` which results in them are in their place. `lay_out` writes the history
    with each group's results behind it. `known` says before which message every call is in the
    history: a later result may answer a call that only the provider has.
    """

    groups: Groups
    reach: Reach
    lay_out: Layout
    standing: Standing = anywhere
    calls: Calls = call_of
    results: Results = result_of
    known: Callable[[Messages], int] = len

    def orphans(self, messages: Messages) -> list[Slot]:
        """Find results that answer no call."""
        found = match(messages, self.calls, self.results).orphans
        known = self.known(messages)
        return [slot for slot in found if slot.message < known]

    def places(self, messages: Messages) -> Iterator[GroupCheck]:
        """Check each group that has calls."""
        found = match(messages, self.calls, self.results)
        asked: dict[int, list[Slot]] = {}
        for slot in sorted([*found.answers, *found.unanswered]):
            asked.setdefault(slot.message, []).append(slot)
        waiting = _last_asking(messages, self.results)
        for group in self.groups(messages):
            slots = [slot for i in range(group.first, group.last + 1) for slot in asked.get(i, ())]
            if not slots:
                continue
            done = [found.answers[slot] for slot in slots if slot in found.answers]
            last_done = max((slot.message for slot in done), default=group.last)
            end = min(self.reach(messages, group.last), last_done + 1)
            good = set(self.standing(messages, group.last + 1, end, self.results))
            missing = [slot for slot in slots if slot not in found.answers]
            missing = [] if group.last == waiting else missing
            yield GroupCheck(group, slots, missing, [slot for slot in done if slot not in good])

    def repair(self, dialect: Dialect, messages: Messages) -> Repaired:
        """Move results to where they belong, add the missing, drop those without a call."""
        found = match(messages, self.calls, self.results)
        orphans = self.orphans(messages)
        moves = Moves(set(orphans), {})
        faults = [_orphan_fault(messages, slot) for slot in orphans]
        for place in self.places(messages):
            if not place.missing and not place.astray:
                continue
            answers = moves.behind[place.group.last] = []
            for slot in place.calls:
                asked = messages[slot.message].parts[slot.part]
                call_id = asked.function_call.id if asked.function_call else ""
                at = found.answers.get(slot)
                if at is not None:
                    answers.append(Answer(slot, messages[at.message].parts[at.part], at))
                    moves.gone.add(at)
                    if at in place.astray:
                        faults.append(Fault(at.message, f"moved the result of call {call_id!r}"))
                elif slot in place.missing:
                    answers.append(Answer(slot, dialect.answer(asked, NO_RESULT), None))
                    faults.append(Fault(slot.message, f"added a result for call {call_id!r}"))
        return self.lay_out(dialect, messages, moves), faults


def _last_asking(messages: Messages, results: Results) -> int:
    """Return the index of the message whose calls may still wait: only results follow it."""
    i = len(messages) - 1
    while i >= 0 and messages[i].parts and all(map(results, messages[i].parts)):
        i -= 1
    return i


def _orphan_fault(messages: Messages, slot: Slot) -> Fault:
    result = messages[slot.message].parts[slot.part].function_response
    call_id = result.call_id if result else ""
    return Fault(slot.message, f"dropped a result for call {call_id!r}, which nobody asked for")


OPENING = "The start of this conversation is not shown."
"""What a repair puts in front of a history that begins with the model."""


def starts_with_user(messages: Messages) -> Iterator[Fault]:
    """Find a history that begins with the model."""
    first = next((i for i, m in enumerate(messages) if m.role is not Role.SYSTEM), None)
    if first is not None and messages[first].role is Role.MODEL:
        yield Fault(first, "the first message is the model's")


def start_with_user(dialect: Dialect, messages: Messages) -> Repaired:
    """Put a short user message in front of the model's."""
    at = next(starts_with_user(messages)).position
    name = f"{messages[at].message_id}.opening"
    opening = composed(dialect, Role.USER, [Part(text=OPENING)], name)
    return [*messages[:at], *opening, *messages[at:]], [Fault(at, "put a user message in front")]


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


def calls_unanswered(answers: Answers, what: str) -> tuple[Check, Repair]:
    """Find calls that should have a result by now; `what` says so of a {call}."""

    def check(messages: Messages) -> Iterator[Fault]:
        for place in answers.places(messages):
            for slot in place.missing:
                call = messages[slot.message].parts[slot.part].function_call
                yield Fault(slot.message, what.format(call=call))

    return check, answers.repair


def results_astray(answers: Answers, what: str) -> tuple[Check, Repair]:
    """Find results that are in a wrong place; `what` says so of a call in message {last}."""

    def check(messages: Messages) -> Iterator[Fault]:
        for place in answers.places(messages):
            for slot in place.astray:
                yield Fault(slot.message, what.format(last=place.group.last))

    return check, answers.repair


def results_without_call(answers: Answers, what: str) -> tuple[Check, Repair]:
    """Find results that answer nothing; `what` says so of a {result}."""

    def check(messages: Messages) -> Iterator[Fault]:
        for slot in answers.orphans(messages):
            result = messages[slot.message].parts[slot.part].function_response
            yield Fault(slot.message, what.format(result=result))

    return check, answers.repair


Find = Callable[[Messages], Mapping[Slot, str]]
"""Finds the parts that break a rule, each with what is wrong."""


def _check(find: Find) -> Check:
    return lambda messages: (Fault(slot.message, what) for slot, what in find(messages).items())


def editing(find: Find, edit: Callable[[Part], Part], done: str) -> tuple[Check, Repair]:
    """Check for parts, and repair by editing them; `done` says how."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        slots = find(messages)
        new = {slot: edit(messages[slot.message].parts[slot.part]) for slot in slots}
        return edit_parts(dialect, messages, new), [Fault(slot.message, done) for slot in slots]

    return _check(find), repair


def dropping(find: Find) -> tuple[Check, Repair]:
    """Check for parts, and repair by leaving them out, and messages without any other."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        slots = find(messages)
        faults = [Fault(slot.message, f"dropped: {what}") for slot, what in sorted(slots.items())]
        return edit_parts(dialect, messages, dict.fromkeys(slots)), faults

    return _check(find), repair


def system_inside(messages: Messages) -> Iterator[Fault]:
    """Find system messages where the provider wants none."""
    for i, message in enumerate(messages):
        if message.role is Role.SYSTEM:
            yield Fault(i, "a message has the role system")


def system_as_user(check: Check) -> tuple[Check, Repair]:
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

    return check, repair


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


def renaming(find: Find, answers: Answers) -> tuple[Check, Repair]:
    """Check for such calls, and repair by giving them and their results unique ids."""

    def repair(dialect: Dialect, messages: Messages) -> Repaired:
        found = match(messages, answers.calls, answers.results).answers
        names = _fresh_ids(messages, find(messages), answers.calls)
        new: dict[Slot, Part | None] = {}
        for call, name in names.items():
            for slot in filter(None, (call, found.get(call))):
                part = messages[slot.message].parts[slot.part]
                new[slot] = dialect.with_call_id(part, name)
        renamed = [Fault(at.message, f"renamed a call to {name!r}") for at, name in names.items()]
        return edit_parts(dialect, messages, new), renamed

    return _check(find), repair


def _fresh_ids(messages: Messages, slots: Iterable[Slot], calls: Calls) -> dict[Slot, str]:
    """Generate ids that no call of the history has."""
    taken = {call.id for m in messages for part in m.parts if (call := calls(part)) is not None}
    names: dict[Slot, str] = {}
    numbers: dict[str, int] = {}
    """The last number tried for each id, so that a thousand equal ones take no million steps."""
    for slot in slots:
        call = calls(messages[slot.message].parts[slot.part])
        stem = (call.id if call else "") or "call"
        number = numbers.get(stem, 1) + 1
        while f"{stem}_{number}" in taken:
            number += 1
        numbers[stem] = number
        names[slot] = f"{stem}_{number}"
        taken.add(names[slot])
    return names
