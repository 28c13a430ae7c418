"""What the live index maintains equals what is computed from scratch."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.mark import reach
from marksweep.core.roots import last_messages
from marksweep.core.units import Graph, Units
from marksweep.heaps.live_index import LiveIndex, fingerprint_of
from marksweep.model import Hold, Link, Reference, Segment
from marksweep.testing.builders import segment
from marksweep.testing.heaps import segment_lists

Edits = list[tuple[str, Segment]]


@st.composite
def edits(draw: st.DrawFn) -> Edits:
    """Draw additions, changes and removals of a few segments, alone or with what they refer to."""
    one, other = draw(segment_lists(min_size=1)), draw(segment_lists(min_size=1))
    pool = [*one, *other]
    chosen = draw(st.lists(st.integers(0, len(pool) - 1), max_size=40))
    verbs = draw(
        st.lists(st.sampled_from(["put", "put", "drop", "sweep"]), min_size=40, max_size=40)
    )
    return [(verb, pool[i]) for verb, i in zip(verbs, chosen, strict=False)]


def targets(s: Segment) -> set[str]:
    return {r.target for r in s.all_references if r.hold is not Hold.PAIRED}


def apply(view: LiveIndex, todo: Edits) -> None:
    for verb, s in todo:
        if verb == "put":
            view.put(s)
            view.mark_from(s.segment_id, is_root=s.pinned)
        elif verb == "drop":
            view.drop([s.segment_id])
        else:
            view.drop({s.segment_id, *(r.target for r in s.all_references)})


@given(todo=edits())
def test_counts_totals_and_fingerprint_equal_a_fresh_start(todo: Edits) -> None:
    view = LiveIndex(recent_messages=3)
    apply(view, todo)
    expected = list(view.live.values())
    assert view.tokens == sum(s.tokens for s in expected)
    assert view.fingerprint() == fingerprint_of(expected)
    for s in expected:
        others = [o for o in expected if o is not s]
        referring = [o for o in others if s.segment_id in targets(o)]
        assert s.refcount == len(referring)
    assert view.recent_messages() == last_messages(view.in_order(), 3)


@given(todo=edits())
def test_what_is_outside_of_reached_is_garbage_for_certain(todo: Edits) -> None:
    view = LiveIndex()
    apply(view, todo)
    segments = view.in_order()
    roots = [i for i, s in enumerate(segments) if s.pinned]
    graph = Graph(segments)
    marks = reach(graph, Units(graph), roots)
    truly_reached = {s.segment_id for s, mark in zip(segments, marks, strict=True) if mark}
    assert truly_reached <= view.reached
    view.mark_all([s.segment_id for s in segments if s.pinned])
    assert view.reached == truly_reached


@given(todo=edits())
def test_units_equal_those_of_the_core(todo: Edits) -> None:
    view = LiveIndex()
    apply(view, [(verb, without_stand_ins(s)) for verb, s in todo])
    segments = view.in_order()
    units = Units(Graph(segments))
    for i, s in enumerate(segments):
        expected = sorted(segments[mate].segment_id for mate in units.members(i))
        assert list(view.unit(s.segment_id)) == expected


def without_stand_ins(s: Segment) -> Segment:
    kept = tuple(r for r in s.references if r.link is not Link.DERIVED)
    return msgspec.structs.replace(s, references=kept)


def test_a_stand_in_is_reached_through_the_name_of_its_original() -> None:
    view = LiveIndex()
    view.put(segment("b~1", references=(Reference("b", Link.DERIVED),)))
    view.put(segment("a", references=("b",)))
    view.mark_from("a", is_root=True)
    assert view.reached == {"a", "b~1"}


def test_what_nothing_refers_to_is_no_longer_reached_when_it_is_not_a_root() -> None:
    view = LiveIndex()
    view.put(segment("a", pinned=True, references=("b",)))
    view.put(segment("b"))
    view.mark_from("a", is_root=True)
    view.put(segment("a", references=("b",)))
    view.mark_from("a", is_root=False)
    assert view.reached == {"b"}
