"""What a strategy is: it ranks, and has no other job.

    class Oldest:
        name = "oldest"

        def rank(self, context: PlanningContext) -> Iterator[Proposal]:
            for i in context.free():
                yield Proposal((i,), Action.STASH, "the oldest left")

The planner takes from the ranking until the target is met. It closes units, refuses what must stay
and counts what is freed, so that a strategy need not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.model import Action, Segment


class Proposal(msgspec.Struct, frozen=True, gc=False):
    """What a strategy would do next, if those before it are done."""

    members: tuple[int, ...]
    """Indices into the snapshot: any member of a unit stands for the whole unit."""
    action: Action
    reason: str
    replacement: Segment | None = None


class Strategy(Protocol):
    """Ranks; first to go first, each with a reason. Lazy: what is not asked for is not worked out.

    Each proposal assumes that those before it were taken.
    """

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        ...

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose, first to go first."""
        ...
