"""Whether the result of a call is where its provider wants it, and the repair if it is not.

Providers differ in where the answers must be:

    separate   each in a separate message, right after the call's (chat completions)
    together   all at the start of what the user says next (Anthropic, Gemini)
    anywhere   later in the list (Responses)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from marksweep.dialects.base import (
    Calls,
    Dialect,
    Fault,
    Matches,
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


def is_results_only(message: Message, results: Results) -> bool:
    """Whether a message holds results and nothing else."""
    return bool(message.parts) and all(results(part) is not None for part in message.parts)


class GroupCheck(NamedTuple):
    """The findings about the calls of one group."""

    group: Group
    calls: list[Slot]
    missing: list[Slot]
    """Calls without any result, which must have one by now."""
    astray: list[Slot]
    """Results in the wrong place."""


class Separate:
    """Answers come right after the message with the calls, each in a separate message."""

    calls: Calls = staticmethod(call_of)
    results: Results = staticmethod(result_of)

    def places(self, messages: Messages) -> Iterator[GroupCheck]:
        """Check each message that has calls."""
        found = match(messages)
        waiting = last_asking(messages)
        for i, slots in _by_message(found).items():
            end = i + 1
            while end < len(messages) and messages[end].role is Role.TOOL:
                end += 1
            missing = [slot for slot in slots if slot not in found.answers]
            done = [found.answers[slot] for slot in slots if slot in found.answers]
            astray = [slot for slot in done if not i < slot.message < end]
            yield GroupCheck(Group(i, i), slots, [] if i == waiting else missing, astray)

    def repair(self, dialect: Dialect, messages: Messages) -> Repaired:
        """Move results to where they belong, add the missing, drop those without a call."""
        found = match(messages)
        gone = {slot.message for slot in found.orphans}
        faults = [_orphan_fault(messages, slot) for slot in found.orphans]
        after: dict[int, list[Message]] = {}
        for place in self.places(messages):
            if not place.missing and not place.astray:
                continue
            at = place.group.last
            for slot in place.calls:
                answer = found.answers.get(slot)
                call = messages[at].parts[slot.part].function_call
                if call is None:
                    continue
                if answer is not None:
                    gone.add(answer.message)
                    after.setdefault(at, []).append(messages[answer.message])
                    if answer in place.astray:
                        moved = f"moved the result of call {call.id!r} to its call"
                        faults.append(Fault(answer.message, moved))
                elif slot in place.missing:
                    name = f"{messages[at].message_id}.result{slot.part}"
                    part = dialect.answer(messages[at].parts[slot.part], NO_RESULT)
                    after.setdefault(at, []).extend(composed(dialect, Role.TOOL, [part], name))
                    faults.append(Fault(at, f"added a result for call {call.id!r}"))
        out: list[Message] = []
        for i, message in enumerate(messages):
            if i not in gone:
                out.append(message)
            out += after.get(i, ())
        return out, faults


@dataclass(frozen=True)
class Together:
    """Answers are in the messages after the group of model messages with the calls.

    `groups` says which model messages are answered at once, `reach` where the messages that may
    answer end, `standing` which results in them are in their place.
    """

    groups: Groups
    reach: Reach
    standing: Standing
    calls: Calls
    results: Results

    def places(self, messages: Messages) -> Iterator[GroupCheck]:
        """Check each group that has calls."""
        found = match(messages, self.calls, self.results)
        asked = _by_message(found)
        waiting = last_asking(messages, self.results)
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
        lost = set(found.orphans)
        moves: dict[int, list[Part]] = {}
        faults = [_orphan_fault(messages, slot) for slot in found.orphans]
        for place in self.places(messages):
            if not place.missing and not place.astray:
                continue
            for slot in place.calls:
                call = self.calls(messages[slot.message].parts[slot.part])
                at = found.answers.get(slot)
                if call is not None and slot in place.missing:
                    part = dialect.answer(messages[slot.message].parts[slot.part], NO_RESULT)
                    faults.append(Fault(slot.message, f"added a result for call {call.id!r}"))
                elif at is not None and call is not None:
                    part = messages[at.message].parts[at.part]
                    lost.add(at)
                    if at in place.astray:
                        faults.append(Fault(at.message, f"moved the result of call {call.id!r}"))
                else:
                    continue
                moves.setdefault(place.group.last, []).append(part)
        return self._laid_out(dialect, messages, lost, moves), faults

    def _laid_out(
        self, dialect: Dialect, messages: Messages, lost: set[Slot], moves: dict[int, list[Part]]
    ) -> list[Message]:
        """Rewrite the history: without the dropped parts, with the moved ones after their calls."""
        gone = _by_message_of(lost)
        out: list[Message] = []
        incoming: list[Part] = []
        for i, message in enumerate(messages):
            parts = [part for k, part in enumerate(message.parts) if k not in gone.get(i, ())]
            if incoming and message.role is not Role.TOOL:
                out += composed(dialect, Role.TOOL, incoming, f"{out[-1].message_id}.results")
                incoming = []
            if incoming:
                out.append(with_parts(dialect, message, [*incoming, *parts]))
            elif i not in gone:
                out.append(message)
            elif parts:
                out.append(with_parts(dialect, message, parts))
            incoming = moves.get(i, [])
        if incoming:
            out += composed(dialect, Role.TOOL, incoming, f"{out[-1].message_id}.results")
        return out


def run_after(messages: Messages, last: int) -> int:
    """Let every message up to the model's next one answer."""
    end = last + 1
    while end < len(messages) and messages[end].role is not Role.MODEL:
        end += 1
    return end


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


def last_asking(messages: Messages, results: Results = result_of) -> int:
    """Return the index of the message whose calls may still wait: only results follow it."""
    i = len(messages) - 1
    while i >= 0 and is_results_only(messages[i], results):
        i -= 1
    return i


def _by_message(found: Matches) -> dict[int, list[Slot]]:
    asked: dict[int, list[Slot]] = {}
    for slot in sorted([*found.answers, *found.unanswered]):
        asked.setdefault(slot.message, []).append(slot)
    return asked


def _by_message_of(slots: set[Slot]) -> dict[int, set[int]]:
    parts: dict[int, set[int]] = {}
    for slot in slots:
        parts.setdefault(slot.message, set()).add(slot.part)
    return parts


def _orphan_fault(messages: Messages, slot: Slot) -> Fault:
    result = messages[slot.message].parts[slot.part].function_response
    call_id = result.call_id if result else ""
    return Fault(slot.message, f"dropped a result for call {call_id!r}, which nobody asked for")
