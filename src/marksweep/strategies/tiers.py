"""Tiers: several strategies in order, each used only if those before it fell short."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal, Strategy


class Tiers:
    """Rank by one strategy after the other. Rankings are lazy, so a tier not needed costs nothing.

    A unit that an earlier tier edited in place may be taken whole by a later one.
    """

    def __init__(self, *tiers: Strategy) -> None:
        self._tiers = tiers

    @property
    def name(self) -> str:
        """The names of the tiers, in order."""
        return " → ".join(tier.name for tier in self._tiers)

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose what each tier does."""
        for tier in self._tiers:
            yield from tier.rank(context)
