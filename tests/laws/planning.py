"""Helpers for the laws about plans: every strategy, on the same heaps."""

from __future__ import annotations

import msgspec
import pytest

from marksweep.collector import decide
from marksweep.core.roots import Focus
from marksweep.core.score import seed_retention
from marksweep.core.strategy import Strategy
from marksweep.model import Hold, Link, Plan, Pressure, Reference, Segment, Snapshot
from marksweep.strategies.garbage import Garbage
from marksweep.strategies.scored import Disposal, Scored


def shorten(segment: Segment) -> Segment:
    """Shorten a segment to a third of its tokens."""
    return msgspec.structs.replace(
        segment,
        segment_id=segment.segment_id + "~1",
        tokens=segment.tokens // 3,
        references=(*segment.references, Reference(segment.segment_id, Link.DERIVED)),
    )


STRATEGIES: dict[str, Strategy] = {
    "scored": Scored(),
    "retention": Scored(seed_retention),
    "compressing": Scored(shorten=shorten),
    "deleting": Scored(disposal=Disposal.AUTO),
    "garbage": Garbage(),
}
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES.keys())


def plan_of(
    heap: Snapshot, strategy: Strategy, target: int, focus: Focus, pressure: Pressure
) -> Plan:
    return decide(heap, strategy, target, focus, pressure=pressure)


def kept_ids(heap: Snapshot, plan: Plan) -> set[str]:
    """Return what is left in the heap, from the plan's steps alone."""
    swept = {segment_id for step in plan.steps for segment_id in step.segments}
    return {segment.segment_id for segment in heap.segments} - swept


def pairs_of(heap: Snapshot) -> list[tuple[str, str]]:
    """Find the pairs from the segments' own references."""
    present = {segment.segment_id for segment in heap.segments}
    return [
        (segment.segment_id, reference.target)
        for segment in heap.segments
        for reference in segment.references
        if reference.hold is Hold.PAIRED and reference.target in present
    ]
