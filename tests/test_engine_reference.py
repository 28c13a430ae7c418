"""GCEngine compared with a plain implementation of its design, on random heaps.

The reference is written from the design alone, as short as possible. Each allowed difference is in
one place: age is bounded, pins are roots, references are counted, and what goes is stashed unless
it is an old log or note that nothing refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from marksweep import ContextSegment, GCEngine, PruningCandidate
from marksweep.testing.builders import NOW, Clock, segment

TYPES = ("log", "note", "code", "message", "decision", "summary")
TYPE_SCORES = {
    "log": 1.0,
    "note": 0.8,
    "code": 0.5,
    "message": 0.3,
    "decision": 0.1,
    "summary": 0.2,
}
WEEK = 24 * 7


@st.composite
def heaps(draw: st.DrawFn) -> list[ContextSegment]:
    """Draw segments with references by id, by tag, to themselves, in cycles and to missing ids."""
    size = draw(st.integers(0, 14))
    names = [f"s{n}" for n in range(size)]
    targets = st.lists(st.sampled_from([*names, "nobody"]), max_size=3)
    return [
        segment(
            name,
            type=draw(st.sampled_from(TYPES)),
            hours_old=draw(st.sampled_from([0.0, 0.5, 1.0, 1.5, 30.0, 167.0, 169.0, 5000.0])),
            tokens=draw(st.integers(1, 400)),
            refcount=draw(st.integers(0, 6)),
            generation=draw(st.sampled_from(["young", "old"])),
            pinned=draw(st.integers(0, 9)) == 0,
            task_id=draw(st.sampled_from([None, "now", "then"])),
            file_path=draw(st.sampled_from([None, "a.py", "b.py"])),
            references=draw(targets),
            tags=[f"ref:{each}" for each in draw(targets)][:1],
        )
        for name in names
    ]


def reference_roots(segments: Sequence[ContextSegment], messages: int) -> set[str]:
    """Return the roots: task, active file, last messages, pins, decisions of the last hour."""
    said = [s.segment_id for s in segments if s.type == "message"]
    return {
        s.segment_id
        for s in segments
        if s.task_id == "now"
        or s.file_path == "a.py"
        or s.segment_id in said[max(0, len(said) - messages) :]
        or s.pinned
        or (s.type == "decision" and NOW - s.created_at <= timedelta(hours=1))
    }


def reference_graph(segments: Sequence[ContextSegment]) -> dict[str, set[str]]:
    """Return the references by field and by tags."""
    return {
        s.segment_id: {r.target for r in s.references}
        | {tag.removeprefix("ref:") for tag in s.tags if tag.startswith("ref:")}
        for s in segments
    }


def reference_count(s: ContextSegment, graph: dict[str, set[str]]) -> int:
    """Return how many of the others refer to a segment, or how many the caller has counted."""
    others = [name for name, targets in graph.items() if s.segment_id in targets]
    return max(s.refcount, len(set(others) - {s.segment_id}))


def reference_reach(roots: set[str], graph: dict[str, set[str]]) -> set[str]:
    """Follow references until nothing is new."""
    reached = set(roots)
    while True:
        more = {target for name in reached for target in graph.get(name, ())} - reached
        if not more:
            return reached
        reached |= more


def reference_score(s: ContextSegment, recency: float) -> float:
    """Return the weighted sum of the design for a value of recency."""
    return (
        0.4 * recency
        + 0.3 * TYPE_SCORES[s.type]
        + 0.2 * (1.0 / (s.refcount + 1))
        + 0.1 * (1.0 if s.generation == "old" else 0.3)
    )


def hours(s: ContextSegment) -> float:
    return (NOW - s.last_touched_at).total_seconds() / 3600


@pytest.fixture(scope="module")
def engine() -> GCEngine:
    return GCEngine(clock=Clock())


@given(segments=heaps(), messages=st.integers(0, 12))
def test_the_roots_are_those_of_the_design(
    engine: GCEngine, segments: list[ContextSegment], messages: int
) -> None:
    found = engine.compute_roots(
        segments, task_id="now", active_file="a.py", recent_messages=messages
    )
    assert found == reference_roots(segments, messages)


@given(segments=heaps())
def test_what_is_reached_is_the_same(engine: GCEngine, segments: list[ContextSegment]) -> None:
    graph, roots = reference_graph(segments), reference_roots(segments, 3)
    assert engine.compute_reachability(roots, graph) == reference_reach(roots, graph)


@given(segments=heaps(), data=st.data())
def test_the_candidates_are_what_no_root_and_no_pin_reaches(
    engine: GCEngine, segments: list[ContextSegment], data: st.DataObject
) -> None:
    named = [s.segment_id for s in segments]
    roots = set(data.draw(st.lists(st.sampled_from(named), max_size=3)) if named else ())
    pins = {s.segment_id for s in segments if s.pinned}
    kept = reference_reach(roots | pins, reference_graph(segments))
    found = engine.analyze_pruning_candidates(segments, roots)
    assert {c.segment_id for c in found} == set(named) - kept
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    graph = reference_graph(segments)
    by_id = {s.segment_id: structs.replace(s, refcount=reference_count(s, graph)) for s in segments}
    for candidate in found:
        s = by_id[candidate.segment_id]
        assert candidate.score == engine.score_segment(s, NOW)
        assert (candidate.tokens, candidate.segment_type, candidate.refcount) == (
            s.tokens,
            s.type,
            s.refcount,
        )
        assert candidate.age_hours == pytest.approx(hours(s))
        assert candidate.reason


@given(segments=heaps())
def test_the_score_differs_from_the_design_in_nothing_but_a_bounded_age(
    engine: GCEngine, segments: list[ContextSegment]
) -> None:
    for s in segments:
        bounded = hours(s) / (hours(s) + 24.0)
        assert engine.score_segment(s, NOW) == pytest.approx(reference_score(s, bounded))
    for one in segments:
        for other in segments:
            unbounded = [reference_score(s, hours(s) / 24.0) for s in (one, other)]
            ours = [engine.score_segment(s, NOW) for s in (one, other)]
            rest_is_equal = reference_score(one, 0) == pytest.approx(reference_score(other, 0))
            if rest_is_equal or hours(one) == hours(other):
                assert (ours[0] > ours[1] + 1e-9) == (unbounded[0] > unbounded[1] + 1e-9)


@given(segments=heaps(), target=st.integers(0, 3_000))
def test_a_plan_takes_the_highest_scores_until_the_target_is_met(
    engine: GCEngine, segments: list[ContextSegment], target: int
) -> None:
    candidates = engine.analyze_pruning_candidates(segments, set())
    taken: list[PruningCandidate] = []
    freed = 0
    for candidate in candidates:
        if freed >= target:
            break
        taken.append(candidate)
        freed += candidate.tokens
    plan = engine.generate_pruning_plan(list(reversed(candidates)), target)
    scores = [c.score for c in plan.candidates]
    assert scores == [c.score for c in taken]
    if len(set(scores)) == len({c.score for c in candidates}) == len(candidates):
        assert plan.candidates == taken
        assert plan.total_tokens_freed == freed
    deleted = {
        c.segment_id
        for c in plan.candidates
        if c.segment_type in ("log", "note") and not c.refcount and c.age_hours > WEEK
    }
    assert set(plan.delete_segments) == deleted
    assert set(plan.stash_segments) == {c.segment_id for c in plan.candidates} - deleted
    assert plan.reason
