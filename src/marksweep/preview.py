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
from itertools import islice

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


def largest_changes(
    plan: Plan, before: Sequence[Message], after: Sequence[Message]
) -> tuple[Change, ...]:
    """Show the largest steps of a plan; `before` and `after` are the messages around it."""
    known = {message.message_id: at for at, message in enumerate(before)}
    left = {message.message_id: at for at, message in enumerate(after)}

    def instead(places: Sequence[int]) -> list[Message]:
        """Return the messages that replace these, or the new one where the first of them was."""
        shortened = [left[before[at].message_id] for at in places if before[at].message_id in left]
        if shortened or not places:
            return [after[at] for at in shortened]
        kept = (left[m.message_id] for m in before[: min(places)][::-1] if m.message_id in left)
        place = next(kept, -1) + 1
        return [m for m in after[place : place + 1] if m.message_id not in known]

    def change(step: Step) -> Change:
        places = [known[name] for name in step.segments if name in known]
        return Change(
            step.segments,
            step.action,
            step.size,
            step.reason,
            excerpt("\n".join(said_in(before[at]) for at in places)),
            excerpt("\n".join(map(said_in, instead(places)))),
        )

    steps = sorted(plan.steps, key=lambda step: -step.size)[:MAX_CHANGES]
    return tuple(change(step) for step in steps if step.size > 0)


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
    often_first = sorted(shown, key=lambda name: (-uses[name], name))
    lost = (Missed(name, uses[name], shown[name]) for name in often_first if name not in kept)
    return tuple(islice(lost, MAX_MISSED))


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
