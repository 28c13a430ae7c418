"""Oldest turns first. A turn goes whole, except what must stay; the newest, unit by unit.

A message's `topic_id` names its turn. What has none is not part of a conversation.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from marksweep.core.context import EXPENDABLE, PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action, GCPolicy


class Group(msgspec.Struct, frozen=True, gc=False):
    """What may go of one turn."""

    turn: str
    units: tuple[tuple[int, ...], ...]

    @property
    def members(self) -> tuple[int, ...]:
        """Every index, in heap order."""
        return tuple(sorted([i for unit in self.units for i in unit]))

    def weight(self, context: PlanningContext) -> int:
        """Tokens that would go."""
        return sum([context.sizes[i] for unit in self.units for i in unit])

    def spoken(self) -> str:
        """The name of the turn for people to read."""
        return self.turn.replace("_", " ")


_FIRMNESS = {
    GCPolicy.EPHEMERAL: 0,
    GCPolicy.PARTIAL: 1,
    GCPolicy.CONDITIONAL: 2,
    GCPolicy.PRESERVABLE: 3,
    GCPolicy.LOCKED: 4,
}


def unit_policy(context: PlanningContext, members: tuple[int, ...]) -> GCPolicy:
    """The policy of a unit: the firmest of its members."""
    firmest = context.segments[members[0]].policy
    for i in members[1:]:
        policy = context.segments[i].policy
        if policy is not firmest and _FIRMNESS[policy] > _FIRMNESS[firmest]:
            firmest = policy
    return firmest


def collectable_turns(
    context: PlanningContext, policies: frozenset[GCPolicy] = EXPENDABLE
) -> list[Group]:
    """What may go of each turn and has one of these policies, oldest first."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for members in context.units:
        turn = context.segments[members[0]].topic_id
        if (
            turn is not None
            and unit_policy(context, members) in policies
            and context.may_go(members)
        ):
            found.setdefault(turn, []).append(members)
    return [Group(turn, tuple(units)) for turn, units in found.items()]


def newest_turn(context: PlanningContext) -> str | None:
    """The current turn."""
    for segment in reversed(context.segments):
        if segment.topic_id is not None:
            return segment.topic_id
    return None


def drop(context: PlanningContext, groups: list[Group], word: str) -> Iterator[Proposal]:
    """Propose to stash turns in order. The newest one goes unit by unit, never at once."""
    newest = newest_turn(context)
    for group in groups:
        if group.turn != newest:
            yield Proposal(
                group.members, Action.STASH, f"{word}: {group.spoken()} is the oldest left"
            )
            continue
        for unit in group.units:
            yield Proposal(unit, Action.STASH, f"{word}: the oldest left of {group.spoken()}")


def drop_preservable(
    context: PlanningContext, word: str, spared_types: frozenset[str] = frozenset()
) -> Iterator[Proposal]:
    """Propose what is worth preserving, oldest first. The planner takes it only under pressure."""
    for members in context.units:
        kind = context.segments[members[0]].type
        if kind in spared_types or not context.may_go(members):
            continue
        if unit_policy(context, members) is GCPolicy.PRESERVABLE:
            yield Proposal(members, Action.STASH, f"{word}: {kind}, and the pressure is high")


class OldestTurns:
    """Rank turns by age; under pressure, then what is worth preserving."""

    name = "oldest turns"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose turns, oldest first."""
        yield from drop(context, collectable_turns(context), "truncated")
        yield from drop_preservable(context, "preservable_under_pressure")
