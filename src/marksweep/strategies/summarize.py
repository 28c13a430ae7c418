"""The oldest turns become a summary: no more of them than the budget requires.

The previous summary stays in place, and the new one continues from there. Above the hard limit,
earlier summaries are merged into the new one, so that there is one; none is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action, Segment
from marksweep.strategies.turns import Group, collectable_turns, drop_preservable

EXPECTED_SHARE = 0.25
"""Expected tokens of a summary, as a share of what it replaces.

Only to choose how many turns it takes. Too low, and it is made again of more turns; too high, and
turns are summarised that could have stayed.
"""

SUMMARIES = frozenset({"summary", "turn summary"})
"""Types of segments that replace others."""

Digest = Callable[[Sequence[Segment], Sequence[Segment]], Segment | None]
"""Make one segment that replaces the first of these, or None if none would be shorter.

The second are the earlier summaries: it continues from there, and does not repeat them.
"""


def summarized(
    context: PlanningContext, groups: list[Group], digest: Digest, needed: int, word: str
) -> Iterator[Proposal]:
    """Propose one summary of turns, oldest first, and of no more of them than are needed.

    It is made before it is proposed, and made again of twice as many turns if it frees too little:
    a second one beside it would be merged by the next collection, which then would never end.
    """
    summaries = [i for i, s in enumerate(context.segments) if s.type in SUMMARIES]
    merged = [i for i in summaries if context.may_go((i,))]
    waiting = list(reversed(groups))
    taken: list[Group] = []
    best: Proposal | None = None
    freed = 0
    while waiting or not taken:
        taken += _next_groups(context, waiting, taken, needed)
        members = tuple(sorted([*merged, *(i for group in taken for i in group.members)]))
        if not taken and len(merged) < 2:
            break
        earlier = [context.segments[i] for i in summaries if i not in merged and i < members[0]]
        summary = digest([context.segments[i] for i in members], earlier)
        if summary is not None:
            best = Proposal(members, Action.COMPRESS, _reason(word, taken), summary)
            freed = sum(context.sizes[i] for i in members) - summary.tokens
        if freed >= needed or not taken:
            break
    if best is not None:
        yield best


def _next_groups(
    context: PlanningContext, waiting: list[Group], taken: list[Group], needed: int
) -> list[Group]:
    """Take turns that are expected to be enough; if some were taken already, as many again."""
    found: list[Group] = []
    weight = 0
    while waiting and (
        len(found) < len(taken) if taken else weight * (1 - EXPECTED_SHARE) < needed
    ):
        group = waiting.pop()
        if not taken and not found:
            group = _beginning_outside(context, group)
        if group.units:
            found.append(group)
            weight += group.weight(context)
    return found


def _reason(word: str, taken: Sequence[Group]) -> str:
    if not taken:
        return f"{word}: the summaries so far, into one"
    first, last = taken[0].spoken(), taken[-1].spoken()
    return f"{word}: {first if len(taken) == 1 else f'{first} to {last}'}, the oldest left"


def _beginning_outside(context: PlanningContext, group: Group) -> Group:
    """Leave out what a group begins with inside a unit that stays: a summary there would split it.

    Only a broken history has such a group, for example a stray result between a call and its
    result.
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


@dataclass(frozen=True)
class Summarize:
    """Rank the oldest turns as a range to summarise."""

    name = "summarize"
    makes = SUMMARIES
    """Types of the segments that it puts in the place of turns."""

    digest: Digest

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose a summary, then, under pressure, what is worth preserving and is not one."""
        groups = collectable_turns(context)
        yield from summarized(context, groups, self.digest, context.needed, "summarized")
        yield from drop_preservable(context, "preservable_under_pressure", SUMMARIES)
