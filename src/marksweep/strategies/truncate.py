"""Truncate: the oldest units first."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.model import Action


class Truncate:
    """Rank by age alone. Fast, and right when old context has no value."""

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "truncate"

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose every unit that may go, oldest first."""
        for first in scene.units.firsts():
            members = scene.units.members(first)
            if scene.may_go(members):
                turn = scene.segments[first].topic_id
                of_turn = f" of {turn.replace('_', ' ')}" if turn else ""
                yield Proposal(members, Action.STASH, f"truncated: the oldest left{of_turn}")
