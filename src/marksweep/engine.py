"""GCEngine: the four calls on plain lists of segments, for callers that keep their own.

    engine = GCEngine()
    roots = engine.compute_roots(segments, task_id="fix-login")
    candidates = engine.analyze_pruning_candidates(segments, roots)
    plan = engine.generate_pruning_plan(candidates, target_tokens=4_000)

Nothing is changed or stored: the caller decides what to do with the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Protocol, runtime_checkable

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.core.mark import Mark
from marksweep.core.roots import RECENT_MESSAGES, Focus, find_roots, last_messages
from marksweep.core.score import Scorer, age_hours, seed_age
from marksweep.errors import BadInput
from marksweep.heaps.live_index import targets_of
from marksweep.model import Segment, Snapshot, utc_now
from marksweep.strategies.scored import (
    DELETE_AFTER_HOURS,
    Scored,
    may_be_deleted,
    reason_to_go,
)
from marksweep.tokens import count, in_whole


class PruningCandidate(msgspec.Struct, frozen=True, gc=False):
    """A segment that could go, and why. High scores go first."""

    segment_id: str
    score: float
    tokens: int
    reason: str
    segment_type: str = "note"
    age_hours: float = 0.0
    refcount: int = 0
    paired_with: tuple[str, ...] = ()
    """The other segments of its unit: they go together, or not at all."""


class PruningPlan(msgspec.Struct, frozen=True):
    """What to stash and what to delete to free the tokens asked for."""

    candidates: list[PruningCandidate] = []
    """Those chosen, highest score first."""
    total_tokens_freed: int = 0
    stash_segments: list[str] = []
    delete_segments: list[str] = []
    reason: str = ""


@runtime_checkable
class IGCEngine(Protocol):
    """The four calls."""

    def analyze_pruning_candidates(
        self, segments: Sequence[Segment], roots: Collection[str]
    ) -> list[PruningCandidate]:
        """Return what no root reaches, highest score first."""
        ...

    def compute_reachability(
        self, roots: Collection[str], references: Mapping[str, Collection[str]]
    ) -> set[str]:
        """Return the roots and all they refer to, directly or not."""
        ...

    def score_segment(self, segment: Segment, now: datetime) -> float:
        """Return the prune score: high goes first."""
        ...

    def generate_pruning_plan(
        self, candidates: Sequence[PruningCandidate], target_tokens: int
    ) -> PruningPlan:
        """Choose candidates until `target_tokens` are freed."""
        ...


class GCEngine:
    """Marks and scores lists of segments. It holds no segments itself."""

    def __init__(
        self,
        *,
        scorer: Scorer = seed_age,
        delete_after_hours: float = DELETE_AFTER_HOURS,
        clock: Callable[[], datetime] = utc_now,
        count_tokens: Callable[[str], float] = count,
    ) -> None:
        self._scorer = scorer
        self._delete_after_hours = delete_after_hours
        self._clock = clock
        self._count_tokens = in_whole(count_tokens)

    def compute_roots(
        self,
        segments: Sequence[Segment],
        *,
        task_id: str | None = None,
        active_file: str | None = None,
        active_lines: tuple[int, int] | None = None,
        open_files: Collection[str] = (),
        breakpoints: Collection[tuple[str, int]] = (),
        recent_messages: int = RECENT_MESSAGES,
    ) -> set[str]:
        """Name the segments that must stay, by the root rules."""
        focus = Focus(
            now=self._clock(),
            task_id=task_id,
            active_file=active_file,
            active_lines=active_lines,
            open_files=frozenset(open_files),
            breakpoints=frozenset(breakpoints),
            recent_messages=last_messages(segments, recent_messages),
        )
        return {segments[i].segment_id for i in find_roots(segments, focus)}

    def analyze_pruning_candidates(
        self, segments: Sequence[Segment], roots: Collection[str]
    ) -> list[PruningCandidate]:
        """Return what no root reaches and nobody pinned, highest score first, with reasons.

        A segment has at least as many references as the others of the list make.
        """
        references = Counter(target for segment in segments for target in targets_of(segment))
        counted = tuple(self._counted(segment, references) for segment in segments)
        named = {
            i: "named as a root" for i, s in enumerate(counted) if s.pinned or s.segment_id in roots
        }
        context = PlanningContext(Snapshot(counted, ""), named, self._clock())
        scored = Scored(self._scorer)
        candidates: list[PruningCandidate] = []
        for mark in (Mark.GARBAGE, Mark.RELATED):
            ranked, scores, _ = scored.ranked(context, mark)
            candidates.extend(
                self._candidate(context, i, mark, scores[first])
                for first in ranked
                for i in context.units.members(first)
            )
        candidates.sort(key=attrgetter("score"), reverse=True)
        return candidates

    def compute_reachability(
        self, roots: Collection[str], references: Mapping[str, Collection[str]]
    ) -> set[str]:
        """Return the roots and all they refer to, directly or not. Cycles are fine."""
        reached = set(roots)
        stack = list(roots)
        while stack:
            new = set(references.get(stack.pop(), ())) - reached
            reached |= new
            stack.extend(new)
        return reached

    def score_segment(self, segment: Segment, now: datetime) -> float:
        """Return the prune score, from 0 to 1: high goes first."""
        return self._scorer(segment, now)

    def generate_pruning_plan(
        self, candidates: Sequence[PruningCandidate], target_tokens: int
    ) -> PruningPlan:
        """Choose candidates, highest score first, until `target_tokens` are freed.

        All are stashed, except logs and notes that nothing refers to and that are past their age.
        Units are taken whole; one of which a member is not among the candidates is left out.
        """
        if target_tokens < 0:
            raise BadInput(f"target_tokens is {target_tokens}; expected 0 or more tokens to free.")
        offered = {candidate.segment_id: candidate for candidate in candidates}
        chosen: dict[str, PruningCandidate] = {}
        freed = 0
        deleted: list[str] = []
        stashed: list[str] = []
        for candidate in sorted(candidates, key=lambda candidate: -candidate.score):
            if freed >= target_tokens:
                break
            names = (candidate.segment_id, *candidate.paired_with)
            if candidate.segment_id in chosen or not offered.keys() >= set(names):
                continue
            unit = {name: offered[name] for name in names}
            chosen |= unit
            freed += sum(c.tokens for c in unit.values())
            hours = self._delete_after_hours
            is_disposable = all(
                may_be_deleted(c.segment_type, c.refcount, c.age_hours, hours)
                for c in unit.values()
            )
            (deleted if is_disposable else stashed).extend(unit)
        return PruningPlan(
            candidates=list(chosen.values()),
            total_tokens_freed=freed,
            stash_segments=stashed,
            delete_segments=deleted,
            reason=_in_words(len(stashed), len(deleted), freed, target_tokens),
        )

    def _counted(self, segment: Segment, references: Mapping[str, int]) -> Segment:
        return msgspec.structs.replace(
            segment,
            tokens=segment.tokens or self._count_tokens(segment.text),
            refcount=max(segment.refcount, references.get(segment.segment_id, 0)),
        )

    def _candidate(
        self, context: PlanningContext, i: int, mark: Mark, score: float
    ) -> PruningCandidate:
        segment = context.segments[i]
        mates = [context.segments[mate].segment_id for mate in context.units.members(i)]
        age = age_hours(segment, context.now)
        return PruningCandidate(
            segment_id=segment.segment_id,
            score=score,
            tokens=segment.tokens,
            reason=reason_to_go(segment, age, mark, score),
            segment_type=segment.type,
            age_hours=age,
            refcount=segment.refcount,
            paired_with=tuple(name for name in mates if name != segment.segment_id),
        )


def _in_words(stashed: int, deleted: int, freed: int, target: int) -> str:
    if not stashed + deleted:
        return "nothing to prune" if target else "nothing was asked to be freed"
    words = f"stash {stashed} and delete {deleted} segments, freeing {freed} of {target} tokens"
    if freed < target:
        return f"{words}: all candidates are used and {target - freed} tokens are missing"
    return words
