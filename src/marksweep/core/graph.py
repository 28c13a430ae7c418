"""The references of a snapshot as integers: what marking and tying units walk over.

Ids are interned to their index in the snapshot, and strong references lie in two flat arrays: those
of segment i are `targets[starts[i]:starts[i + 1]]`. At a million segments this is a tenth of the
memory of dictionaries of sets, and several times as fast.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from marksweep.model import Hold, Link, Reference, Segment


class Graph:
    """Who refers to whom in a snapshot. References to absent segments are left out.

    A segment that was compressed away is still referred to by its old id; the segment derived from
    it is its stand-in. Not in pairs: these were compressed as a whole.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._read({})
        stand_ins = self._stand_ins()
        if stand_ins:
            self._read(stand_ins)

    def __len__(self) -> int:
        """Count the segments."""
        return len(self._segments)

    @cached_property
    def index(self) -> dict[str, int]:
        """The index of each segment in the snapshot."""
        names = [segment.segment_id for segment in self._segments]
        return dict(zip(names, range(len(names)), strict=True))

    def _read(self, stand_ins: Mapping[str, int]) -> None:
        segments = self._segments
        self.starts = array("i", [0])
        self.targets = array("i")
        self._pairs = array("i")
        self.weak: list[tuple[int, int]] = []
        self._dangling: list[tuple[int, Reference]] = []
        append, end, pair = self.targets.append, self.starts.append, self._pairs.append
        strong, paired = Hold.STRONG, Hold.PAIRED
        last: int | None = None
        for i, segment in enumerate(segments):
            for reference in segment.all_references if segment.tags else segment.references:
                name, hold = reference.target, reference.hold
                # Results follow their call: in a conversation nearly all targets are near.
                if i and segments[i - 1].segment_id == name:
                    last = i - 1
                elif last is None or segments[last].segment_id != name:
                    last = self.index.get(name)
                target = last
                if target is None:
                    self._dangling.append((i, reference))
                    if hold == paired or name not in stand_ins:
                        continue
                    target = stand_ins[name]
                if target == i:
                    continue
                if hold == strong:
                    append(target)
                elif hold == paired:
                    pair(i)
                    pair(target)
                else:
                    self.weak.append((i, target))
            end(len(self.targets))

    def _stand_ins(self) -> dict[str, int]:
        """Map each absent id that something was derived from to the newest such segment."""
        return {
            reference.target: i for i, reference in self._dangling if reference.link == Link.DERIVED
        }

    @property
    def has_pairs(self) -> bool:
        """Whether any segments are paired."""
        return bool(self._pairs)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Give the segments that are paired, two by two, as they were met."""
        return zip(self._pairs[::2], self._pairs[1::2], strict=True)

    def successors(self, i: int) -> Sequence[int]:
        """Give the segments that segment `i` refers to strongly."""
        return self.targets[self.starts[i] : self.starts[i + 1]]
