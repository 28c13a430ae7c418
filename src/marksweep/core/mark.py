"""Mark: follow references from the roots. What is not reached is garbage.

Strong references propagate the mark; paired ones do so both ways, since pairs live together. A
weak reference, or a shared file, symbol, topic or tag, does not keep a segment alive: it makes the
segment *related*, and related garbage goes after unrelated garbage. Because relatedness is looked
up per shared name and not per pair of segments, marking is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from marksweep.core.units import Graph, Units
from marksweep.model import REFERENCE_TAG, Segment


class Mark(IntEnum):
    """How firmly the roots hold a segment; low goes first."""

    GARBAGE = 0
    """Nothing in use refers to it."""
    RELATED = 1
    """Not reached, but it shares a file, symbol, topic or tag with something reached."""
    REACHED = 2
    """A root, or reached from one."""


_REACHED = int(Mark.REACHED)


def mark(
    segments: Sequence[Segment], graph: Graph, units: Units, roots: Iterable[int]
) -> bytearray:
    """Return the Mark of each segment, as one byte per segment."""
    marks = reach(graph, units, roots)
    for source, target in graph.weak:
        if marks[source] == Mark.REACHED and not marks[target]:
            marks[target] = Mark.RELATED
    _relate(segments, marks)
    return marks


def _relate(segments: Sequence[Segment], marks: bytearray) -> None:
    """Mark as related what shares a name with something reached: one lookup per name."""
    reached = {name for i, s in enumerate(segments) if marks[i] == _REACHED for name in hubs(s)}
    if not reached:
        return
    related = int(Mark.RELATED)
    for i, segment in enumerate(segments):
        if not marks[i] and not reached.isdisjoint(hubs(segment)):
            marks[i] = related


def reach(graph: Graph, units: Units, roots: Iterable[int]) -> bytearray:
    """Mark what strong references reach from the roots, as whole units."""
    marks = bytearray(len(graph))
    starts, targets = graph.starts, graph.targets
    stack = list(roots)
    for root in stack:
        marks[root] = Mark.REACHED
    while stack:
        i = stack.pop()
        for target in targets[starts[i] : starts[i + 1]]:
            if not marks[target]:
                marks[target] = Mark.REACHED
                stack.append(target)
        for mate in units.members(i):
            if not marks[mate]:
                marks[mate] = Mark.REACHED
                stack.append(mate)
    return marks


def path(graph: Graph, roots: Iterable[int], goal: int) -> list[int]:
    """Find a shortest path from a root to `goal`; empty if there is none."""
    mates = _mates(graph)
    came_from: dict[int, int] = dict.fromkeys(roots, -1)
    layer = list(came_from)
    while layer and goal not in came_from:
        following: list[int] = []
        for i in layer:
            for target in (*graph.successors(i), *mates.get(i, ())):
                if target not in came_from:
                    came_from[target] = i
                    following.append(target)
        layer = following
    if goal not in came_from:
        return []
    steps = [goal]
    while came_from[steps[-1]] >= 0:
        steps.append(came_from[steps[-1]])
    return steps[::-1]


def hubs(segment: Segment) -> list[tuple[str, str]]:
    """Return what a segment may share with others: its file, symbol, topic and tags."""
    names = [("tag", tag) for tag in segment.tags if not tag.startswith(REFERENCE_TAG)]
    if segment.file_path is not None:
        names.append(("file", segment.file_path))
    if segment.symbol is not None:
        names.append(("symbol", segment.symbol))
    if segment.topic_id is not None:
        names.append(("topic", segment.topic_id))
    return names


def _mates(graph: Graph) -> dict[int, list[int]]:
    mates: dict[int, list[int]] = {}
    for a, b in graph.pairs():
        mates.setdefault(a, []).append(b)
        mates.setdefault(b, []).append(a)
    return mates
