"""Ties between live segments, by id: who is paired with whom, and who stands in for whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from marksweep.model import Hold, Link, Segment


class Ties:
    """Kept up to date with every segment that comes or goes; the targets need not be live."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._mates: dict[str, tuple[str, ...]] = {}
        self._stand_ins: dict[str, tuple[str, ...]] = {}
        for segment in segments:
            self.add(segment)

    def add(self, segment: Segment) -> None:
        """Take note of what a segment refers to."""
        for ties, target in self._of(segment):
            known = ties.get(target, ())
            if segment.segment_id not in known:
                ties[target] = (*known, segment.segment_id)

    def remove(self, segment: Segment) -> None:
        """Forget what a segment refers to."""
        for ties, target in self._of(segment):
            left = [name for name in ties.pop(target, ()) if name != segment.segment_id]
            if left:
                ties[target] = tuple(left)

    def _of(self, segment: Segment) -> Iterator[tuple[dict[str, tuple[str, ...]], str]]:
        for reference in segment.all_references:
            if reference.hold == Hold.PAIRED:
                yield self._mates, reference.target
            if reference.link == Link.DERIVED:
                yield self._stand_ins, reference.target

    def mates(self, segment_id: str) -> tuple[str, ...]:
        """Name those that refer to a segment as their other half."""
        return self._mates.get(segment_id, ())

    def stand_ins(self, segment_id: str) -> tuple[str, ...]:
        """Name those that were derived from a segment."""
        return self._stand_ins.get(segment_id, ())
