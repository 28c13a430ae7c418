"""Marking follows references from the roots, and nothing else."""

from __future__ import annotations

from marksweep.core.mark import Mark, mark, path
from marksweep.core.units import Graph, Units
from marksweep.model import Hold, Link, Reference, Segment
from marksweep.testing.builders import segment


def marks(segments: list[Segment], *roots: str) -> dict[str, Mark]:
    graph = Graph(segments)
    found = mark(segments, graph, Units(graph), [graph.index[root] for root in roots])
    return {s.segment_id: Mark(found[i]) for i, s in enumerate(segments)}


def test_what_a_root_refers_to_is_reached_through_any_number_of_steps() -> None:
    chain = [segment(str(n), references=(str(n + 1),)) for n in range(50)]
    found = marks([*chain, segment("50"), segment("island")], "0")
    assert found.pop("island") is Mark.GARBAGE
    assert set(found.values()) == {Mark.REACHED}


def test_references_do_not_lead_backwards() -> None:
    found = marks([segment("a", references=("b",)), segment("b")], "b")
    assert found == {"a": Mark.GARBAGE, "b": Mark.REACHED}


def test_cycles_are_fine_and_a_cycle_nobody_refers_to_is_garbage() -> None:
    loop = [segment("a", references=("b",)), segment("b", references=("a",))]
    assert set(marks(loop, "a").values()) == {Mark.REACHED}
    assert set(marks([*loop, segment("r")], "r").values()) == {Mark.GARBAGE, Mark.REACHED}


def test_a_tag_that_names_a_segment_is_a_reference() -> None:
    found = marks([segment("a", tags=("ref:b",)), segment("b")], "a")
    assert found["b"] is Mark.REACHED


def test_derived_from_and_reply_to_are_references() -> None:
    links = (Reference("b", Link.DERIVED), Reference("c", Link.REPLY))
    found = marks([segment("a", references=links), segment("b"), segment("c")], "a")
    assert set(found.values()) == {Mark.REACHED}


def test_a_weak_reference_does_not_keep_its_target_but_relates_it() -> None:
    weak = (Reference("b", Link.RELATED, Hold.WEAK),)
    found = marks(
        [segment("a", references=weak), segment("b", references=("c",)), segment("c")], "a"
    )
    assert found == {"a": Mark.REACHED, "b": Mark.RELATED, "c": Mark.GARBAGE}


def test_a_pair_is_reached_from_either_end() -> None:
    paired = (Reference("b", Link.ANSWERS, Hold.PAIRED),)
    segments = [segment("a", references=paired), segment("b", references=("c",)), segment("c")]
    assert set(marks(segments, "a").values()) == {Mark.REACHED}
    assert set(marks(segments, "b").values()) == {Mark.REACHED}


def test_sharing_a_file_symbol_topic_or_tag_with_something_reached_relates_and_no_more() -> None:
    root = segment("r", file_path="a.py", symbol="f", topic_id="t", tags=("bug-1",))
    others = [
        segment("file", file_path="a.py"),
        segment("symbol", symbol="f"),
        segment("topic", topic_id="t"),
        segment("tag", tags=("bug-1",)),
        segment("none", file_path="b.py", symbol="g", topic_id="u", tags=("bug-2",)),
    ]
    found = marks([root, *others], "r")
    related = {name for name, how in found.items() if how is Mark.RELATED}
    assert related == {"file", "symbol", "topic", "tag"}
    assert found["none"] is Mark.GARBAGE


def test_a_tag_and_a_topic_of_the_same_name_are_not_the_same() -> None:
    found = marks([segment("r", tags=("x",)), segment("a", topic_id="x")], "r")
    assert found["a"] is Mark.GARBAGE


def test_references_to_absent_segments_and_to_oneself_are_ignored() -> None:
    found = marks([segment("a", references=("gone", "a"))], "a")
    assert found == {"a": Mark.REACHED}


def test_a_shortened_segment_stands_in_for_its_original() -> None:
    short = segment("b~1", references=(Reference("b", Link.DERIVED),))
    found = marks([segment("a", references=("b",)), short], "a")
    assert found["b~1"] is Mark.REACHED


def test_a_live_original_has_no_stand_in() -> None:
    short = segment("b~1", references=(Reference("b", Link.DERIVED),))
    found = marks([segment("a", references=("b",)), segment("b"), short], "a")
    assert found["b~1"] is Mark.GARBAGE


def test_the_path_is_a_shortest_one() -> None:
    segments = [
        segment("r", references=("a", "c")),
        segment("a", references=("b",)),
        segment("b", references=("goal",)),
        segment("c", references=("goal",)),
        segment("goal"),
    ]
    graph = Graph(segments)
    found = path(graph, [0], graph.index["goal"])
    assert [segments[i].segment_id for i in found] == ["r", "c", "goal"]


def test_there_is_no_path_to_garbage() -> None:
    graph = Graph([segment("r"), segment("x")])
    assert path(graph, [0], 1) == []
