"""Dead: superseded results, then unreachable ones; each message once, by the first reason found."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.strategies.superseded import Superseded
from marksweep.strategies.unreachable import Unreachable


class Dead:
    """Rank what either finds dead; leave the rest alone, whatever the budget asks."""

    def __init__(self, superseded: Superseded, unreachable: Unreachable) -> None:
        self._superseded = superseded
        self._unreachable = unreachable

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "dead"

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose what either finds."""
        proposed: set[int] = set()
        for proposal in chain(self._superseded.rank(scene), self._unreachable.rank(scene)):
            if proposed.isdisjoint(proposal.members):
                proposed.update(proposal.members)
                yield proposal
