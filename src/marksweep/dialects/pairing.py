"""Whether the result of a call is where its provider wants it, and the repair if it is not.

Providers differ in where the answers must be:

    separately   each in a separate message, right after the call's (chat completions), or anywhere
                 later (Responses)
    together     all at the start of what the user says next (Anthropic, Gemini)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from marksweep.dialects.base import (
    Calls,
    Dialect,
    Fault,
    Messages,
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


Layout = Callable[
    [Dialect, Messages, Collection[Slot], Mapping[int, Sequence[Answer]]], list[Message]
]


def separately(
    dialect: Dialect,
    messages: Messages,
    gone: Collection[Slot],
    behind: Mapping[int, Sequence[Answer]],
) -> list[Message]:
    """Write each result as a message; those that were there are moved unchanged."""
    dropped = {slot.message for slot in gone}
    out: list[Message] = []
    for i, message in enumerate(messages):
        if i not in dropped:
            out.append(message)
        for call, part, found_at in behind.get(i, ()):
            if found_at is not None:
                out.append(messages[found_at.message])
            else:
                name = f"{messages[call.message].message_id}.result{call.part}"
                out += composed(dialect, Role.TOOL, [part], name)
    return out


def together(
    dialect: Dialect,
    messages: Messages,
    gone: Collection[Slot],
    behind: Mapping[int, Sequence[Answer]],
) -> list[Message]:
    """Write all results at the start of what the user says next."""
    changed = {slot.message for slot in gone}
    out: list[Message] = []
    incoming: list[Part] = []
    for i, message in enumerate(messages):
        parts = [part for k, part in enumerate(message.parts) if Slot(i, k) not in gone]
        if incoming and message.role is not Role.TOOL:
            out += composed(dialect, Role.TOOL, incoming, f"{out[-1].message_id}.results")
            incoming = []
        if incoming:
            out.append(with_parts(dialect, message, [*incoming, *parts]))
        elif i not in changed:
            out.append(message)
        elif parts:
            out.append(with_parts(dialect, message, parts))
        incoming = [answer.part for answer in behind.get(i, ())]
    if incoming:
        out += composed(dialect, Role.TOOL, incoming, f"{out[-1].message_id}.results")
    return out


@dataclass(frozen=True)
class Answers:
    """Where a provider wants the results of calls: after a group of model messages.

    `groups` says which model messages are answered at once, `reach` where the messages that may
    answer end, `standing` which results in them are in their place. `lay_out` writes the history
    with each group's results behind it.
    """

    groups: Groups
    reach: Reach
    lay_out: Layout
    standing: Standing = anywhere
    calls: Calls = call_of
    results: Results = result_of

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
            end = self.reach(messages, group.last)
            good = set(self.standing(messages, group.last + 1, end, self.results))
            done = [found.answers[slot] for slot in slots if slot in found.answers]
            missing = [slot for slot in slots if slot not in found.answers]
            missing = [] if group.last == waiting else missing
            yield GroupCheck(group, slots, missing, [slot for slot in done if slot not in good])

    def repair(self, dialect: Dialect, messages: Messages) -> Repaired:
        """Move results to where they belong, add the missing, drop those without a call."""
        found = match(messages, self.calls, self.results)
        gone = set(found.orphans)
        faults = [_orphan_fault(messages, slot) for slot in found.orphans]
        behind: dict[int, list[Answer]] = {}
        for place in self.places(messages):
            if not place.missing and not place.astray:
                continue
            answers = behind[place.group.last] = []
            for slot in place.calls:
                asked = messages[slot.message].parts[slot.part]
                call_id = asked.function_call.id if asked.function_call else ""
                at = found.answers.get(slot)
                if at is not None:
                    answers.append(Answer(slot, messages[at.message].parts[at.part], at))
                    gone.add(at)
                    if at in place.astray:
                        faults.append(Fault(at.message, f"moved the result of call {call_id!r}"))
                elif slot in place.missing:
                    answers.append(Answer(slot, dialect.answer(asked, NO_RESULT), None))
                    faults.append(Fault(slot.message, f"added a result for call {call_id!r}"))
        return self.lay_out(dialect, messages, gone, behind), faults


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
