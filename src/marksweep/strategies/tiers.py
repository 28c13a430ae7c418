"""Tiers: several strategies in order, each used only if those before it fell short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Learning, Proposal, Strategy
from marksweep.model import IN_PLACE, Segment


def in_tiers(*tiers: Strategy) -> Strategy:
    """Combine strategies. The result learns if one of them does."""
    if len(tiers) == 1:
        return tiers[0]
    learns = any(isinstance(tier, Learning) for tier in tiers)
    return LearningTiers(*tiers) if learns else Tiers(*tiers)


@runtime_checkable
class MakesStandIns(Protocol):
    """A strategy that puts a segment in the place of others, such as a summary."""

    @property
    def makes(self) -> frozenset[str]:
        """The types of what it makes."""
        ...


class Tiers:
    """Rank by one strategy after the other. Rankings are lazy, so a tier not needed costs nothing.

    A unit that an earlier tier edited in place may be taken whole by a later one. What an earlier
    tier makes is not dropped by a later one, which would take it at the next collection.
    """

    def __init__(self, *tiers: Strategy) -> None:
        self._tiers = tiers

    @property
    def name(self) -> str:
        """The names of the tiers, in order."""
        return " → ".join(tier.name for tier in self._tiers)

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose what each tier does; a later one aims at what is left to free."""
        freed = 0
        stand_ins: frozenset[str] = frozenset()
        for tier in self._tiers:
            for proposal in tier.rank(_aimed(context, freed)):
                members = _members_of(proposal, context)
                if proposal.replacement is None and any(
                    context.segments[i].type in stand_ins for i in members
                ):
                    continue
                yield proposal
                freed += _freed_by(proposal, members, context)
            if isinstance(tier, MakesStandIns):
                stand_ins |= tier.makes


class LearningTiers(Tiers):
    """Tiers some of which learn: those are told, choose the depth and may bring things back."""

    def __init__(self, *tiers: Strategy) -> None:
        super().__init__(*tiers)
        self._learning = [tier for tier in tiers if isinstance(tier, Learning)]

    def observe(self, segments: Sequence[Segment]) -> None:
        """Tell each tier that learns of new segments."""
        for tier in self._learning:
            tier.observe(segments)

    def forget(self, segment_ids: Sequence[str]) -> None:
        """Tell each tier that learns of segments that have left."""
        for tier in self._learning:
            tier.forget(segment_ids)

    def target(self, context: PlanningContext, wanted: int) -> int:
        """Land where the one lands that goes deepest."""
        return min(tier.target(context, wanted) for tier in self._learning)

    def recall(self, context: PlanningContext) -> Proposal | None:
        """Propose what the first tier proposes that misses something."""
        proposals = (tier.recall(context) for tier in self._learning)
        return next((proposal for proposal in proposals if proposal is not None), None)


def _aimed(context: PlanningContext, freed: int) -> PlanningContext:
    if not freed or context.target is None:
        return context
    return context.aiming_at(context.target + freed)


def _members_of(proposal: Proposal, context: PlanningContext) -> tuple[int, ...]:
    """All that a proposal concerns: whole units, unless it edits in place."""
    if proposal.action in IN_PLACE:
        return proposal.members
    return tuple({mate for i in proposal.members for mate in context.units.members(i)})


def _freed_by(proposal: Proposal, members: tuple[int, ...], context: PlanningContext) -> int:
    """What a proposal frees if the planner takes it."""
    if not context.may_go(members):
        return 0
    size = sum(context.sizes[i] for i in members)
    return size - (proposal.replacement.tokens if proposal.replacement else 0)
