"""The references of a snapshot as integers: what marking and tying units walk over.

Ids are interned to their index in the snapshot, and strong references lie in two flat arrays: those
of segment i are `targets[starts[i]:starts[i + 1]]`. At a million segments this is a tenth of the
memory of dictionaries of sets, and several times as fast.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from marksweep.model import Hold, Link, Reference, Segment


class Graph:
    """Who refers to whom in a snapshot. References to absent segments are left out.

    A segment that was compressed away is still referred to by its old id; the segment derived from
    it stands in for it. Not in pairs: these were compressed as a whole.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.index = {segment.segment_id: i for i, segment in enumerate(segments)}
        self._read(segments, {})
        stand_ins = self._stand_ins()
        if stand_ins:
            self._read(segments, stand_ins)

    def _read(self, segments: Sequence[Segment], stand_ins: Mapping[str, int]) -> None:
        self.starts = array("i", [0])
        self.targets = array("i")
        self.pairs: list[tuple[int, int]] = []
        self.weak: list[tuple[int, int]] = []
        self._dangling: list[tuple[int, Reference]] = []
        find, append, end = self.index.get, self.targets.append, self.starts.append
        strong, paired = Hold.STRONG, Hold.PAIRED
        for i, segment in enumerate(segments):
            for reference in segment.all_references:
                target, hold = find(reference.target), reference.hold
                if target is None:
                    self._dangling.append((i, reference))
                    if hold == paired or reference.target not in stand_ins:
                        continue
                    target = stand_ins[reference.target]
                if target == i:
                    continue
                if hold == strong:
                    append(target)
                elif hold == paired:
                    self.pairs.append((i, target))
                else:
                    self.weak.append((i, target))
            end(len(self.targets))

    def _stand_ins(self) -> dict[str, int]:
        """Map each absent id that something was derived from to the newest such segment."""
        return {
            reference.target: i for i, reference in self._dangling if reference.link == Link.DERIVED
        }

    def successors(self, i: int) -> Sequence[int]:
        """Give the segments that segment `i` refers to strongly."""
        return self.targets[self.starts[i] : self.starts[i + 1]]
