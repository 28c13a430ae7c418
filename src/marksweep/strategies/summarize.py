"""Oldest turns into a summary: no more of them than the budget asks for.

The summary before stays where it is, and the new one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.model import Action, Segment
from marksweep.strategies.turns import Group, collectable_turns, drop_preservable

EXPECTED_SHARE = 0.25
"""What a summary is expected to weigh, as a share of what it stands for.

Only to choose how many turns it takes. Too low, and a second summary is needed; too high, and
turns are summarised that could have stayed.
"""

BITE = 0.25
"""Share of a heap that one summary takes where nobody says how much must be freed.

Smaller bites stop closer to the target, and make more and thinner summaries.
"""

Digest = Callable[[Sequence[Segment]], Segment | None]
"""Make one segment that stands for these, or None if none would be shorter."""


def summarized(
    scene: Scene, groups: list[Group], digest: Digest, needed: int, word: str
) -> Iterator[Proposal]:
    """Propose summaries of turns, oldest first, each of no more turns than are needed.

    `needed` 0 means that nobody knows: then each takes a share of the heap.

    Too little to be worth a summary is tried again with twice as many turns.
    """
    waiting = list(reversed(groups))
    needed = needed or int(scene.tokens * BITE)
    while waiting:
        taken: list[Group] = []
        weight = 0
        while waiting and weight * (1 - EXPECTED_SHARE) < needed:
            taken.append(waiting.pop())
            weight += taken[-1].weight(scene)
        summary = digest(_segments(scene, taken))
        while summary is None and waiting:
            taken += [waiting.pop() for _ in range(min(len(taken), len(waiting)))]
            summary = digest(_segments(scene, taken))
        if summary is None:
            return
        first, last = taken[0].spoken(), taken[-1].spoken()
        span = first if len(taken) == 1 else f"{first} to {last}"
        members = _members(taken)
        yield Proposal(members, Action.COMPRESS, f"{word}: {span}, the oldest left", summary)
        freed = sum(scene.sizes[i] for i in members) - summary.tokens
        needed = max(1, needed - freed)


def _segments(scene: Scene, groups: list[Group]) -> list[Segment]:
    return [scene.segments[i] for i in _members(groups)]


def _members(groups: list[Group]) -> tuple[int, ...]:
    return tuple(sorted(i for group in groups for i in group.members))


class Summarize:
    """Rank the oldest turns as one range to summarise.

    `needed` is what must be freed; 0: not known, then a share of the heap at a time.
    """

    def __init__(self, digest: Digest, needed: int = 0) -> None:
        self._digest = digest
        self._needed = needed

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "summarize"

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose summaries, then, under pressure, to let go of earlier ones."""
        groups = collectable_turns(scene)
        yield from summarized(scene, groups, self._digest, self._needed, "summarized")
        yield from drop_preservable(scene, "preservable_under_pressure")
