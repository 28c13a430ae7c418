"""Dead: superseded results, then unreachable ones; each message once, by the first reason found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.strategies.superseded import Superseded
from marksweep.strategies.unreachable import Unreachable


@dataclass(frozen=True)
class Dead:
    """Rank what either finds dead; leave the rest alone, whatever the budget asks."""

    name = "dead"

    superseded: Superseded
    unreachable: Unreachable

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose what either finds."""
        proposed: set[int] = set()
        for proposal in chain(self.superseded.rank(context), self.unreachable.rank(context)):
            if proposed.isdisjoint(proposal.members):
                proposed.update(proposal.members)
                yield proposal
