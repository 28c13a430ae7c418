"""Units: segments joined by paired references, swept together or not at all."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain

from marksweep.core.graph import Graph


class Units:
    """The units of a snapshot.

    Most are one segment, or a call and its one result: for those, one number per segment is all
    that is kept.
    """

    def __init__(self, graph: Graph) -> None:
        self._mates = array("i", [_ALONE]) * (len(graph) if graph.has_pairs else 0)
        """The other one of each pair; empty where nothing is paired at all."""
        self._larger = _union(_pair_up(self._mates, graph))
        """The members of each unit of three and more, by member."""
        self._size = len(graph)

    def members(self, i: int) -> tuple[int, ...]:
        """Give the unit that segment `i` belongs to, in heap order."""
        mate = self._mates[i] if self._mates else _ALONE
        if mate >= 0:
            return (i, mate) if i < mate else (mate, i)
        return (i,) if mate == _ALONE else self._larger[i]

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Give every unit once, in the order of their first members."""
        return map(self.members, self.firsts())

    def firsts(self) -> Iterator[int]:
        """Give the first member of every unit, in heap order."""
        if not self._mates:
            return iter(range(self._size))
        larger = self._larger
        return (
            i
            for i, mate in enumerate(self._mates)
            if mate > i or mate == _ALONE or (mate == _MANY and larger[i][0] == i)
        )


class Singles:
    """The units of a heap where each index is a unit by itself."""

    def __init__(self, count: int) -> None:
        self._count = count

    def members(self, i: int) -> tuple[int, ...]:
        """Give the unit of `i`."""
        return (i,)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Give every unit once."""
        return ((i,) for i in range(self._count))


_ALONE, _MANY = -1, -2


def _pair_up(mates: array[int], graph: Graph) -> list[tuple[int, int]]:
    """Note the other one of each pair; give the pairs that share a member with another one."""
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
