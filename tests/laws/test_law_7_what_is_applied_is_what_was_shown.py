"""Law 7: `collect(plan)` applies exactly the plan, and refuses it if the heap has changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.collector import decide
from marksweep.core.laws import broken_laws
from marksweep.core.roots import BY_NAME
from marksweep.errors import NotConfirmed, PlanOutdated
from marksweep.model import Pressure, Segment
from marksweep.segments import Segments
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.chosen import Chosen
from marksweep.strategies.scored import Disposal
from marksweep.testing.builders import Clock, segment
from marksweep.testing.heaps import segment_lists


def heap_of(*segments: Segment) -> Segments:
    heap = Segments(MemoryStore(), limit=10**9, clock=Clock())
    heap.add(*segments)
    return heap


@given(segments=segment_lists(min_size=1), target=st.integers(0, 2000))
def test_exactly_the_planned_segments_go(segments: list[Segment], target: int) -> None:
    heap = heap_of(*segments)
    before = {s.segment_id for s in heap.list()}
    plan = heap.plan(target_tokens=target)
    assert {s.segment_id for s in heap.list()} == before
    heap.collect(plan)
    shown = {name for step in plan.steps for name in step.segments}
    assert {s.segment_id for s in heap.list()} == before - shown


@given(segments=segment_lists(min_size=1), chosen=st.sets(st.integers(0, 24), max_size=6))
def test_a_plan_among_named_segments_is_the_one_that_looks_at_all(
    segments: list[Segment], chosen: set[int]
) -> None:
    heap = heap_of(*segments)
    names = [f"s{n}" for n in sorted(chosen) if n < len(segments)]
    part = heap.plan_for(names)
    whole = decide(
        heap._heap.snapshot(),
        Chosen(names),
        None,
        heap.current_focus(),
        pressure=Pressure.HARD,
        rules=BY_NAME,
    )
    assert part.steps == whole.steps
    assert (part.tokens_before, part.tokens_after) == (whole.tokens_before, whole.tokens_after)
    assert part.fingerprint == whole.fingerprint
    assert (part.target_size, part.blockers) == (whole.target_size, whole.blockers)
    assert broken_laws(heap._heap.part(names), {}, part) == ()


def touch_later(heap: Segments) -> None:
    heap._clock.advance(hours=1)  # type: ignore[attr-defined]
    heap.touch("a")


MOVES: dict[str, Callable[[Segments], object]] = {
    "add": lambda heap: heap.add(segment("new")),
    "touch": touch_later,
    "link": lambda heap: heap.link("a", "b"),
    "pin": lambda heap: heap.pin("a", by="me"),
    "collect": lambda heap: heap.collect(heap.plan_for(["b"])),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())
def test_a_plan_is_refused_after_any_change(move: Callable[[Segments], object]) -> None:
    heap = heap_of(*(segment(name) for name in "abc"))
    plan = heap.plan(target_tokens=0)
    move(heap)
    before = heap.list()
    with pytest.raises(PlanOutdated, match=plan.plan_id):
        heap.collect(plan)
    assert heap.list() == before


def test_a_plan_is_refused_after_a_change_by_another_handle() -> None:
    store = MemoryStore()
    one = Segments(store, limit=10**9, clock=Clock())
    one.add(segment("a"), segment("b"))
    plan = one.plan(target_tokens=0)
    Segments(store, limit=10**9, clock=Clock()).add(segment("c"))
    with pytest.raises(PlanOutdated):
        one.collect(plan)


def test_a_plan_can_be_saved_and_collected_by_its_id() -> None:
    store = MemoryStore()
    one = Segments(store, limit=10**9, clock=Clock())
    one.add(segment("a"), segment("b"))
    plan = one.plan(target_tokens=10)
    one.save(plan)
    other = Segments(store, limit=10**9, clock=Clock())
    assert other.collect(plan.plan_id).swept == tuple(plan.steps[0].segments)


def test_a_deletion_needs_the_plans_id() -> None:
    heap = heap_of(segment("a", type="log", hours_old=24 * 30))
    plan = heap.plan(target_tokens=0, disposal=Disposal.AUTO)
    assert plan.deletes
    for wrong in ("", "yes", "plan-0"):
        with pytest.raises(NotConfirmed):
            heap.collect(plan, confirm=wrong)
    assert heap.get("a") is not None
    heap.collect(plan, confirm=plan.plan_id)
    assert heap.get("a") is None
