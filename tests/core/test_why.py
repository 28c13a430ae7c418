"""The path from a root, as text."""

from __future__ import annotations

from marksweep.core.context import PlanningContext
from marksweep.core.roots import Focus
from marksweep.core.why import why
from marksweep.model import GCPolicy, Hold, Link, Reference, Segment
from marksweep.testing.builders import NOW, segment, snapshot


def context(*segments: Segment) -> PlanningContext:
    return PlanningContext.of(snapshot(*segments), Focus(now=NOW, task_id="t"))


def test_a_root_says_its_reason() -> None:
    found = why(context(segment("a", task_id="t")), "a")
    assert found == "a must stay: part of the current task t"


def test_a_path_is_reported_link_by_link() -> None:
    links = (Reference("b", Link.DERIVED), Reference("x", Link.REFERS))
    found = why(
        context(
            segment("a", task_id="t", references=links),
            segment("b", references=(Reference("c", Link.REPLY),)),
            segment("c"),
            segment("x"),
        ),
        "c",
    )
    assert found == (
        "a must stay: part of the current task t, which is derived from b, which is a reply to c"
    )


def test_a_pair_reached_from_its_other_end_is_reported_as_a_unit() -> None:
    pair = (Reference("call", Link.ANSWERS, Hold.PAIRED),)
    found = why(context(segment("call", task_id="t"), segment("r", references=pair)), "r")
    assert found.endswith("which is one unit with r")


def test_a_stand_in_is_reported_as_such() -> None:
    short = segment("b~1", references=(Reference("b", Link.DERIVED),))
    found = why(context(segment("a", task_id="t", references=("b",)), short), "b~1")
    assert found.endswith("which refers to the original of b~1")


def test_garbage_is_reported_as_such() -> None:
    found = why(context(segment("a", task_id="t"), segment("x")), "x")
    assert found == "nothing that must stay refers to x: it may go"


def test_what_its_policy_holds_is_not_said_to_go() -> None:
    pair = (Reference("held", Link.ANSWERS, Hold.PAIRED),)
    heap = context(segment("held", policy=GCPolicy.PRESERVABLE), segment("mate", references=pair))
    assert why(heap, "held") == "held stays: preservable, and the pressure is not high"
    assert why(heap, "mate").startswith("mate stays: paired with 'held', which is preservable")


def test_related_garbage_says_what_it_shares_and_with_whom() -> None:
    found = why(
        context(segment("a", task_id="t", topic_id="auth"), segment("x", topic_id="auth")), "x"
    )
    assert "only shares the topic auth with a" in found
