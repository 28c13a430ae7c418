"""Laws: guarantees about a plan, for the tests of every heap and strategy, including yours.

The checks recompute from the snapshot; they do not ask the planner what it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from marksweep.core.context import Yield
from marksweep.model import IN_PLACE, GCPolicy, Hold, Plan, Snapshot


def broken_laws(
    snapshot: Snapshot,
    roots: Mapping[str, str],
    plan: Plan,
    *,
    yields: Mapping[str, Yield] = MappingProxyType({}),
    limit: int | None = None,
) -> tuple[str, ...]:
    """Describe every law that the plan breaks; empty if it keeps them all.

    `roots` maps the ids that must stay to their reasons, `yields` says how far some of them yield
    to fit the `limit`. The snapshot may be a part of a heap.
    """
    return (
        *_roots_stay(snapshot, roots, yields, plan),
        *_words_go_last(yields, limit, plan),
        *_pairs_stay_together(snapshot, plan),
        *_sizes_are_real(snapshot, plan),
        *_stops_at_the_target(plan),
        *_belongs_to_the_snapshot(snapshot, plan),
    )


def _roots_stay(
    snapshot: Snapshot, roots: Mapping[str, str], yields: Mapping[str, Yield], plan: Plan
) -> Iterator[str]:
    held = dict(roots)
    for segment in snapshot.segments:
        if segment.pinned:
            held[segment.segment_id] = "pinned"
        elif segment.policy == GCPolicy.LOCKED:
            held[segment.segment_id] = "locked"
    for step in plan.steps:
        for segment_id in step.segments:
            yielding = yields.get(segment_id, 0)
            if segment_id in held and yielding < (1 if step.action in IN_PLACE else Yield.LAST):
                yield f"{segment_id} must stay ({held[segment_id]}) and would be swept"


def _words_go_last(yields: Mapping[str, Yield], limit: int | None, plan: Plan) -> Iterator[str]:
    """The user's words go only if nothing else would make the rest fit, and then after all else."""
    going = [
        n
        for n, step in enumerate(plan.steps)
        if step.action not in IN_PLACE
        and any(yields.get(name) is Yield.LAST for name in step.segments)
    ]
    if not going:
        return
    if limit is None:
        yield "the user's words would go, and no limit asks for it"
    elif sum([step.size for step in plan.steps[going[0] :]]) + plan.size_after <= limit:
        yield "the user's words would go, and the rest would fit without"


def _pairs_stay_together(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    present = {segment.segment_id for segment in snapshot.segments}
    step_of = {
        segment_id: n
        for n, step in enumerate(plan.steps)
        if step.action not in IN_PLACE
        for segment_id in step.segments
    }
    for segment in snapshot.segments:
        for reference in segment.all_references:
            if reference.hold != Hold.PAIRED or reference.target not in present:
                continue
            if step_of.get(segment.segment_id) != step_of.get(reference.target):
                yield f"the pair {segment.segment_id} and {reference.target} would be split"


def _sizes_are_real(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    unit, rest = plan.unit, snapshot.rest_size or 0
    if unit is not snapshot.unit:
        yield f"the plan counts {unit}, the heap {snapshot.unit}"
    sizes = {segment.segment_id: segment.tokens for segment in snapshot.segments}
    before = sum(sizes.values()) + rest
    if plan.size_before != before:
        yield f"the plan says {plan.size_before} {unit} before; there are {before}"
    left = dict(sizes)
    added = 0
    for step in plan.steps:
        freed = sum(left.pop(segment_id, 0) for segment_id in step.segments)
        if step.replacement is not None:
            freed -= step.replacement.tokens
            added += step.replacement.tokens
        if freed != step.size:
            yield f"a step says it frees {step.size} {unit}; it frees {freed}"
    after = sum(left.values()) + added + rest
    if plan.size_after != after:
        yield f"the plan says {plan.size_after} {unit} after; there would be {after}"


def _stops_at_the_target(plan: Plan) -> Iterator[str]:
    if plan.steps and plan.steps[-1].size > 0:
        last = plan.steps[-1]
        lines = [s.replacement.tokens for s in plan.steps if s.replacement and s.stand_in]
        joined = (len(last.segments) + 1) * max(lines, default=0)  # lines that it made unnecessary
        before_last = plan.size_after + last.size + joined
        if before_last <= plan.target_size:
            yield f"the last step was not needed: {before_last} {plan.unit} were under the target"
    if plan.short_by and not plan.blockers:
        yield f"the plan is {plan.short_by} {plan.unit} short and does not say why"


def _belongs_to_the_snapshot(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    if plan.fingerprint != snapshot.fingerprint:
        yield "the plan was made from another snapshot"
