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

SUMMARIES = frozenset({"summary", "turn summary"})
"""Types of segments that stand for others."""

Digest = Callable[[Sequence[Segment], Sequence[Segment]], Segment | None]
"""Make one segment that stands for the first of these, or None if none would be shorter.

The second are the summaries before it: it goes on from there, and does not tell them again.
"""


def summarized(
    scene: Scene, groups: list[Group], digest: Digest, needed: int, word: str
) -> Iterator[Proposal]:
    """Propose summaries of turns, oldest first, each of no more turns than are needed.

    Too little to be worth a summary is tried again with twice as many turns.
    """
    waiting = list(reversed(_outside_of_units(scene, groups)))
    made: list[Segment] = []
    while waiting:
        taken: list[Group] = []
        weight = 0
        while waiting and weight * (1 - EXPECTED_SHARE) < needed:
            taken.append(waiting.pop())
            weight += taken[-1].weight(scene)
        earlier = [*_summaries_before(scene, taken[0].members[0]), *made]
        summary = digest(_segments(scene, taken), earlier)
        while summary is None and waiting:
            taken += [waiting.pop() for _ in range(min(len(taken), len(waiting)))]
            summary = digest(_segments(scene, taken), earlier)
        if summary is None:
            return
        made.append(summary)
        first, last = taken[0].spoken(), taken[-1].spoken()
        span = first if len(taken) == 1 else f"{first} to {last}"
        members = _members(taken)
        yield Proposal(members, Action.COMPRESS, f"{word}: {span}, the oldest left", summary)
        freed = sum(scene.sizes[i] for i in members) - summary.tokens
        needed = max(1, needed - freed)


def _outside_of_units(scene: Scene, groups: list[Group]) -> list[Group]:
    """Leave out what stands inside a unit that stays: a summary in its place would split it.

    Only a broken history has such, for one a stray result between a call and its result.
    """
    going = {unit[0] for group in groups for unit in group.units}
    inside = {
        i
        for unit in scene.units
        if unit[-1] - unit[0] >= len(unit) and unit[0] not in going and _in_one_turn(scene, unit)
        for i in range(unit[0] + 1, unit[-1])
    }
    if inside.isdisjoint(going):
        return groups
    left = ((g.turn, tuple(u for u in g.units if u[0] not in inside)) for g in groups)
    return [Group(turn, units) for turn, units in left if units]


def _in_one_turn(scene: Scene, unit: tuple[int, ...]) -> bool:
    return scene.segments[unit[0]].topic_id == scene.segments[unit[-1]].topic_id


def _summaries_before(scene: Scene, index: int) -> list[Segment]:
    return [segment for segment in scene.segments[:index] if segment.type in SUMMARIES]


def _segments(scene: Scene, groups: list[Group]) -> list[Segment]:
    return [scene.segments[i] for i in _members(groups)]


def _members(groups: list[Group]) -> tuple[int, ...]:
    return tuple(sorted(i for group in groups for i in group.members))


class Summarize:
    """Rank the oldest turns as ranges to summarise.

    A summary made now is no part of the scene, so pressure that lasts takes it the next time.
    """

    def __init__(self, digest: Digest) -> None:
        self._digest = digest

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "summarize"

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose summaries, then, under pressure, to let go of earlier ones."""
        groups = collectable_turns(scene)
        needed = scene.tokens - scene.target_tokens
        yield from summarized(scene, groups, self._digest, needed, "summarized")
        yield from drop_preservable(scene, "preservable_under_pressure")
