"""GCEngine on plain lists: the seven required scenarios, and bad input."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from time import process_time

import pytest

import marksweep
from marksweep import (
    ContextSegment,
    GCEngine,
    GCPolicy,
    IGCEngine,
    PruningCandidate,
    PruningPlan,
)
from marksweep.errors import BadInput
from marksweep.model import Hold, Link, Reference
from marksweep.testing.builders import NOW, Clock, segment


@pytest.fixture
def engine() -> GCEngine:
    return GCEngine(clock=Clock())


def names(candidates: list[PruningCandidate]) -> list[str]:
    return [candidate.segment_id for candidate in candidates]


def test_scenario_1_a_simple_root_set_of_the_current_task_only(engine: GCEngine) -> None:
    segments = [segment("a", task_id="now"), segment("b", task_id="then"), segment("c")]
    roots = engine.compute_roots(segments, task_id="now")
    assert roots == {"a"}
    assert set(names(engine.analyze_pruning_candidates(segments, roots))) == {"b", "c"}


def test_scenario_2_a_complex_root_set_of_task_file_messages_and_pins(engine: GCEngine) -> None:
    segments = [
        segment("task", task_id="now"),
        segment("file", file_path="a.py", line_range=(1, 10)),
        segment("other lines", file_path="a.py", line_range=(90, 99)),
        segment("open", file_path="b.py"),
        *(segment(f"m{n}", type="message") for n in range(5)),
        segment("pin", pinned=True),
        segment("decided", type="decision", hours_old=0.5),
        segment("overview", tags=("overview",)),
        segment("free"),
    ]
    roots = engine.compute_roots(
        segments,
        task_id="now",
        active_file="a.py",
        active_lines=(5, 6),
        open_files={"b.py"},
        recent_messages=2,
    )
    assert roots == {"task", "file", "open", "m3", "m4", "pin", "decided", "overview"}
    left = names(engine.analyze_pruning_candidates(segments, roots))
    assert set(left) == {"other lines", "m0", "m1", "m2", "free"}


def test_scenario_3_reachability_with_circular_references(engine: GCEngine) -> None:
    references = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "x": {"y"}, "y": {"x"}}
    assert engine.compute_reachability({"a"}, references) == {"a", "b", "c", "d"}
    segments = [
        segment("a", references=["b"]),
        segment("b", references=["a"]),
        segment("x", references=["y"]),
        segment("y", references=["x"]),
    ]
    assert set(names(engine.analyze_pruning_candidates(segments, {"a"}))) == {"x", "y"}


def test_scenario_4_scoring_with_various_types_and_ages(engine: GCEngine) -> None:
    scores = [
        engine.score_segment(segment("s", type=kind, hours_old=hours), NOW)
        for kind, hours in [("log", 72), ("log", 1), ("code", 1), ("decision", 1)]
    ]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.parametrize(("target", "taken"), [(0, 0), (1, 1), (10, 1), (11, 2), (30, 3), (99, 3)])
def test_scenario_5_a_plan_for_different_token_targets(
    engine: GCEngine, target: int, taken: int
) -> None:
    segments = [segment(name, hours_old=hours) for name, hours in [("a", 1), ("b", 9), ("c", 5)]]
    plan = engine.generate_pruning_plan(
        engine.analyze_pruning_candidates(segments, set()), target_tokens=target
    )
    assert [c.segment_id for c in plan.candidates] == ["b", "c", "a"][:taken]
    assert plan.total_tokens_freed == 10 * taken
    assert len(plan.stash_segments) + len(plan.delete_segments) == taken
    assert ("missing" in plan.reason) is (target > 30)


def test_scenario_6_pinned_segments_are_excluded_from_pruning(engine: GCEngine) -> None:
    segments = [
        segment("pin", pinned=True, hours_old=9999, type="log", references=["held"]),
        segment("held"),
        segment("free"),
    ]
    assert names(engine.analyze_pruning_candidates(segments, set())) == ["free"]


def test_locked_segments_are_excluded_from_pruning(engine: GCEngine) -> None:
    segments = [segment("locked", policy=GCPolicy.LOCKED), segment("free")]
    assert names(engine.analyze_pruning_candidates(segments, set())) == ["free"]


def test_scenario_7_performance_a_large_context_is_analysed_whole_in_two_seconds(
    engine: GCEngine,
) -> None:
    segments = [
        segment(f"s{n}", hours_old=n % 97, references=[f"s{n // 2}"] if n % 3 else [], tokens=32)
        for n in range(5_000)
    ]
    roots = {"s4999"}
    start = process_time()
    candidates = engine.analyze_pruning_candidates(segments, roots)
    engine.generate_pruning_plan(candidates, target_tokens=32_000)
    assert process_time() - start < 2
    reached = engine.compute_reachability(
        roots, {s.segment_id: {r.target for r in s.references} for s in segments}
    )
    assert set(names(candidates)) == {s.segment_id for s in segments} - reached
    assert [c.score for c in candidates] == sorted((c.score for c in candidates), reverse=True)


def test_candidates_carry_a_reason_the_type_the_age_and_the_tokens(engine: GCEngine) -> None:
    found = engine.analyze_pruning_candidates([segment("a", type="log", hours_old=50)], set())
    assert found == [
        PruningCandidate(
            segment_id="a",
            score=engine.score_segment(segment("a", type="log", hours_old=50), NOW),
            tokens=10,
            reason="unreachable: log, untouched for 2 days, no references, score 0.80",
            segment_type="log",
            age_hours=50.0,
        )
    ]


def test_a_plan_is_made_of_candidates_that_say_no_more_than_the_design_names(
    engine: GCEngine,
) -> None:
    plan = engine.generate_pruning_plan([PruningCandidate("a", 0.9, 50, "old")], 10)
    assert (plan.stash_segments, plan.delete_segments, plan.total_tokens_freed) == (["a"], [], 50)


def test_a_tag_that_names_a_segment_is_a_reference(engine: GCEngine) -> None:
    segments = [segment("a", tags=["ref:b"]), segment("b"), segment("c")]
    assert names(engine.analyze_pruning_candidates(segments, {"a"})) == ["c"]


def test_only_old_logs_and_notes_that_nothing_refers_to_are_deleted(engine: GCEngine) -> None:
    segments = [
        segment("log", type="log", hours_old=24 * 9),
        segment("note", type="note", hours_old=24 * 9),
        segment("cited", type="log", hours_old=24 * 9, refcount=2),
        segment("named", type="log", hours_old=24 * 9),
        segment("code", type="code", hours_old=24 * 9, references=["named", "named"]),
        segment("fresh", type="log", hours_old=2),
    ]
    candidates = engine.analyze_pruning_candidates(segments, set())
    plan = engine.generate_pruning_plan(candidates, target_tokens=1000)
    assert set(plan.delete_segments) == {"log", "note"}
    assert set(plan.stash_segments) == {"cited", "named", "code", "fresh"}
    (named,) = [each for each in candidates if each.segment_id == "named"]
    assert named.refcount == 1
    assert "1 reference" in named.reason


def test_a_pair_goes_whole_or_not_at_all(engine: GCEngine) -> None:
    call = (Reference("call", Link.ANSWERS, Hold.PAIRED),)
    segments = [
        segment("call", type="log", hours_old=9999),
        segment("result", type="decision", hours_old=9999, references=call),
        segment("young", type="decision"),
    ]
    candidates = engine.analyze_pruning_candidates(segments, set())
    plan = engine.generate_pruning_plan(candidates, 1)
    assert (plan.stash_segments, plan.delete_segments) == (["call", "result"], [])
    assert plan.total_tokens_freed == 20
    partly = [candidate for candidate in candidates if candidate.segment_id != "result"]
    assert engine.generate_pruning_plan(partly, 1).stash_segments == ["young"]


def test_empty_input_and_unknown_ids_are_fine(engine: GCEngine) -> None:
    assert engine.analyze_pruning_candidates([], set()) == []
    assert engine.analyze_pruning_candidates([], {"nobody"}) == []
    assert names(engine.analyze_pruning_candidates([segment("a", references=["?"])], {"?"})) == [
        "a"
    ]
    assert engine.compute_reachability(set(), {}) == set()
    assert engine.compute_reachability({"a"}, {"b": {"c"}}) == {"a"}
    assert engine.generate_pruning_plan([], target_tokens=10).candidates == []


def test_a_negative_target_is_refused(engine: GCEngine) -> None:
    with pytest.raises(BadInput, match="-1"):
        engine.generate_pruning_plan([], target_tokens=-1)


def test_tokens_that_are_not_given_are_counted() -> None:
    engine = GCEngine(clock=Clock(), count_tokens=len)
    found = engine.analyze_pruning_candidates([segment("a", tokens=0, text="four")], set())
    assert found[0].tokens == 4


def test_the_input_is_left_alone(engine: GCEngine) -> None:
    segments = [segment("a"), segment("b")]
    engine.analyze_pruning_candidates(segments, {"a"})
    assert segments == [segment("a"), segment("b")]


def test_all_fields_of_the_model_can_be_given_by_keyword_as_lists_and_naive_times() -> None:
    given = ContextSegment(
        segment_id="s",
        text="def f(): ...",
        type="code",
        created_at=datetime(2026, 1, 1),  # noqa: DTZ001
        last_touched_at=datetime(2026, 1, 2, tzinfo=UTC),
        pinned=False,
        generation="old",  # type: ignore[arg-type]
        gc_survival_count=2,
        refcount=1,
        file_path="a.py",
        line_range=[1, 2],  # type: ignore[arg-type]
        tags=["x"],  # type: ignore[arg-type]
        topic_id="t",
        project_id="p",
        task_id="k",
        tokens=5,
        references=["r"],  # type: ignore[arg-type]
    )
    assert given.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert (given.tags, given.line_range) == (("x",), (1, 2))
    assert [reference.target for reference in given.references] == ["r"]


def test_a_segment_without_a_touch_was_touched_when_it_was_made() -> None:
    made = ContextSegment(segment_id="a", type="note", created_at=NOW)
    assert made.last_touched_at == NOW


def test_references_given_as_a_set_come_in_the_same_order_always() -> None:
    made = segment("a", references={"c", "a", "b"})
    assert [reference.target for reference in made.references] == ["a", "b", "c"]


def test_the_engine_follows_its_protocol_and_so_may_another(engine: GCEngine) -> None:
    assert isinstance(engine, IGCEngine)
    for name in (
        "analyze_pruning_candidates",
        "compute_reachability",
        "score_segment",
        "generate_pruning_plan",
    ):
        wanted = inspect.signature(getattr(IGCEngine, name)).parameters
        assert list(inspect.signature(getattr(GCEngine, name)).parameters) == list(wanted)
    assert isinstance(PruningPlan(), marksweep.PruningPlan)


def test_ages_grow_with_the_clock() -> None:
    clock = Clock()
    engine = GCEngine(clock=clock)
    (before,) = engine.analyze_pruning_candidates([segment("a")], set())
    clock.now += timedelta(hours=5)
    (after,) = engine.analyze_pruning_candidates([segment("a")], set())
    assert after.age_hours == pytest.approx(before.age_hours + 5)
    assert after.score > before.score
