"""Law 1: a root, a pinned or a LOCKED segment is never removed, not even to close a pair."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.roots import Focus
from marksweep.core.strategy import Strategy
from marksweep.model import GCPolicy, Pressure, Segment, Snapshot
from marksweep.testing.heaps import foci, snapshots, targets
from tests.laws.planning import every_strategy, kept_ids, pairs_of, plan_of


def must_stay(segment: Segment, focus: Focus) -> bool:
    """Return what must stay: a second implementation of the root rules."""
    return (
        segment.pinned
        or segment.policy is GCPolicy.LOCKED
        or (focus.task_id is not None and segment.task_id == focus.task_id)
        or (focus.active_file is not None and segment.file_path == focus.active_file)
        or segment.segment_id in focus.recent_messages
        or (segment.type == "decision" and segment.created_at >= focus.now - focus.recent_decisions)
        or "invariant" in segment.tags
    )


@every_strategy
@given(heap=snapshots(), target=targets, focus=foci(), pressure=st.sampled_from([*Pressure][1:]))
def test_what_must_stay_is_never_removed(
    strategy: Strategy, heap: Snapshot, target: int, focus: Focus, pressure: Pressure
) -> None:
    kept = kept_ids(heap, plan_of(heap, strategy, target, focus, pressure))
    for segment in heap.segments:
        if must_stay(segment, focus):
            assert segment.segment_id in kept


@every_strategy
@given(heap=snapshots(), target=targets, focus=foci())
def test_a_pair_is_never_split(
    strategy: Strategy, heap: Snapshot, target: int, focus: Focus
) -> None:
    kept = kept_ids(heap, plan_of(heap, strategy, target, focus, Pressure.HARD))
    for one, other in pairs_of(heap):
        assert (one in kept) == (other in kept)


@every_strategy
@given(heap=snapshots(), target=targets, focus=foci())
def test_preservable_stays_unless_the_pressure_is_high(
    strategy: Strategy, heap: Snapshot, target: int, focus: Focus
) -> None:
    kept = kept_ids(heap, plan_of(heap, strategy, target, focus, Pressure.SOFT))
    for segment in heap.segments:
        if segment.policy is GCPolicy.PRESERVABLE:
            assert segment.segment_id in kept
