"""Plan: take from a strategy's ranking until the target is met. Nothing is applied.

Strategies need not care about safety; the planner does. It takes whole units, never touches what
must stay, refuses a replacement that is not smaller, stops at the target, and lists what blocks it.
Every plan of every heap is made here.

It also says what a sweep does to the prompt cache, and when it pays. A provider caches the longest
prefix that did not change. Everything behind the first change is read uncached once; in return,
what was swept is not read again on any later turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from datetime import datetime
from hashlib import blake2b
from typing import Protocol

import msgspec

from marksweep.core.context import PlanningContext, Yield
from marksweep.core.runs import Lines, Run, RunFinder, Runs
from marksweep.core.strategy import LastResort, Proposal, Strategy
from marksweep.errors import BadInput
from marksweep.model import (
    IN_PLACE,
    NEVER,
    Action,
    Blocker,
    Cost,
    Plan,
    Segment,
    Snapshot,
    Step,
    Unit,
    packed,
)

LARGE_SHARE = 0.4
"""Share of the room that a result too large for the window is trimmed to, if others need the rest.

Higher shows more of it, and leaves less of what the model knew before.
"""

MAX_BLOCKERS = 8
"""How many reasons a plan names when it misses its target, largest first."""

_HASHED_AT_ONCE = 256
"""Steps hashed together for a plan's id: one by one is slow, all at once needs much memory."""


MayYield = Callable[[tuple[int, ...], Action], bool]
"""Whether an action may be done to all of these as a last resort."""


class UnitIndex(Protocol):
    """What must live or die together, by index."""

    def members(self, i: int) -> tuple[int, ...]:
        """Return the unit that `i` belongs to, in order."""
        ...

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield every unit once."""
        ...


class Candidates(Protocol):
    """All that the planner needs to know of a heap: things with a size, by index.

    A `PlanningContext` is one, over segments. A heap whose snapshot is columns has its own: one
    index may then mean a memory with all its chunks, sized by their number.
    """

    @property
    def snapshot(self) -> Snapshot:
        """Where the plan comes from: workspace, heap, unit, fingerprint, and the uncounted rest."""
        ...

    @property
    def now(self) -> datetime:
        """When the plan is made."""
        ...

    @property
    def target(self) -> int | None:
        """The target size; None: take everything that is proposed."""
        ...

    @property
    def size(self) -> int:
        """The size of the whole heap."""
        ...

    @property
    def sizes(self) -> Sequence[int]:
        """The size of each candidate."""
        ...

    @property
    def units(self) -> UnitIndex:
        """What must go together."""
        ...

    def may_go(self, members: tuple[int, ...]) -> bool:
        """Return whether all of these may be swept or changed."""
        ...

    def reason_to_keep(self, members: tuple[int, ...]) -> str | None:
        """Return why these may not be swept; None if they may."""
        ...

    def ids_of(self, steps: Sequence[tuple[int, ...]]) -> Sequence[tuple[str, ...]]:
        """Return the ids that each step takes. Called once, for all steps of a plan."""
        ...


def make_plan(
    context: PlanningContext,
    strategy: Strategy,
    prices: Prices | None = None,
    last_resort: LastResort | None = None,
    lines: Lines | None = None,
) -> Plan:
    """Take from a strategy's ranking until the context's target is met.

    A last resort first trims what is too large for the window by itself. If all that may go was
    offered and that is not enough, it trims what yields; over the limit it does so whatever was
    offered. `lines` makes the lines that stand for swept runs.
    """
    builder = PlanBuilder(context)
    if last_resort is not None:
        _trim_first(builder, context, last_resort)
    ranking = iter(strategy.rank(context.freed_elsewhere(context.size - builder.left)))
    builder.fill(ranking)
    if last_resort is not None:
        _press(builder, context, last_resort)
    if lines is not None:
        builder = _with_lines(builder, context, ranking, lines)
    return builder.plan(strategy.name, prices)


def _trim_first(builder: PlanBuilder, context: PlanningContext, resort: LastResort) -> None:
    """Trim what the model has not answered, if it does not fit the limit even alone.

    It would drive out everything that may go, and be trimmed all the same.
    """
    limit, yields = context.limit, context.yields
    if limit is None or context.size <= limit:
        return
    start = context.unanswered or 0
    waiting = [i for i, far in yields.items() if far is Yield.LIMIT and i >= start]
    size = sum([context.sizes[i] for i in waiting])
    room = limit - context.held() + sum([context.sizes[i] for i in yields])
    if size <= room:
        return
    excess = min(size - int(LARGE_SHARE * max(0, room)), context.needed)
    for proposal in resort.at_first(context, waiting, excess):
        builder.take(proposal, context.may_yield)


def _with_lines(
    builder: PlanBuilder, context: PlanningContext, ranking: Iterator[Proposal], lines: Lines
) -> PlanBuilder:
    """Insert a line for each run; sweep more if then all fit the target, else insert fewer."""
    target, limit = context.target, context.limit
    is_met = target is not None and builder.left <= target
    finder = RunFinder(context, lines)
    runs = builder.runs(finder)
    if is_met and target is not None and builder.left + runs.cost(context) > target:
        deeper = builder.copy()
        for proposal in ranking:
            deeper.take(proposal)
            found = deeper.runs(finder)
            if deeper.left + found.cost(context) <= target:
                builder, runs = deeper, found
                break
    most = target if is_met else limit
    if most is not None:
        runs = runs.within(most - builder.left, context)
    builder.leave(runs)
    return builder


def _press(builder: PlanBuilder, context: PlanningContext, resort: LastResort) -> None:
    target, limit = context.target, context.limit
    if target is not None and builder.left > target and builder.is_exhausted():
        for proposal in resort.to_target(context, lambda: builder.left - target):
            builder.take(proposal, context.may_yield)
            if builder.left <= target:
                return
    if limit is None or builder.left <= limit:
        return
    for proposal in resort.to_limit(context, lambda: builder.left - limit):
        builder.take(proposal, context.may_yield)
        if builder.left <= limit:
            return
    builder.give_up_stand_ins(limit)
    for proposal in resort.at_last(context):
        if builder.left <= limit:
            return
        builder.take(proposal, context.may_yield)


def plan_from(candidates: Candidates, strategy: str, proposals: Iterable[Proposal]) -> Plan:
    """Take from proposals until the target is met, or all of them if there is none."""
    builder = PlanBuilder(candidates)
    builder.fill(proposals)
    return builder.plan(strategy)


def plan_recall(context: PlanningContext, proposal: Proposal, prices: Prices | None = None) -> Plan:
    """Plan to bring back what a strategy proposes, in front of the message it names."""
    builder = PlanBuilder(context)
    builder.add_note(proposal)
    return builder.plan("recall", prices)


class _Draft(msgspec.Struct, frozen=True, gc=False):
    """A step whose segments have no ids yet."""

    members: tuple[int, ...]
    action: Action
    size: int
    reason: str
    replacement: Segment | None
    stand_in: str | None = None


class PlanBuilder:
    """The steps taken so far, and what is left."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self.left = candidates.size
        """What is left in the heap after the steps so far."""
        self._taken = bytearray(len(candidates.sizes))
        self._drafts: list[_Draft | None] = []
        self._edits: dict[int, int] = {}
        """The index in the drafts of a segment's edit."""
        self._refused: set[tuple[int, ...]] = set()
        """What was proposed but may not go."""

    def fill(self, proposals: Iterable[Proposal]) -> None:
        """Take proposals until the target is met; without one, take all."""
        target = self._candidates.target
        if target is not None and self.left <= target:
            return
        for proposal in proposals:
            self.take(proposal)
            if target is not None and self.left <= target:
                return

    def copy(self) -> PlanBuilder:
        """Return another builder with the same steps; what one takes, the other does not."""
        other = copy(self)
        self._taken, self._drafts = self._taken.copy(), self._drafts.copy()
        self._edits, self._refused = self._edits.copy(), self._refused.copy()
        return other

    def is_exhausted(self) -> bool:
        """Return whether everything that may go was taken, or made shorter."""
        candidates, taken = self._candidates, self._taken
        return all(taken[unit[0]] or not candidates.may_go(unit) for unit in candidates.units)

    def take(self, proposal: Proposal, may_yield: MayYield | None = None) -> None:
        """Make a step of a proposal, unless it is refused.

        A proposal is refused if its members may not go, are gone already, or free nothing. An edit
        in place concerns its own segment only, so pairs stay whole. A later step on a segment that
        was replaced by a shorter one supersedes that step. `may_yield` says what else may be done.
        """
        candidates, taken = self._candidates, self._taken
        is_alone = proposal.action in IN_PLACE
        members = proposal.members if is_alone else self._whole_units(proposal.members)
        if not candidates.may_go(members) and not (
            may_yield is not None and may_yield(members, proposal.action)
        ):
            self._refused.add(members)
            return
        freed = before = 0
        edits: list[int] = []
        for i in members:
            if taken[i] == _GONE:
                return
            if taken[i] == _EDITED:
                edits.append(i)
                edit = self._drafts[self._edits[i]]
                before += edit.size if edit is not None else 0
            freed += candidates.sizes[i]
        replacement = proposal.replacement
        if replacement is not None:
            freed -= replacement.tokens
            if freed <= before:
                return
        for i in edits:
            self._drafts[self._edits.pop(i)] = None
        if replacement is not None and len(members) == 1:
            taken[members[0]] = _EDITED
            self._edits[members[0]] = len(self._drafts)
        else:
            for i in members:
                taken[i] = _GONE
        self._drafts.append(_Draft(members, proposal.action, freed, proposal.reason, replacement))
        self.left -= freed - before

    def give_up_stand_ins(self, limit: int) -> None:
        """Drop a planned summary where not even the summary fits the limit."""
        for n, draft in enumerate(self._drafts):
            if self.left <= limit:
                return
            if draft is None or draft.replacement is None or draft.action in IN_PLACE:
                continue
            made, reason = draft.replacement.tokens, f"{draft.reason}; no room to stand in for it"
            size = draft.size + made
            self._drafts[n] = _Draft(draft.members, Action.STASH, size, reason, None)
            self.left -= made
            for i in draft.members:
                self._edits.pop(i, None)
                self._taken[i] = _GONE

    def add_note(self, proposal: Proposal) -> None:
        """Make a step of a proposal to recall: nothing goes, a note comes in front of a segment."""
        note = proposal.replacement
        if note is None:
            raise BadInput("a proposal to recall has no note; expected the text that comes back.")
        for i in proposal.members:
            self._taken[i] = _EDITED
        self._drafts.append(_Draft((), Action.RECALL, -note.tokens, proposal.reason, note))
        self.left += note.tokens

    def runs(self, finder: RunFinder) -> Runs:
        """Find the runs of swept neighbours that nothing stands for."""
        steps = {
            n: draft.members
            for n, draft in enumerate(self._drafts)
            if draft is not None and draft.action is Action.STASH and draft.replacement is None
        }
        return finder.find(steps)

    def leave(self, runs: Runs) -> None:
        """Insert the lines of runs: by the step that frees most of each."""
        for i in runs.staying:
            self._spare(i)
        for run in runs.leaving:
            drafts = {n: draft for n in run.steps if (draft := self._drafts[n]) is not None}
            heaviest = max(drafts, key=lambda n: drafts[n].size)
            for n, draft in drafts.items():
                named = msgspec.structs.replace(draft, stand_in=run.line.segment_id)
                self._drafts[n] = self._with_line(named, run) if n == heaviest else named
            self.left += run.cost

    def _with_line(self, draft: _Draft, run: Run) -> _Draft:
        """Let a step insert the line of its run, in place of the old lines."""
        for i in run.old:
            self._taken[i] = _GONE
        return msgspec.structs.replace(
            draft,
            members=tuple(sorted([*draft.members, *run.old])),
            size=draft.size - run.cost,
            replacement=run.line,
        )

    def _spare(self, i: int) -> None:
        """Remove one segment from its step, so that it stays."""
        for n, draft in enumerate(self._drafts):
            if draft is not None and i in draft.members:
                rest = tuple([k for k in draft.members if k != i])
                size = self._candidates.sizes[i]
                self.left += size
                self._taken[i] = 0
                self._drafts[n] = (
                    msgspec.structs.replace(draft, members=rest, size=draft.size - size)
                    if rest
                    else None
                )

    def plan(self, strategy: str, prices: Prices | None = None) -> Plan:
        """Make the plan. The builder cannot be used afterwards: its drafts are freed."""
        candidates, snapshot = self._candidates, self._candidates.snapshot
        target = self._target()
        blockers: tuple[Blocker, ...] = ()
        if self.left > target:
            blockers = self._blockers() if candidates.target is not None else self._refusals()
        return with_id(
            Plan(
                plan_id="",
                fingerprint=snapshot.fingerprint,
                made_at=candidates.now,
                strategy=strategy,
                size_before=candidates.size,
                size_after=self.left,
                target_size=target,
                steps=self._steps(),
                blockers=blockers,
                cost=self._price(prices),
                workspace=snapshot.workspace,
                heap=snapshot.heap,
                unit=snapshot.unit,
            )
        )

    def _steps(self) -> tuple[Step, ...]:
        """Return the steps that are still valid, in the order they were taken."""
        waiting = [draft for draft in self._drafts if draft is not None]
        self._drafts.clear()
        names = self._candidates.ids_of([draft.members for draft in waiting])
        waiting.reverse()
        steps: list[Step] = []
        for ids in names:
            draft = waiting.pop()
            steps.append(
                Step(ids, draft.action, draft.size, draft.reason, draft.replacement, draft.stand_in)
            )
        return tuple(steps)

    def _target(self) -> int:
        """Return the target; without one, the size if everything proposed were taken."""
        if self._candidates.target is not None:
            return self._candidates.target
        refused = {i for members in self._refused for i in members}
        return self.left - sum([self._left_of(i) or 0 for i in refused])

    def _price(self, prices: Prices | None) -> Cost:
        """Compute what the sweep costs the prompt cache, if the whole prompt is known."""
        snapshot = self._candidates.snapshot
        if snapshot.rest_size is not None or snapshot.unit is not Unit.TOKENS:
            return Cost(None)
        changed = [i for i, taken in enumerate(self._taken) if taken]
        freed = self._candidates.size - self.left
        return price(self._candidates.sizes, changed, freed, prices or Prices())

    def _blockers(self) -> tuple[Blocker, ...]:
        """List all that is left, by the reason why it is, largest first."""
        candidates, tally = self._candidates, _Tally()
        for unit in candidates.units:
            staying = {i: size for i in unit if (size := self._left_of(i)) is not None}
            reason = candidates.reason_to_keep(unit) if staying else None
            for i, size in staying.items():
                tally.add(reason or (_TRIMMED if i in self._edits else _NOT_OFFERED), size)
        for draft in self._drafts:
            if draft is not None and draft.action not in IN_PLACE and draft.replacement is not None:
                tally.add("stands for what went", draft.replacement.tokens)
        snapshot = candidates.snapshot
        if snapshot.rest_size:
            tally.add("not looked at", snapshot.rest_size, snapshot.rest_segments)
        return tally.largest()

    def _refusals(self) -> tuple[Blocker, ...]:
        """List what was proposed but may not go."""
        candidates, tally = self._candidates, _Tally()
        refused = {i: members for members in sorted(self._refused) for i in members}
        for i, members in refused.items():
            size = self._left_of(i)
            if size is not None:
                tally.add(candidates.reason_to_keep(members) or _NOT_OFFERED, size)
        return tally.largest()

    def _left_of(self, i: int) -> int | None:
        """Return the size of a segment as the steps leave it; None if it goes.

        One that was replaced by a summary goes: what stands for it is counted by itself.
        """
        if self._taken[i] == _GONE:
            return None
        size, n = self._candidates.sizes[i], self._edits.get(i)
        edit = self._drafts[n] if n is not None else None
        if edit is None:
            return size
        return size - edit.size if edit.action in IN_PLACE else None

    def _whole_units(self, members: tuple[int, ...]) -> tuple[int, ...]:
        units = self._candidates.units
        if len(members) == 1:
            return units.members(members[0])
        return tuple(sorted({mate for i in members for mate in units.members(i)}))


_EDITED, _GONE = 1, 2
_NOT_OFFERED = "not offered by the strategy"
_TRIMMED = "trimmed as far as it goes"


class _Tally:
    """How many segments stay for each reason, and their size."""

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, reason: str, size: int, segments: int = 1) -> None:
        """Count segments that stay for a reason."""
        sums = self._sums[reason]
        sums[0] += segments
        sums[1] += size

    def largest(self) -> tuple[Blocker, ...]:
        """Return the reasons why most stays, largest first."""
        found = [Blocker(reason, count, size) for reason, (count, size) in self._sums.items()]
        return tuple(sorted(found, key=lambda b: (-b.size, b.reason))[:MAX_BLOCKERS])


def over_limit(limit: int, plan: Plan) -> str:
    """Write that what must stay does not fit the limit, what that is, and what to do."""
    blockers = ", ".join(f"{b.size:,} {plan.unit}: {b.reason}" for b in plan.blockers)
    return (
        f"{plan.size_after:,} {plan.unit} do not fit the limit of {limit:,}, and nothing more may "
        f"go ({blockers}). Unpin something, shorten what is fixed, or raise the limit."
    )


def with_id(plan: Plan) -> Plan:
    """Derive a plan's id from its content: the same plan made again has the same id."""
    timeless = msgspec.structs.replace(plan, steps=(), made_at=NEVER)
    digest = blake2b(packed(timeless), digest_size=6)
    for start in range(0, len(plan.steps), _HASHED_AT_ONCE):
        digest.update(packed(plan.steps[start : start + _HASHED_AT_ONCE]))
    return msgspec.structs.replace(plan, plan_id=f"plan-{digest.hexdigest()}")


class Prices(msgspec.Struct, frozen=True):
    """Price of a token, relative to plain input."""

    input: float = 1.0
    cached: float = 0.1
    write: float = 1.25
    """Input that is written to the cache while it is read."""


def price(sizes: Sequence[int], changed: Sequence[int], freed: int, prices: Prices) -> Cost:
    """Price a sweep that changes the segments at these indices and frees so many tokens.

    `sizes` are the tokens of the segments in order, before the sweep.
    """
    if not changed:
        return Cost(None)
    edits_from = min(changed)
    reread = max(0, sum(sizes[edits_from:]) - freed)
    saved_per_turn = freed * prices.cached
    if saved_per_turn <= 0:
        return Cost(edits_from, reread)
    extra = reread * (prices.write - prices.cached)
    return Cost(edits_from, reread, extra / saved_per_turn)
