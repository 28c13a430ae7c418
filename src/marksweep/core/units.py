"""Graph and units: the references of a snapshot as integers, and what must live or die as one.

Ids are interned to their index in the snapshot, and strong references are held in two flat arrays:
those of segment i are `targets[starts[i]:starts[i + 1]]`. At a million segments this is a tenth of
the memory of dictionaries of sets, and several times as fast. A unit is segments joined by paired
references, swept together or not at all.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

from marksweep.model import Hold, Link, Reference, Segment


class Graph:
    """Who refers to whom in a snapshot. References to absent segments are left out.

    Others still refer to a compressed segment by its old id; the segment derived from it is its
    stand-in. This does not apply to pairs: they were compressed as a whole.
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
        """Return the pairs of segments, in the order they were found."""
        return zip(self._pairs[::2], self._pairs[1::2], strict=True)

    def successors(self, i: int) -> Sequence[int]:
        """Return the segments that segment `i` refers to strongly."""
        return self.targets[self.starts[i] : self.starts[i + 1]]


class Units:
    """The units of a snapshot.

    Most are one segment, or a call and its one result: for those, only one number per segment is
    stored.
    """

    def __init__(self, graph: Graph) -> None:
        self._mates = array("i", [_ALONE]) * (len(graph) if graph.has_pairs else 0)
        """The other one of each pair; empty where nothing is paired at all."""
        self._larger = _union(_pair_up(self._mates, graph))
        """The members of each unit of three and more, by member."""
        self._size = len(graph)

    def members(self, i: int) -> tuple[int, ...]:
        """Return the unit that segment `i` belongs to, in heap order."""
        mate = self._mates[i] if self._mates else _ALONE
        if mate >= 0:
            return (i, mate) if i < mate else (mate, i)
        return (i,) if mate == _ALONE else self._larger[i]

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield every unit once, in the order of their first members."""
        return map(self.members, self.firsts())

    def firsts(self) -> Iterator[int]:
        """Yield the first member of every unit, in heap order."""
        if not self._mates:
            return iter(range(self._size))
        larger = self._larger
        return (
            i
            for i, mate in enumerate(self._mates)
            if mate > i or mate == _ALONE or (mate == _MANY and larger[i][0] == i)
        )


class Singles:
    """The units of a heap where each index is its own unit."""

    def __init__(self, count: int) -> None:
        self._count = count

    def members(self, i: int) -> tuple[int, ...]:
        """Return the unit of `i`."""
        return (i,)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield every unit once."""
        return ((i,) for i in range(self._count))


_ALONE, _MANY = -1, -2


def _pair_up(mates: array[int], graph: Graph) -> list[tuple[int, int]]:
    """Store the mate of each member; return the pairs that share a member with another pair."""
    is_tangled = False
    for a, b in graph.pairs():
        if mates[a] == _ALONE == mates[b]:
            mates[a], mates[b] = b, a
        elif mates[a] != b:
            is_tangled = True
            mates[a], mates[b] = _MANY, _MANY
    if not is_tangled:
        return []
    tangled = [(a, b) for a, b in graph.pairs() if mates[a] != b or mates[b] != a]
    for i in chain.from_iterable(tangled):
        mates[i] = _MANY
    return tangled


def _union(pairs: Sequence[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
    """Union pairs that have members in common."""
    parent: dict[int, int] = {}

    def leader(i: int) -> int:
        while parent.setdefault(i, i) != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for a, b in pairs:
        low, high = sorted((leader(a), leader(b)))
        parent[high] = low
    groups: dict[int, list[int]] = {}
    for i in sorted(parent):
        groups.setdefault(leader(i), []).append(i)
    return {i: tuple(group) for group in groups.values() for i in group}
