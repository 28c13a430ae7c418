"""By policy: what is regenerated first, then what has served its purpose, then old turns.

1. Enrichment, all of it at once: it is made again each turn.
2. Other EPHEMERAL segments, oldest first: working output, schemas that can be discovered again.
3. PARTIAL turns, oldest first.
4. PRESERVABLE segments, oldest first, and only under pressure.

LOCKED segments are never proposed; CONDITIONAL ones only if their owner gave them another policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action, GCPolicy
from marksweep.strategies.turns import collectable_turns, drop, drop_preservable, unit_policy

CONVERSATION = "conversation"
"""The type of segments that stand for turns whose messages are not known."""

ENRICHMENT = "enrichment"
"""The type of segments that are made again each turn."""


class ByPolicy:
    """Rank by policy, then by age."""

    name = "budget"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose in the order of the policies."""
        yield from _enrichment(context)
        yield from _ephemeral(context)
        turns = collectable_turns(context, frozenset({GCPolicy.PARTIAL}))
        yield from drop(context, turns, "partial_turn")
        yield from _partial_others(context)
        yield from drop_preservable(context, "preservable_under_pressure")


def _enrichment(context: PlanningContext) -> Iterator[Proposal]:
    members = tuple(
        i
        for i, segment in enumerate(context.segments)
        if segment.type == ENRICHMENT
        and segment.policy == GCPolicy.EPHEMERAL
        and context.may_go(context.units.members(i))
    )
    if members:
        yield Proposal(members, Action.STASH, "enrichment_bulk_clear: it is made again each turn")


def _ephemeral(context: PlanningContext) -> Iterator[Proposal]:
    segments = context.segments
    found = [
        members
        for members in context.units
        if segments[members[0]].type != ENRICHMENT
        and unit_policy(context, members) is GCPolicy.EPHEMERAL
        and context.may_go(members)
    ]
    found.sort(key=lambda members: (segments[members[0]].created_at, members[0]))
    for members in found:
        kind = segments[members[0]].type
        yield Proposal(members, Action.STASH, f"ephemeral: the oldest {kind} left")


def _partial_others(context: PlanningContext) -> Iterator[Proposal]:
    """Propose what is PARTIAL and not a message, in heap order: turns of which only the tokens are
    known, and parts of plugins."""
    for members in context.units:
        segment = context.segments[members[0]]
        if (
            segment.topic_id is None
            and segment.policy == GCPolicy.PARTIAL
            and context.may_go(members)
        ):
            word = "partial_turn" if segment.type == CONVERSATION else "partial"
            yield Proposal(members, Action.STASH, f"{word}: {segment.type}, after all old turns")
