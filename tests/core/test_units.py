"""Units are segments joined by paired references."""

from __future__ import annotations

from marksweep.core.units import Graph, Units
from marksweep.model import Hold, Link, Reference, Segment
from marksweep.testing.builders import segment


def answers(target: str) -> tuple[Reference, ...]:
    return (Reference(target, Link.ANSWERS, Hold.PAIRED),)


def units(*segments: Segment) -> list[tuple[str, ...]]:
    found = Units(Graph(segments))
    return [tuple(segments[i].segment_id for i in unit) for unit in found]


def test_unpaired_segments_are_units_of_one() -> None:
    assert units(segment("a", references=("b",)), segment("b")) == [("a",), ("b",)]


def test_a_call_and_all_its_results_are_one_unit() -> None:
    found = units(
        segment("call"),
        segment("r1", references=answers("call")),
        segment("talk"),
        segment("r2", references=answers("call")),
    )
    assert found == [("call", "r1", "r2"), ("talk",)]


def test_pairs_that_share_a_member_are_one_unit_in_heap_order() -> None:
    found = units(
        segment("d", references=answers("c")),
        segment("a"),
        segment("b", references=answers("a")),
        segment("c", references=answers("b")),
    )
    assert found == [("d", "a", "b", "c")]


def test_every_member_knows_its_unit() -> None:
    segments = (segment("a"), segment("b", references=answers("a")), segment("c"))
    found = Units(Graph(segments))
    assert [found.members(i) for i in range(3)] == [(0, 1), (0, 1), (2,)]
