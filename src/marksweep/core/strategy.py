"""What a strategy is: it ranks. One that learns also observes what comes and goes.

    class Oldest:
        name = "oldest"

        def rank(self, context: PlanningContext) -> Iterator[Proposal]:
            for i in context.free():
                yield Proposal((i,), Action.STASH, "the oldest left")

The planner takes from the ranking until the target is met. It closes units, refuses what must stay
and counts what is freed, so that a strategy need not.

A `Learning` strategy keeps what it knows from one plan to the next. Its owner passes it every
segment once when it comes and once when it leaves, whether it is used alone or in tiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.model import Action, Segment


class Proposal(msgspec.Struct, frozen=True, gc=False):
    """What a strategy would do next, if the proposals before it are done."""

    members: tuple[int, ...]
    """Indices into the snapshot: any member of a unit means the whole unit."""
    action: Action
    reason: str
    replacement: Segment | None = None


class Strategy(Protocol):
    """Ranks; first to go first, each with a reason. Lazy: computes only what is requested.

    Each proposal assumes that those before it were taken.
    """

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        ...

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose, first to go first."""
        ...


class LastResort(Protocol):
    """What can still be done where a strategy's ranking falls short: every run can be collected.

    They may propose to trim roots that yield. `excess` returns how much is still too much.
    """

    def at_first(
        self, context: PlanningContext, waiting: Sequence[int], excess: int
    ) -> Iterator[Proposal]:
        """Propose to trim so much of what the model has not answered, before a strategy ranks."""
        ...

    def to_target(self, context: PlanningContext, excess: Callable[[], int]) -> Iterator[Proposal]:
        """Propose how to reach the target, once everything that may go has been offered."""
        ...

    def to_limit(self, context: PlanningContext, excess: Callable[[], int]) -> Iterator[Proposal]:
        """Propose how to fit the limit, whatever the strategy offered."""
        ...

    def at_last(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose what goes if not even that is enough."""
        ...


@runtime_checkable
class Learning(Strategy, Protocol):
    """A strategy that remembers what it observed, may free more, and may bring things back."""

    def observe(self, segments: Sequence[Segment]) -> None:
        """Learn segments that are live now and were not before, in order.

        After a restart these are all earlier segments that are still known, in full; those that are
        no longer live are forgotten right after.
        """
        ...

    def forget(self, segment_ids: Sequence[str]) -> None:
        """Note that segments have left the heap. One that comes back is observed again."""
        ...

    def target(self, context: PlanningContext, wanted: int) -> int:
        """Choose the target size, at most `wanted`."""
        ...

    def recall(self, context: PlanningContext) -> Proposal | None:
        """Propose a note to put before `context.unanswered`; None if nothing is missed."""
        ...


def goes_to_limit(strategy: Strategy) -> bool:
    """Whether a strategy uses the whole limit, at any cost: its attribute of this name."""
    return bool(getattr(strategy, "goes_to_limit", False))
