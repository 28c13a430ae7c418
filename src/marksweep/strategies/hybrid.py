"""Generations of turns: the ancient ones go, those in the middle become a summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.strategies.summarize import SUMMARIES, Digest, summarized
from marksweep.strategies.turns import collectable_turns, drop, drop_preservable

MIDDLE_TURNS = 10
"""Turns before the recent ones that are summarised; what is older goes.

More keeps the gist of more history and takes longer; 0 makes it a plain truncation.
"""


@dataclass(frozen=True)
class Hybrid:
    """Rank ancient turns first, then the newest `middle` of those that may go, as a summary."""

    name = "hybrid"
    makes = SUMMARIES
    """Types of the segments that it puts in the place of turns."""

    digest: Digest
    middle: int = MIDDLE_TURNS

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose the ancient turns one by one, then the middle ones as a range."""
        groups = collectable_turns(context)
        cut = max(0, len(groups) - self.middle)
        ancient, middle = groups[:cut], groups[cut:]
        yield from drop(context, ancient, "ancient_truncated")
        freed = sum(group.weight(context) for group in ancient)
        needed = max(1, context.needed - freed)
        yield from summarized(context, middle, self.digest, needed, "middle_summarized")
        yield from drop_preservable(context, "preservable_under_pressure", SUMMARIES)
