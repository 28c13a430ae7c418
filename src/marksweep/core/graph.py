"""The references of a snapshot as integers: what marking and tying units walk over.

Ids are interned to their index in the snapshot, and strong references lie in two flat arrays: those
of segment i are `targets[starts[i]:starts[i + 1]]`. At a million segments this is a tenth of the
memory of dictionaries of sets, and several times as fast.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from marksweep.model import Hold, Link, Segment


class Graph:
    """Who refers to whom in a snapshot. References to absent segments are left out.

    A segment that was compressed away is still referred to by its old id; the segment derived from
    it stands in for it. Not in pairs: these were compressed as a whole.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.index = {segment.segment_id: i for i, segment in enumerate(segments)}
        self.starts = array("i", [0])
        self.targets = array("i")
        self.pairs: list[tuple[int, int]] = []
        self.weak: list[tuple[int, int]] = []
        stands_for = self._stand_ins(segments)
        find, append, end = self.index.get, self.targets.append, self.starts.append
        for i, segment in enumerate(segments):
            for reference in segment.all_references:
                target = find(reference.target)
                if target is None and reference.hold != Hold.PAIRED:
                    target = stands_for.get(reference.target)
                if target is None or target == i:
                    continue
                if reference.hold == Hold.STRONG:
                    append(target)
                elif reference.hold == Hold.PAIRED:
                    self.pairs.append((i, target))
                else:
                    self.weak.append((i, target))
            end(len(self.targets))

    def _stand_ins(self, segments: Sequence[Segment]) -> dict[str, int]:
        """Map each absent id that something was derived from to the newest such segment."""
        return {
            reference.target: i
            for i, segment in enumerate(segments)
            for reference in segment.references
            if reference.link == Link.DERIVED and reference.target not in self.index
        }

    def successors(self, i: int) -> Sequence[int]:
        """Give the segments that segment `i` refers to strongly."""
        return self.targets[self.starts[i] : self.starts[i + 1]]
