"""The planner takes whole units until the target is met, and guards what must stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import FrozenInstanceError

import msgspec
import pytest

from marksweep.core.context import PlanningContext
from marksweep.core.plan import make_plan, plan_from, plan_recall
from marksweep.core.roots import Focus
from marksweep.core.strategy import Proposal
from marksweep.core.units import Singles
from marksweep.errors import BadInput
from marksweep.model import (
    Action,
    Blocker,
    Cost,
    GCPolicy,
    Hold,
    Link,
    Plan,
    Pressure,
    Reference,
    Segment,
    Snapshot,
    Unit,
)
from marksweep.testing.builders import NOW, segment, snapshot


class Scripted:
    """Proposes what a test lists."""

    name = "scripted"

    def __init__(self, *script: tuple[str | tuple[str, ...], Action, Segment | None]) -> None:
        self.script = script
        self.asked = 0

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        for named, action, replacement in self.script:
            self.asked += 1
            names = (named,) if isinstance(named, str) else named
            members = tuple(context.graph.index[name] for name in names)
            yield Proposal(members, action, "as the script says", replacement)


def stash(*names: str) -> Scripted:
    return Scripted(*((name, Action.STASH, None) for name in names))


def plan(
    strategy: Scripted, target: int, *segments: Segment, pressure: Pressure = Pressure.SOFT
) -> Plan:
    context = PlanningContext.of(
        snapshot(*segments), Focus(now=NOW, task_id="now"), target, pressure=pressure
    )
    return make_plan(context, strategy)


def swept(found: Plan) -> list[tuple[str, ...]]:
    return [step.segments for step in found.steps]


FIVE = tuple(segment(name, tokens=10) for name in "abcde")


def test_it_stops_at_the_target_and_does_not_ask_further() -> None:
    strategy = stash("a", "b", "c", "d")
    found = plan(strategy, 30, *FIVE)
    assert swept(found) == [("a",), ("b",)]
    assert (found.tokens_before, found.tokens_after, found.tokens_freed) == (50, 30, 20)
    assert strategy.asked == 2
    assert found.blockers == ()


def test_a_heap_at_its_target_needs_nothing() -> None:
    strategy = stash("a")
    assert plan(strategy, 50, *FIVE).steps == ()
    assert strategy.asked == 0


def test_a_root_is_refused_and_named_if_it_blocks_the_plan() -> None:
    segments = (segment("a", task_id="now", tokens=70), segment("b", tokens=10))
    found = plan(stash("a", "b"), 5, *segments)
    assert swept(found) == [("b",)]
    assert found.short_by == 65
    assert found.blockers == (Blocker("part of the current task now", 1, 70),)


def test_what_the_strategy_does_not_offer_is_named_too() -> None:
    found = plan(stash("a"), 0, *FIVE)
    assert found.blockers == (Blocker("not offered by the strategy", 4, 40),)


def test_what_is_left_of_trimmed_and_summarized_segments_is_a_blocker_too() -> None:
    shorter, summary = segment("a", tokens=4), segment("summary", tokens=3)
    script = Scripted(("a", Action.TRIM, shorter), (("b", "c"), Action.COMPRESS, summary))
    found = plan(script, 0, *FIVE)
    assert found.tokens_after == 27
    assert found.blockers == (
        Blocker("not offered by the strategy", 2, 20),
        Blocker("trimmed as far as it goes", 1, 4),
        Blocker("stands for what went", 1, 3),
    )


def test_without_a_target_what_is_refused_counts_once_and_as_it_is_left() -> None:
    pair = (Reference("call", Link.ANSWERS, Hold.PAIRED),)
    segments = (
        segment("call", policy=GCPolicy.LOCKED, tokens=10),
        segment("result", references=pair, tokens=100),
        segment("x", tokens=7),
    )
    script = Scripted(
        ("result", Action.MASK, segment("result", references=pair, tokens=4)),
        ("result", Action.STASH, None),
        (("result", "x"), Action.COMPRESS, segment("s", tokens=1)),
    )
    context = PlanningContext.of(snapshot(*segments), Focus(now=NOW), None)
    found = make_plan(context, script)
    assert found.size_after == 21
    assert sum(blocker.size for blocker in found.blockers) == 21 - found.target_size
    assert found.target_size == 0
    assert sum(blocker.segments for blocker in found.blockers) == 3


def test_a_unit_goes_as_a_whole() -> None:
    pair = (Reference("call", Link.ANSWERS, Hold.PAIRED),)
    segments = (segment("call"), segment("result", references=pair), segment("x"))
    assert swept(plan(stash("result"), 15, *segments)) == [("call", "result")]


def test_a_unit_with_a_member_that_must_stay_stays_as_a_whole() -> None:
    pair = (Reference("call", Link.ANSWERS, Hold.PAIRED),)
    segments = (segment("call", pinned=True), segment("result", references=pair), segment("x"))
    assert swept(plan(stash("result", "x"), 0, *segments)) == [("x",)]


def test_an_edit_in_place_concerns_its_own_segment_only() -> None:
    pair = (Reference("call", Link.ANSWERS, Hold.PAIRED),)
    call = segment("call", policy=GCPolicy.LOCKED)
    result = segment("result", references=pair, tokens=100)
    masked = segment("result", references=pair, tokens=5)
    found = plan(Scripted(("result", Action.MASK, masked)), 20, call, result)
    assert swept(found) == [("result",)]
    assert found.tokens_after == 15


def test_a_later_step_takes_the_place_of_an_edit() -> None:
    masked = segment("a", tokens=4)
    strategy = Scripted(
        ("a", Action.MASK, masked), ("b", Action.STASH, None), ("a", Action.STASH, None)
    )
    found = plan(strategy, 30, *FIVE)
    assert [(s.segments, s.action, s.size) for s in found.steps] == [
        (("b",), Action.STASH, 10),
        (("a",), Action.STASH, 10),
    ]
    assert found.tokens_after == 30


def test_a_segment_is_not_taken_twice() -> None:
    assert swept(plan(stash("a", "a", "b"), 30, *FIVE)) == [("a",), ("b",)]


def test_a_replacement_that_is_not_smaller_is_refused() -> None:
    same, larger = segment("a~1", tokens=10), segment("b~1", tokens=11)
    strategy = Scripted(("a", Action.COMPRESS, same), ("b", Action.COMPRESS, larger))
    assert plan(strategy, 0, *FIVE).steps == ()


def test_a_replacement_is_paid_for() -> None:
    shorter = segment("a~1", tokens=3)
    found = plan(Scripted(("a", Action.COMPRESS, shorter)), 45, *FIVE)
    assert found.steps[0].size == 7
    assert found.tokens_after == 43


def test_several_segments_may_be_replaced_by_one() -> None:
    summary = segment("s", tokens=5)
    found = plan(Scripted((("a", "b", "c"), Action.COMPRESS, summary)), 30, *FIVE)
    assert swept(found) == [("a", "b", "c")]
    assert found.tokens_after == 25


def test_preservable_goes_only_under_high_pressure() -> None:
    segments = (segment("a", policy=GCPolicy.PRESERVABLE), segment("b"))
    assert swept(plan(stash("a", "b"), 0, *segments)) == [("b",)]
    assert swept(plan(stash("a", "b"), 0, *segments, pressure=Pressure.HARD)) == [("a",), ("b",)]


def test_locked_and_conditional_never_go() -> None:
    segments = (
        segment("a", policy=GCPolicy.LOCKED),
        segment("b", policy=GCPolicy.CONDITIONAL),
        segment("c", pinned=True),
    )
    assert swept(plan(stash("a", "b", "c"), 0, *segments, pressure=Pressure.HARD)) == []


def test_the_cost_says_from_where_the_prompt_changes() -> None:
    found = plan(stash("d", "b"), 30, *FIVE)
    assert found.cost.edits_from == 1
    assert found.cost.reread_tokens == 20


def test_the_id_is_of_the_content() -> None:
    one, same, other = (
        plan(stash("a"), 40, *FIVE),
        plan(stash("a"), 40, *FIVE),
        plan(stash("b"), 40, *FIVE),
    )
    assert one.plan_id == same.plan_id
    assert one.plan_id != other.plan_id
    assert one.plan_id.startswith("plan-")


def test_the_id_depends_on_every_step() -> None:
    one, other = plan(stash("a", "b"), 30, *FIVE), plan(stash("b", "a"), 30, *FIVE)
    assert one.plan_id != other.plan_id


def test_the_plan_carries_the_fingerprint_of_its_snapshot() -> None:
    assert plan(stash("a"), 40, *FIVE).fingerprint == snapshot(*FIVE).fingerprint


def test_without_a_target_all_that_is_offered_goes_and_is_the_target() -> None:
    context = PlanningContext.of(snapshot(*FIVE), Focus(now=NOW))
    found = make_plan(context, stash("a", "c"))
    assert swept(found) == [("a",), ("c",)]
    assert (found.size_after, found.target_size, found.short_by) == (30, 30, 0)
    assert found.blockers == ()


def test_without_a_target_what_was_offered_and_must_stay_blocks_the_plan() -> None:
    segments = (segment("a", pinned=True), segment("b"), segment("c", pinned=True))
    context = PlanningContext.of(snapshot(*segments), Focus(now=NOW))
    found = make_plan(context, stash("a", "b"))
    assert swept(found) == [("b",)]
    assert (found.target_size, found.short_by) == (10, 10)
    assert found.blockers == (Blocker("pinned", 1, 10),)


def test_what_a_part_leaves_out_is_listed_as_not_looked_at() -> None:
    part = msgspec.structs.replace(snapshot(*FIVE[:2]), rest_size=30, rest_segments=3)
    found = make_plan(PlanningContext.of(part, Focus(now=NOW), 5), stash("a", "b"))
    assert (found.size_before, found.size_after) == (50, 30)
    assert found.blockers == (Blocker("not looked at", 3, 30),)


def test_a_note_that_comes_back_is_counted() -> None:
    context = PlanningContext.of(snapshot(*FIVE), Focus(now=NOW), 60)
    note = segment("note", tokens=7)
    found = plan_recall(context, Proposal((4,), Action.RECALL, "spoken of again", note))
    assert [(step.segments, step.size) for step in found.steps] == [((), -7)]
    assert (found.size_after, found.short_by, found.cost.edits_from) == (57, 0, 4)


def test_a_context_cannot_be_changed() -> None:
    context = PlanningContext.of(snapshot(*FIVE), Focus(now=NOW), 30)
    with pytest.raises(FrozenInstanceError):
        context.target = 0  # type: ignore[misc]
    other = context.aiming_at(20)
    assert (context.target, other.target) == (30, 20)


class Columns:
    """Ten memories of four nodes each, without a segment anywhere."""

    snapshot = Snapshot((), "v7", "project", "graph", unit=Unit.NODES)
    now = NOW
    size = 40
    sizes = (4,) * 10

    def __init__(self, target: int | None) -> None:
        self.target = target
        self.units = Singles(10)

    def may_go(self, members: tuple[int, ...]) -> bool:
        return 0 not in members

    def reason_to_keep(self, members: tuple[int, ...]) -> str | None:
        return None if self.may_go(members) else "read recently"

    def ids_of(self, steps: Sequence[tuple[int, ...]]) -> list[tuple[str, ...]]:
        return [(f"memory:{i}", f"chunk:{i}.1") for (i,) in steps]


@pytest.mark.parametrize("target", [None, 30])
def test_a_heap_of_columns_is_planned_in_its_own_unit(target: int | None) -> None:
    offers = [Proposal((i,), Action.DELETE, "stale") for i in range(3)]
    found = plan_from(Columns(target), "stale_code", offers)
    assert swept(found) == [("memory:1", "chunk:1.1"), ("memory:2", "chunk:2.1")]
    assert (found.size_before, found.size_after, found.unit) == (40, 32, Unit.NODES)
    assert (found.workspace, found.heap, found.fingerprint) == ("project", "graph", "v7")
    assert Blocker("read recently", 1, 4) in found.blockers
    assert found.cost == Cost(None)
    with pytest.raises(BadInput, match="nodes, not tokens"):
        _ = found.tokens_freed
