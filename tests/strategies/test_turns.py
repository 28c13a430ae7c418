"""Strategies that rank turns: oldest first, into summaries, by generation, by policy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from marksweep.core.context import PlanningContext
from marksweep.core.plan import make_plan
from marksweep.core.strategy import Proposal
from marksweep.model import Action, GCPolicy, Hold, Plan, Pressure, Reference, Segment, Snapshot
from marksweep.strategies.budget import ByPolicy
from marksweep.strategies.hybrid import Hybrid
from marksweep.strategies.summarize import Summarize
from marksweep.strategies.turns import OldestTurns

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def segment(
    name: str,
    turn: int | None,
    *,
    tokens: int = 10,
    policy: GCPolicy = GCPolicy.PARTIAL,
    pairs: tuple[str, ...] = (),
    kind: str = "turn",
) -> Segment:
    return Segment(
        segment_id=name,
        type=kind,
        created_at=NOW,
        tokens=tokens,
        topic_id=None if turn is None else f"turn_{turn}",
        policy=policy,
        references=tuple(Reference(target, hold=Hold.PAIRED) for target in pairs),
    )


def context(
    *segments: Segment,
    target: int = 0,
    roots: dict[int, str] | None = None,
    pressure: Pressure = Pressure.SOFT,
) -> PlanningContext:
    return PlanningContext(Snapshot(tuple(segments), ""), roots or {}, NOW, target, pressure)


def turns(count: int) -> list[Segment]:
    return [segment(f"{who}{n}", n) for n in range(count) for who in ("ask", "say")]


def swept(plan: Plan) -> list[tuple[str, ...]]:
    return [step.segments for step in plan.steps]


def digest(segments: Sequence[Segment], _: Sequence[Segment]) -> Segment | None:
    if len(segments) < 3:
        return None
    return segment(f"summary of {len(segments)}", None, tokens=5)


def test_a_turn_goes_whole_and_no_more_turns_than_needed() -> None:
    plan = make_plan(context(*turns(5), target=65), OldestTurns())
    assert swept(plan) == [("ask0", "say0"), ("ask1", "say1")]
    assert plan.steps[0].reason == "truncated: turn 0 is the oldest left"


def test_the_newest_turn_goes_unit_by_unit() -> None:
    pair = [segment("call", 5, pairs=("result",)), segment("result", 5)]
    plan = make_plan(context(*pair, segment("ask", 5), segment("say", 5), target=15), OldestTurns())
    assert swept(plan) == [("call", "result"), ("ask",)]


def test_a_root_in_a_turn_stays_and_the_rest_of_the_turn_goes() -> None:
    plan = make_plan(context(*turns(3), target=45, roots={0: "the first request"}), OldestTurns())
    assert swept(plan) == [("say0",), ("ask1", "say1")]


def test_a_unit_is_as_firm_as_its_firmest_member() -> None:
    pair = [
        segment("call", 0, policy=GCPolicy.PRESERVABLE, pairs=("result",)),
        segment("result", 0, policy=GCPolicy.EPHEMERAL),
    ]
    calm = make_plan(context(*pair, *turns(2)[2:]), ByPolicy())
    assert "call" not in [name for names in swept(calm) for name in names]
    hard = make_plan(context(*pair, *turns(2)[2:], pressure=Pressure.HARD), ByPolicy())
    assert swept(hard)[-1] == ("call", "result")


def test_turns_that_are_too_little_for_a_summary_are_tried_again_with_more() -> None:
    asked: list[int] = []

    def counting(segments: Sequence[Segment], earlier: Sequence[Segment]) -> Segment | None:
        asked.append(len(segments))
        return digest(segments, earlier)

    plan = make_plan(context(*turns(5), target=90), Summarize(counting))
    assert asked == [2, 4]
    assert plan.steps[0].action is Action.COMPRESS
    assert plan.steps[0].segments == ("ask0", "say0", "ask1", "say1")
    assert plan.steps[0].reason == "summarized: turn 0 to turn 1, the oldest left"


def test_a_summary_goes_on_from_those_before_it() -> None:
    seen: list[list[str]] = []

    def noting(segments: Sequence[Segment], earlier: Sequence[Segment]) -> Segment | None:
        seen.append([each.segment_id for each in earlier])
        return segment(f"summary of {segments[0].segment_id}", None, tokens=15, kind="summary")

    old = segment("old", None, policy=GCPolicy.PRESERVABLE, kind="summary")
    plan = make_plan(context(old, *turns(5), target=80), Summarize(noting))
    assert seen == [["old"], ["old"]]
    assert "old" not in {name for step in plan.steps for name in step.segments}


def test_a_summary_that_frees_too_little_is_made_again_of_more_turns() -> None:
    def large(segments: Sequence[Segment], _: Sequence[Segment]) -> Segment | None:
        return segment("summary", None, tokens=5 * len(segments), kind="summary")

    plan = make_plan(context(*turns(8), target=110), Summarize(large))
    (step,) = plan.steps
    assert plan.size_after <= 110
    assert len(step.segments) > 8


def summary(name: str) -> Segment:
    return segment(name, None, policy=GCPolicy.PRESERVABLE, kind="summary")


def test_above_the_hard_limit_summaries_are_merged_with_the_oldest_turns_into_one() -> None:
    crowded = context(summary("s0"), *turns(2), summary("s1"), target=30, pressure=Pressure.HARD)
    (step,) = make_plan(crowded, Summarize(digest)).steps
    assert {"s0", "s1"} < set(step.segments)
    assert step.action is Action.COMPRESS
    assert step.replacement is not None


def test_summaries_alone_are_merged_and_one_alone_stays() -> None:
    def merging(segments: Sequence[Segment], _: Sequence[Segment]) -> Segment | None:
        return segment("merged", None, tokens=10 * len(segments) - 5, kind="summary")

    three = [summary(f"s{n}") for n in range(3)]
    (step,) = make_plan(context(*three, pressure=Pressure.HARD), Summarize(merging)).steps
    assert step.segments == ("s0", "s1", "s2")
    assert step.reason == "summarized: the summaries so far, into one"
    alone = context(three[0], pressure=Pressure.HARD)
    assert make_plan(alone, Summarize(merging)).steps == ()


def test_a_summary_is_never_dropped_by_a_strategy_that_summarises() -> None:
    notes = [segment(f"note{n}", None, policy=GCPolicy.PRESERVABLE, kind="note") for n in range(2)]
    crowded = context(summary("s0"), *notes, pressure=Pressure.HARD)
    for strategy in (Summarize(digest), Hybrid(digest)):
        assert swept(make_plan(crowded, strategy)) == [("note0",), ("note1",)]


def test_a_summary_never_takes_the_place_of_what_stands_inside_a_unit_that_stays() -> None:
    asked, *rest = turns(4)
    unit = [
        segment("call", 0, pairs=("result",)),
        segment("stray", 0),
        segment("result", 0, pairs=("call",)),
    ]
    for roots, first in (({0: "locked", 1: "it waits"}, "say0"), ({1: "it waits"}, "ask0")):
        broken = context(asked, *unit, *rest, roots=roots)
        (proposal,) = Summarize(digest).rank(broken)
        assert broken.segments[proposal.members[0]].segment_id == first
        assert len(proposal.members) > 6


def test_nothing_is_proposed_if_no_summary_would_shrink() -> None:
    ranked = Summarize(lambda *_: None).rank(context(*turns(5)))
    assert list(ranked) == []


def test_ancient_turns_are_dropped_before_the_middle_is_summarised() -> None:
    ranked = list(Hybrid(digest, middle=2).rank(context(*turns(4))))
    assert [proposal.action for proposal in ranked] == [
        Action.STASH,
        Action.STASH,
        Action.COMPRESS,
    ]
    assert ranked[-1].members == (4, 5, 6, 7)


def words(ranked: list[Proposal]) -> list[str]:
    return [proposal.reason.partition(":")[0] for proposal in ranked]


def test_policies_go_in_their_order() -> None:
    mixed = [
        segment("law", None, policy=GCPolicy.LOCKED, kind="system"),
        segment("kept", 0, policy=GCPolicy.PRESERVABLE),
        *turns(2),
        segment("call", 0, policy=GCPolicy.EPHEMERAL),
        segment("schema", None, policy=GCPolicy.EPHEMERAL, kind="plugin"),
        segment("memory", None, policy=GCPolicy.EPHEMERAL, kind="enrichment"),
        segment("notes", None, policy=GCPolicy.EPHEMERAL, kind="enrichment"),
        segment("part", None, policy=GCPolicy.PARTIAL, kind="plugin"),
        segment("mine", None, policy=GCPolicy.CONDITIONAL, kind="plugin"),
        segment("now", 1),
    ]
    ranked = list(ByPolicy().rank(context(*mixed, pressure=Pressure.HARD)))
    assert words(ranked) == [
        "enrichment_bulk_clear",
        "ephemeral",
        "ephemeral",
        "partial_turn",
        "partial_turn",
        "partial_turn",
        "partial_turn",
        "partial",
        "preservable_under_pressure",
    ]
    named = {mixed[i].segment_id for proposal in ranked for i in proposal.members}
    assert not named & {"law", "mine"}
    assert ranked[0].members == (8, 9)


def test_equal_input_is_ranked_equally() -> None:
    one = list(ByPolicy().rank(context(*turns(4))))
    assert one == list(ByPolicy().rank(context(*turns(4))))
