"""What a plan would do, for people: what goes, what the model sees instead, what it may miss.

before = talk.history
talk.collect(plan)
largest_changes(plan, before, talk.history)
likely_missed(before, talk.history)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from marksweep.messages import Message, Role, said_in
from marksweep.model import Action, Plan, Step

MAX_CHANGES = 3
"""Steps that are shown before and after, the largest first."""

MAX_MISSED = 8
"""Names that are listed, those that the agent used most often first."""

MAX_SPOKEN = 300
"""Messages of the agent, the newest, in which names are looked for."""

MAX_LOOKED_AT_CHARS = 2_000_000
"""Characters of what goes, the newest, in which those names are looked for. More takes longer."""

MAX_LINES, MAX_COLUMNS = 6, 160
"""What is shown of a text."""

_NAME = re.compile(r"[\w./@:+-]*[\w@]")
_TELLING = re.compile(r"\d|_|[a-z][A-Z]|\w[./@:]\w")
_STAND_IN = re.compile(r"\[(?:marksweep:|… )")


class Change(msgspec.Struct, frozen=True):
    """One step of a plan: what was there, and what the model sees instead."""

    messages: tuple[str, ...]
    action: Action
    tokens: int
    """Tokens freed."""
    reason: str
    before: str
    """The beginning of what it was."""
    after: str
    """What replaces it, around the first gap; empty if nothing does."""


class Missed(msgspec.Struct, frozen=True):
    """A name that the agent used and that no message contains any more."""

    name: str
    uses: int
    """Messages of the agent that had it in a call or in their text."""
    message: str
    """The last message that held it."""


class _Sides(NamedTuple):
    """The messages around a plan, and the places of each by its id."""

    before: Sequence[Message]
    after: Sequence[Message]
    known: dict[str, int]
    left: dict[str, int]

    def stand_in(self, at: int) -> Sequence[Message]:
        """Return the message that stands where one was dropped, if there is one."""
        kept = (
            self.left[m.message_id] for m in reversed(self.before[:at]) if m.message_id in self.left
        )
        place = next(kept, -1) + 1
        return [m for m in self.after[place : place + 1] if m.message_id not in self.known]

    def change(self, step: Step) -> Change:
        """Show what a step does."""
        places = [self.known[name] for name in step.segments if name in self.known]
        ids = [self.before[at].message_id for at in places]
        now = [self.after[self.left[name]] for name in ids if name in self.left]
        if not now and places:
            now = [*self.stand_in(min(places))]
        return Change(
            step.segments,
            step.action,
            step.size,
            step.reason,
            excerpt("\n".join(said_in(self.before[at]) for at in places)),
            excerpt("\n".join(map(said_in, now))),
        )


def largest_changes(
    plan: Plan, before: Sequence[Message], after: Sequence[Message]
) -> tuple[Change, ...]:
    """Show the largest steps of a plan; `before` and `after` are the messages around it."""
    known = {message.message_id: at for at, message in enumerate(before)}
    left = {message.message_id: at for at, message in enumerate(after)}
    sides = _Sides(before, after, known, left)
    steps = sorted(plan.steps, key=lambda step: -step.size)[:MAX_CHANGES]
    return tuple(sides.change(step) for step in steps if step.size > 0)


def likely_missed(before: Sequence[Message], after: Sequence[Message]) -> tuple[Missed, ...]:
    """List names that the agent used lately and no longer has: it often uses a name again.

    A name is a distinctive word: with a digit, an underscore, a path, a capital inside. A name that
    only the agent itself said does not count, since it can say it again.
    """
    spoken = [m for m in before if m.role is Role.MODEL][-MAX_SPOKEN:]
    uses = Counter(name for message in spoken for name in _names(said_in(message)))
    again = {name for name, count in uses.items() if count > 1}
    left = {message.message_id: message for message in after}
    shown: dict[str, str] = {}
    looked_at = 0
    for message in reversed(before):
        if message.role is Role.MODEL or left.get(message.message_id) == message:
            continue
        said = said_in(message)
        looked_at += len(said)
        if looked_at > MAX_LOOKED_AT_CHARS:
            break
        for name in again.intersection(_names(said)):
            shown.setdefault(name, message.message_id)
    kept = "\n".join(map(said_in, after)) if shown else ""
    lost: list[Missed] = []
    for name in sorted(shown, key=lambda name: (-uses[name], name)):
        if name not in kept:
            lost.append(Missed(name, uses[name], shown[name]))
            if len(lost) == MAX_MISSED:
                break
    return tuple(lost)


def _names(text: str) -> set[str]:
    words = (word.strip(".:/+-") for word in _NAME.findall(text))
    return {word for word in words if len(word) > 2 and _TELLING.search(word)}


def excerpt(text: str) -> str:
    """Return the first lines of a text; of one with a gap, those around it."""
    lines = [line[:MAX_COLUMNS] for line in text.strip().splitlines() if line.strip()]
    gap = next((n for n, line in enumerate(lines) if _STAND_IN.match(line)), 0)
    first = max(0, min(gap - MAX_LINES // 2, len(lines) - MAX_LINES))
    rest = len(lines) - first - MAX_LINES
    more = [f"(and {rest:,} more lines)"] if rest > 0 else []
    return "\n".join([*lines[first : first + MAX_LINES], *more])
