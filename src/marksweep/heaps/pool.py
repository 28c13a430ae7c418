"""The pool: which segments a small step would take next, without looking at all of them.

Scores change with time, so no order can be kept for good. The pool holds the best candidates seen:
what changed is ranked at once, and every step ranks a few old segments in turn, so that all come
by. What is drawn is ranked again, and put back if it should go later by now.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping

from marksweep.model import Segment

POOL_SIZE = 2048
"""Candidates remembered. More finds better ones between full collections, and costs memory."""

Rank = tuple[bool, float]
"""Whether it is in reach, and minus its prune score: low goes first."""


class Pool:
    """Candidates by rank, and the turn in which old segments are looked at again."""

    def __init__(self, rank: Callable[[Segment], Rank], size: int = POOL_SIZE) -> None:
        self._rank = rank
        self._size = size
        self._heap: list[tuple[Rank, str]] = []
        self._ranks: dict[str, Rank] = {}
        self._turn: list[str] = []
        self._cursor = 0

    def enter(self, segment_id: str) -> None:
        """Let a new segment take part in the turn."""
        self._turn.append(segment_id)

    def offer(self, segment: Segment) -> None:
        """Rank a candidate, and remember it if it is among the first to go."""
        rank = self._rank(segment)
        if self._ranks.get(segment.segment_id) == rank:
            return
        self._ranks[segment.segment_id] = rank
        heapq.heappush(self._heap, (rank, segment.segment_id))
        if len(self._heap) > 2 * self._size:
            ranked = ((rank, segment_id) for segment_id, rank in self._ranks.items())
            self._heap = heapq.nsmallest(self._size, ranked)
            self._ranks = {segment_id: rank for rank, segment_id in self._heap}

    def in_turn(self, count: int, live: Mapping[str, Segment]) -> list[Segment]:
        """Give the next few live segments in turn."""
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
        """Give candidates, first to go first; what is given leaves the pool."""
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
