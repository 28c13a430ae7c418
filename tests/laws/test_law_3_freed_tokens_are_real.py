"""Law 3: before minus after, counted on the result, equals the sum of the steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.roots import Focus
from marksweep.core.strategy import Strategy
from marksweep.model import Pressure, Segment, Snapshot
from marksweep.segments import Segments
from marksweep.stores.memory import MemoryStore
from marksweep.testing.builders import Clock
from marksweep.testing.heaps import foci, segment_lists, snapshots, targets
from tests.laws.planning import every_strategy, kept_ids, plan_of


@every_strategy
@given(heap=snapshots(), target=targets, focus=foci())
def test_a_plan_frees_what_its_steps_say(
    strategy: Strategy, heap: Snapshot, target: int, focus: Focus
) -> None:
    plan = plan_of(heap, strategy, target, focus, Pressure.SOFT)
    kept = kept_ids(heap, plan)
    left = sum(segment.tokens for segment in heap.segments if segment.segment_id in kept)
    left += sum(step.replacement.tokens for step in plan.steps if step.replacement)
    assert plan.tokens_before == sum(segment.tokens for segment in heap.segments)
    assert plan.tokens_after == left
    assert plan.tokens_before - left == sum(step.size for step in plan.steps)
    assert all(step.size > 0 for step in plan.steps)


@given(segments=segment_lists(min_size=1), target=st.integers(0, 2000))
def test_a_sweep_frees_what_its_report_says(segments: list[Segment], target: int) -> None:
    heap = Segments(MemoryStore(), limit=10**9, clock=Clock())
    heap.add(*segments)
    before = sum(segment.tokens for segment in heap.list())
    plan = heap.plan(target_tokens=target)
    report = heap.collect(plan)
    after = sum(segment.tokens for segment in heap.list())
    assert (report.tokens_before, report.tokens_after) == (before, after)
    assert report.tokens_freed == before - after == sum(step.size for step in plan.steps)
    assert heap.tokens == after
