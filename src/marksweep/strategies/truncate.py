"""Truncate: the oldest units first."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.model import Action

OLDEST = "truncated: the oldest left"


class Truncate:
    """Rank by age alone. Fast, and right when old context has no value."""

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "truncate"

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose every unit that may go, oldest first."""
        last, reason = None, OLDEST
        for first in scene.units.firsts():
            members = scene.units.members(first)
            if scene.may_go(members):
                turn = scene.segments[first].topic_id
                if turn != last:
                    reason = f"{OLDEST} of {turn.replace('_', ' ')}" if turn else OLDEST
                    last = turn
                yield Proposal(members, Action.STASH, reason)
