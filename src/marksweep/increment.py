"""The incremental step: what happens after every change, in time that does not grow with the heap.

1. Carry the marks on from what changed.
2. Rank what changed and a few old segments, so that the pool knows what to evict next.
3. Over the soft limit, stash a small batch from the pool: the unreachable first.

Over the hard limit the step asks for a full collection instead. The batch never takes what a full
mark would keep as a root, and takes what is in reach only when it knows of nothing unreachable.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from marksweep.collector import Collector
from marksweep.core.budget import Backoff, Budget, Due, after_pass, due
from marksweep.core.context import PlanningContext
from marksweep.core.plan import make_plan
from marksweep.core.roots import Focus, reason_to_stay
from marksweep.core.score import Scorer, age_hours, age_in_words
from marksweep.core.strategy import Proposal
from marksweep.heaps.segments import SegmentHeap
from marksweep.model import Action, Segment

MAX_BATCH_UNITS = 20
"""Units that one step takes at most. More frees faster, and makes single changes slower."""

SAMPLE_SEGMENTS = 16
"""Old segments that each step ranks again. More keeps the pool fresher, and costs time."""

POOL_SIZE = 2048
"""Candidates remembered. More finds better ones between full collections, and costs memory."""

Rank = tuple[bool, float]
"""Whether it is in reach, and minus its prune score: low goes first."""


class Increment:
    """Small collections, one after each change."""

    def __init__(
        self,
        heap: SegmentHeap,
        collector: Collector,
        budget: Budget,
        scorer: Scorer,
        clock: Callable[[], datetime],
        *,
        batch: int = MAX_BATCH_UNITS,
        sample: int = SAMPLE_SEGMENTS,
    ) -> None:
        self._heap = heap
        self._collector = collector
        self._budget = budget
        self._scorer = scorer
        self._clock = clock
        self._batch = batch
        self._sample = sample
        self._pool = CandidatePool(self._rank)
        self._changes = 0
        self._backoff: Backoff | None = None

    def step(self, focus: Focus) -> Due:
        """Read what changed and collect a batch if it is due; return what is still due."""
        self._changes += 1
        self._take_in(focus)
        wanted = due(self._heap.size(), self._budget, self._changes, self._backoff)
        if wanted is Due.STEP:
            with self._collector.holding(focus.now):
                self._heap.refresh()
                freed = self._take_batch(focus)
            self.record_pass(freed)
            return Due.NOTHING
        return wanted

    def record_pass(self, freed: int) -> None:
        """Note what a batch, or the full collection that a step asked for, has freed."""
        self._backoff = after_pass(freed, self._heap.size(), self._changes, self._backoff)

    def mark_all(self, focus: Focus) -> None:
        """Mark from scratch: at the start, when the focus moved, after a full collection."""
        self._heap.refresh()
        index = self._heap.index
        index.mark_all([name for name, s in index.live.items() if reason_to_stay(s, focus)])

    def _take_in(self, focus: Focus) -> None:
        index = self._heap.index
        names, self._heap.changed = self._heap.changed, []
        changed = [index.live[name] for name in dict.fromkeys(names) if name in index.live]
        for segment in changed:
            self._pool.enter(segment.segment_id)
            is_root = reason_to_stay(segment, focus) is not None
            index.mark_from(segment.segment_id, is_root=is_root)
        for segment in (*changed, *self._pool.in_turn(self._sample, index.live)):
            self._pool.offer(segment)

    def _take_batch(self, focus: Focus) -> int:
        live = self._heap.index.live
        drawn = list(self._pool.draw(live, tries=4 * self._batch))
        part = self._heap.part([segment.segment_id for _, segment in drawn])
        context = PlanningContext.of(part, focus, self._budget.target)
        batch = Batch(drawn, self._batch)
        plan = make_plan(context, batch)
        for segment in batch.left_over:
            self._pool.offer(segment)
        return self._collector.collect(plan, now=focus.now, trigger="step").freed

    def _rank(self, segment: Segment) -> Rank:
        in_reach = segment.segment_id in self._heap.index.reached
        return in_reach, -self._scorer(segment, self._clock())


class Batch:
    """Rank what was drawn from the pool, and no more units of it than one step may take."""

    name = "step"

    def __init__(self, drawn: Sequence[tuple[Rank, Segment]], most: int) -> None:
        self._waiting = list(reversed(drawn))
        self._most = most

    @property
    def left_over(self) -> Iterator[Segment]:
        """What was drawn and not examined."""
        return (segment for _, segment in self._waiting)

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose units in the order in which they were drawn."""
        seen: set[tuple[int, ...]] = set()
        while self._waiting and len(seen) < self._most:
            (in_reach, score), segment = self._waiting.pop()
            unit = context.units.members(context.graph.index[segment.segment_id])
            if unit in seen or not context.may_go(unit):
                continue
            seen.add(unit)
            held = "in reach, but of low value" if in_reach else "unreachable"
            age = age_in_words(age_hours(segment, context.now))
            reason = f"{held}: {segment.type}, untouched for {age}, score {-score:.2f}"
            yield Proposal(unit, Action.STASH, reason)


class CandidatePool:
    """Which segments a step would take next, without examining all of them.

    Scores change with time, so no order stays valid. The pool holds the best candidates
    seen: what changed is ranked at once, and every step ranks a few old segments in turn, so that
    each gets its turn. What is drawn is ranked again, and put back if others now rank before it.
    """

    def __init__(self, rank: Callable[[Segment], Rank]) -> None:
        self._rank = rank
        self._heap: list[tuple[Rank, str]] = []
        self._ranks: dict[str, Rank] = {}
        self._turn: list[str] = []
        self._cursor = 0

    def enter(self, segment_id: str) -> None:
        """Add a new segment to the rotation."""
        self._turn.append(segment_id)

    def offer(self, segment: Segment) -> None:
        """Rank a candidate, and remember it if it is among the first to go."""
        rank = self._rank(segment)
        if self._ranks.get(segment.segment_id) == rank:
            return
        self._ranks[segment.segment_id] = rank
        heapq.heappush(self._heap, (rank, segment.segment_id))
        if len(self._heap) > 2 * POOL_SIZE:
            ranked = ((rank, segment_id) for segment_id, rank in self._ranks.items())
            self._heap = heapq.nsmallest(POOL_SIZE, ranked)
            self._ranks = {segment_id: rank for rank, segment_id in self._heap}

    def in_turn(self, count: int, live: Mapping[str, Segment]) -> list[Segment]:
        """Return the next few live segments in turn."""
        found: list[Segment] = []
        for _ in range(min(2 * count, len(self._turn))):
            if self._cursor >= len(self._turn):
                self._turn = list(dict.fromkeys(name for name in self._turn if name in live))
                self._cursor = 0
                if not self._turn:
                    break
            segment = live.get(self._turn[self._cursor])
            self._cursor += 1
            if segment is not None:
                found.append(segment)
            if len(found) == count:
                break
        return found

    def draw(self, live: Mapping[str, Segment], tries: int) -> Iterator[tuple[Rank, Segment]]:
        """Yield candidates, first to go first; each leaves the pool."""
        while self._heap and tries:
            remembered, segment_id = heapq.heappop(self._heap)
            if self._ranks.get(segment_id) != remembered:
                continue
            del self._ranks[segment_id]
            segment = live.get(segment_id)
            if segment is None:
                continue
            tries -= 1
            rank = self._rank(segment)
            if rank > remembered and self._heap and rank > self._heap[0][0]:
                self.offer(segment)
                continue
            yield rank, segment
