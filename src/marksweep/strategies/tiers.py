"""Tiers: several strategies in order, each used only if those before it fell short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Learning, Proposal, Strategy, goes_to_limit
from marksweep.model import IN_PLACE, Segment


def in_tiers(*tiers: Strategy) -> Strategy:
    """Combine strategies. The result learns if one of them does."""
    if len(tiers) == 1:
        return tiers[0]
    learns = any(isinstance(tier, Learning) for tier in tiers)
    return LearningTiers(*tiers) if learns else Tiers(*tiers)


@runtime_checkable
class MakesStandIns(Protocol):
    """A strategy that replaces segments by one, such as a summary."""

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

    @property
    def goes_to_limit(self) -> bool:
        """Whether one of them wants the whole limit."""
        return any(goes_to_limit(tier) for tier in self._tiers)

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose what each tier does; each sees what those before it have done."""
        done = _Done(context)
        for tier in self._tiers:
            for proposal in tier.rank(done.context_for(tier)):
                if done.may_still(proposal):
                    yield proposal
                    done.note(proposal)
            done.note_tier(tier)


class _Done:
    """What the tiers so far have done to a context, if the planner takes it all."""

    def __init__(self, context: PlanningContext) -> None:
        self._context = context
        self._edits: dict[int, Segment] = {}
        self._freed_by_edits = 0
        self._gone: set[int] = set()
        self._freed = 0
        self._stand_ins: frozenset[str] = frozenset()

    def context_for(self, tier: Strategy) -> PlanningContext:
        """Return a context whose target is what is left to free, with the edits so far.

        A tier that learns follows the heap, so it gets the unedited heap.
        """
        context, freed = self._context, self._freed
        if isinstance(tier, Learning):
            freed += self._freed_by_edits
        elif self._edits:
            context = context.with_edits(self._edits)
        return context.freed_elsewhere(freed)

    def may_still(self, proposal: Proposal) -> bool:
        """Whether a proposal leaves alone what an earlier tier makes."""
        if proposal.replacement is not None:
            return True
        types = {self._context.segments[i].type for i in self._members(proposal)}
        return not types & self._stand_ins

    def note(self, proposal: Proposal) -> None:
        """Record what a proposal edits and frees."""
        members = self._members(proposal)
        if not self._context.may_go(members) or not self._gone.isdisjoint(members):
            return
        replacement = proposal.replacement
        freed = sum(map(self._size, members)) - (replacement.tokens if replacement else 0)
        if replacement is not None and proposal.action in IN_PLACE:
            self._edits[members[0]] = replacement
            self._freed_by_edits += freed
        else:
            self._gone.update(members)
            self._freed += freed

    def note_tier(self, tier: Strategy) -> None:
        """Record what a tier makes in place of others."""
        if isinstance(tier, MakesStandIns):
            self._stand_ins |= tier.makes

    def _size(self, i: int) -> int:
        return self._edits[i].tokens if i in self._edits else self._context.sizes[i]

    def _members(self, proposal: Proposal) -> tuple[int, ...]:
        """All that a proposal concerns: whole units, unless it edits in place."""
        if proposal.action in IN_PLACE:
            return proposal.members
        units = self._context.units
        return tuple({mate for i in proposal.members for mate in units.members(i)})


class LearningTiers(Tiers):
    """Tiers some of which learn: those observe, choose the depth and may bring things back."""

    def __init__(self, *tiers: Strategy) -> None:
        super().__init__(*tiers)
        self._learning = [tier for tier in tiers if isinstance(tier, Learning)]

    def observe(self, segments: Sequence[Segment]) -> None:
        """Pass new segments to each tier that learns."""
        for tier in self._learning:
            tier.observe(segments)

    def forget(self, segment_ids: Sequence[str]) -> None:
        """Pass segments that have left to each tier that learns."""
        for tier in self._learning:
            tier.forget(segment_ids)

    def target(self, context: PlanningContext, wanted: int) -> int:
        """Return the lowest target of the tiers."""
        return min(tier.target(context, wanted) for tier in self._learning)

    def recall(self, context: PlanningContext) -> Proposal | None:
        """Return the proposal of the first tier that misses something."""
        proposals = (tier.recall(context) for tier in self._learning)
        return next((proposal for proposal in proposals if proposal is not None), None)
