"""Oldest turns into a summary: no more of them than the budget asks for.

The summary before stays where it is, and the new one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action, Segment
from marksweep.strategies.turns import Group, collectable_turns, drop_preservable

EXPECTED_SHARE = 0.25
"""What a summary is expected to weigh, as a share of what it stands for.

Only to choose how many turns it takes. Too low, and a second summary is needed; too high, and
turns are summarised that could have stayed.
"""

SUMMARIES = frozenset({"summary", "turn summary"})
"""Types of segments that stand for others."""

Digest = Callable[[Sequence[Segment], Sequence[Segment]], Segment | None]
"""Make one segment that stands for the first of these, or None if none would be shorter.

The second are the summaries before it: it goes on from there, and does not tell them again.
"""


def summarized(
    context: PlanningContext, groups: list[Group], digest: Digest, needed: int, word: str
) -> Iterator[Proposal]:
    """Propose summaries of turns, oldest first, each of no more turns than are needed.

    Too little to be worth a summary is tried again with twice as many turns.
    """
    waiting = list(reversed(groups))
    made: list[Segment] = []
    while waiting:
        taken: list[Group] = []
        weight = 0
        while waiting and weight * (1 - EXPECTED_SHARE) < needed:
            group = waiting.pop() if taken else _beginning_outside(context, waiting.pop())
            if group.units:
                taken.append(group)
                weight += group.weight(context)
        if not taken:
            return
        members = _members(taken)
        earlier = [*_summaries_before(context, members[0]), *made]
        summary = digest([context.segments[i] for i in members], earlier)
        while summary is None and waiting:
            taken += [waiting.pop() for _ in range(min(len(taken), len(waiting)))]
            members = _members(taken)
            summary = digest([context.segments[i] for i in members], earlier)
        if summary is None:
            return
        made.append(summary)
        first, last = taken[0].spoken(), taken[-1].spoken()
        span = first if len(taken) == 1 else f"{first} to {last}"
        yield Proposal(members, Action.COMPRESS, f"{word}: {span}, the oldest left", summary)
        freed = sum(context.sizes[i] for i in members) - summary.tokens
        needed = max(1, needed - freed)


def _beginning_outside(context: PlanningContext, group: Group) -> Group:
    """Leave out what a group begins with inside a unit that stays: a summary there would split it.

    Only a broken history has such, for one a stray result between a call and its result.
    """
    units = group.units
    while units and _is_inside(context, units[0][0]):
        units = units[1:]
    return Group(group.turn, units)


def _is_inside(context: PlanningContext, index: int) -> bool:
    turn = context.segments[index].topic_id
    for before in range(index - 1, -1, -1):
        if context.segments[before].topic_id != turn:
            return False
        if context.units.members(before)[-1] > index:
            return True
    return False


def _summaries_before(context: PlanningContext, index: int) -> list[Segment]:
    return [segment for segment in context.segments[:index] if segment.type in SUMMARIES]


def _members(groups: list[Group]) -> tuple[int, ...]:
    return tuple(sorted([i for group in groups for unit in group.units for i in unit]))


class Summarize:
    """Rank the oldest turns as ranges to summarise.

    A summary made now is no part of the context, so pressure that lasts takes it the next time.
    """

    def __init__(self, digest: Digest) -> None:
        self._digest = digest

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "summarize"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose summaries, then, under pressure, to let go of earlier ones."""
        groups = collectable_turns(context)
        yield from summarized(context, groups, self._digest, context.needed, "summarized")
        yield from drop_preservable(context, "preservable_under_pressure")
