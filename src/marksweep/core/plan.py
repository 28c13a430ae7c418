"""Plan: take from a strategy's ranking until the target is met. Nothing is applied.

The planner guards what strategies need not think of: it takes whole units, never touches what must
stay, refuses a replacement that is not smaller, stops at the target, and says what was in the way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import compress
from typing import Protocol

import msgspec

from marksweep.core.cost import Prices, price
from marksweep.core.fingerprint import packed
from marksweep.core.scene import Scene
from marksweep.errors import BadInput
from marksweep.model import Action, Cost, Kept, Plan, Segment, Step

MOST_REASONS = 8
"""How many reasons a plan names when it misses its target; the heaviest ones."""


_AT_ONCE = 256
"""Steps that are written together to name a plan: one by one is slow, all of them is a lot."""

IN_PLACE = frozenset({Action.MASK, Action.TRIM})
"""Actions that shorten one segment and leave it where it is, under its id."""


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

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose, first to go first."""
        ...


NO_TARGET = -1
"""A target that cannot be met: all that the strategy offers is taken, as for named segments."""


Places = tuple[tuple[int, ...], ...]
"""For each step of a plan, where in the snapshot its segments stand."""


def make_plan(
    scene: Scene, strategy: Strategy, target_tokens: int, prices: Prices | None = None
) -> Plan:
    """Take from the strategy's ranking until no more than `target_tokens` are left."""
    return plan_with_places(scene, strategy, target_tokens, prices)[0]


def plan_with_places(
    scene: Scene, strategy: Strategy, target_tokens: int, prices: Prices | None = None
) -> tuple[Plan, Places]:
    """Plan, for somebody who carries the plan out on the very snapshot it is made from."""
    scene.target_tokens = target_tokens
    taking = _Taking(scene)
    left = scene.tokens
    if left > target_tokens:
        for proposal in strategy.rank(scene):
            left -= taking.take(proposal)
            if left <= target_tokens:
                break
    changed = taking.changed()
    steps, places = taking.steps()
    plan = Plan(
        plan_id="",
        fingerprint=scene.snapshot.fingerprint,
        made_at=scene.now,
        strategy=strategy.name,
        tokens_before=scene.tokens,
        tokens_after=left,
        target_tokens=target_tokens,
        steps=steps,
        kept=_in_the_way(scene, changed) if left > target_tokens else (),
        cost=_price(scene, changed, scene.tokens - left, prices),
        workspace=scene.snapshot.workspace,
        heap=scene.snapshot.heap,
    )
    return with_id(plan), places


def _price(scene: Scene, changed: Sequence[int], freed: int, prices: Prices | None) -> Cost:
    """Price a sweep. Of a part of a heap it is not known what is read again behind it."""
    if scene.snapshot.rest_tokens is not None:
        return Cost(None)
    return price(scene.sizes, changed, freed, prices or Prices())


def with_id(plan: Plan) -> Plan:
    """Name a plan by its content: same input, same id."""
    digest = blake2b(packed(msgspec.structs.replace(plan, steps=())), digest_size=6)
    for start in range(0, len(plan.steps), _AT_ONCE):
        digest.update(packed(plan.steps[start : start + _AT_ONCE]))
    return msgspec.structs.replace(plan, plan_id=f"plan-{digest.hexdigest()}")


def make_recall(scene: Scene, proposal: Proposal, prices: Prices | None = None) -> Plan:
    """Plan to bring back what a strategy proposes, in front of the message it names."""
    note = proposal.replacement
    if note is None:
        raise BadInput("a proposal to recall has no note; expected the text that comes back.")
    after = scene.tokens + note.tokens
    step = Step((), Action.RECALL, -note.tokens, proposal.reason, note)
    plan = Plan(
        plan_id="",
        fingerprint=scene.snapshot.fingerprint,
        made_at=scene.now,
        strategy="recall",
        tokens_before=scene.tokens,
        tokens_after=after,
        target_tokens=after,
        steps=(step,),
        cost=price(scene.sizes, proposal.members, -note.tokens, prices or Prices()),
        workspace=scene.snapshot.workspace,
        heap=scene.snapshot.heap,
    )
    return with_id(plan)


class _Taking:
    """The steps taken so far."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._taken = bytearray(len(scene.segments))
        self._steps: list[Step | None] = []
        self._places: list[tuple[int, ...]] = []
        self._edits: dict[int, int] = {}
        """Where in the steps the edit of a segment stands."""

    def steps(self) -> tuple[tuple[Step, ...], Places]:
        """Give the steps that still hold, in the order they were taken, and their places."""
        held = [step is not None for step in self._steps]
        steps = [step for step in self._steps if step is not None]
        return tuple(steps), tuple(compress(self._places, held))

    def take(self, proposal: Proposal) -> int:
        """Make a step of a proposal and say what it frees; 0 if it is refused.

        Refused is what may not go, is gone already, or frees nothing. An edit in place concerns
        its own segment only, so pairs stay whole. Once one segment was replaced by a shorter one,
        a later step on it takes that step's place.
        """
        scene, taken = self._scene, self._taken
        in_place = proposal.action in IN_PLACE
        members = proposal.members if in_place else self._whole_units(proposal.members)
        if not scene.may_go(members):
            return 0
        freed = before = 0
        edits: list[int] = []
        for i in members:
            if taken[i] == _GONE:
                return 0
            if taken[i] == _EDITED:
                edits.append(i)
                edit = self._steps[self._edits[i]]
                before += edit.tokens if edit is not None else 0
            freed += scene.sizes[i]
        replacement = proposal.replacement
        if replacement is not None:
            freed -= replacement.tokens
            if freed <= before:
                return 0
        for i in edits:
            self._steps[self._edits.pop(i)] = None
        if replacement is not None and len(members) == 1:
            taken[members[0]] = _EDITED
            self._edits[members[0]] = len(self._steps)
        else:
            for i in members:
                taken[i] = _GONE
        ids = tuple([scene.segments[i].segment_id for i in members])
        self._steps.append(Step(ids, proposal.action, freed, proposal.reason, replacement))
        self._places.append(members)
        return freed - before

    def changed(self) -> list[int]:
        """Give the indices of all that a step touches, in heap order."""
        return [i for i, taken in enumerate(self._taken) if taken]

    def _whole_units(self, members: tuple[int, ...]) -> tuple[int, ...]:
        if len(members) == 1:
            return self._scene.units.members(members[0])
        return tuple(sorted({mate for i in members for mate in self._scene.units.members(i)}))


_EDITED, _GONE = 1, 2


def _in_the_way(scene: Scene, changed: Sequence[int]) -> tuple[Kept, ...]:
    """Say what keeps the target out of reach, heaviest first."""
    gone = set(changed)
    weights: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for members in scene.units:
        if members[0] in gone:
            continue
        reason = scene.reason_to_keep(members) or "not offered by the strategy"
        weights[reason][0] += len(members)
        weights[reason][1] += sum(scene.sizes[i] for i in members)
    kept = [Kept(reason, count, tokens) for reason, (count, tokens) in weights.items()]
    kept.sort(key=lambda k: (-k.tokens, k.reason))
    return tuple(kept[:MOST_REASONS])
