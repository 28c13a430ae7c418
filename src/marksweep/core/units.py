"""Units: segments joined by paired references, swept together or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from marksweep.core.graph import Graph


class Units:
    """The units of a snapshot. Most are one segment; only the others take memory."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._joined = _join(graph.pairs)

    def members(self, i: int) -> tuple[int, ...]:
        """Give the unit that segment `i` belongs to, in heap order."""
        return self._joined.get(i) or (i,)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Give every unit once, in the order of their first members."""
        return map(self.members, self.firsts())

    def firsts(self) -> Iterator[int]:
        """Give the first member of every unit, in heap order."""
        joined = self._joined
        if not joined:
            return iter(self._graph.index.values())
        return (i for i in self._graph.index.values() if i not in joined or joined[i][0] == i)


def _join(pairs: Sequence[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
    """Union the pairs; map each member of a larger unit to the whole unit.

    Most pairs are one call and its one result, and are units as they stand.
    """
    times = Counter(chain.from_iterable(pairs))
    joined: dict[int, tuple[int, ...]] = {}
    tangled = []
    for a, b in pairs:
        if times[a] == 1 == times[b]:
            joined[a] = joined[b] = (a, b) if a < b else (b, a)
        else:
            tangled.append((a, b))
    return joined | _union(tangled) if tangled else joined


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
