"""Truncate: the oldest units first."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action

OLDEST = "truncated: the oldest left"


class Truncate:
    """Rank by age alone. Fast, and right when old context has no value."""

    name = "truncate"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose every unit that may go, oldest first."""
        last, reason = None, OLDEST
        for first in context.units.firsts():
            members = context.units.members(first)
            if context.may_go(members):
                turn = context.segments[first].topic_id
                if turn != last:
                    reason = f"{OLDEST} of {turn.replace('_', ' ')}" if turn else OLDEST
                    last = turn
                yield Proposal(members, Action.STASH, reason)
