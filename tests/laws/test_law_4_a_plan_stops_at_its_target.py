"""Law 4: a plan stops at its target, or lists what blocks it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.plan import MAX_BLOCKERS
from marksweep.core.roots import Focus
from marksweep.core.strategy import Strategy
from marksweep.model import Pressure, Snapshot
from marksweep.strategies.scored import Scored
from marksweep.testing.heaps import foci, snapshots, targets
from tests.laws.planning import every_strategy, plan_of


@every_strategy
@given(heap=snapshots(), target=targets, focus=foci())
def test_it_never_overshoots_by_more_than_its_last_unit(
    strategy: Strategy, heap: Snapshot, target: int, focus: Focus
) -> None:
    plan = plan_of(heap, strategy, target, focus, Pressure.SOFT)
    if plan.steps:
        assert plan.tokens_after + plan.steps[-1].size > target
    if plan.tokens_before <= target:
        assert plan.steps == ()


@every_strategy
@given(heap=snapshots(), target=targets, focus=foci())
def test_if_it_falls_short_it_says_what_blocks_it(
    strategy: Strategy, heap: Snapshot, target: int, focus: Focus
) -> None:
    plan = plan_of(heap, strategy, target, focus, Pressure.SOFT)
    if plan.tokens_after > target:
        assert plan.short_by == plan.tokens_after - target
        assert plan.blockers
        named = sum(blocker.size for blocker in plan.blockers)
        if len(plan.blockers) < MAX_BLOCKERS:
            assert named == plan.size_after
        assert named <= plan.size_after
    else:
        assert plan.short_by == 0
        assert plan.blockers == ()


@given(heap=snapshots(), focus=foci(), pressure=st.sampled_from([*Pressure][1:]))
def test_scored_takes_all_that_may_go_before_it_says_it_cannot(
    heap: Snapshot, focus: Focus, pressure: Pressure
) -> None:
    plan = plan_of(heap, Scored(), 0, focus, pressure)
    assert "not offered by the strategy" not in {blocker.reason for blocker in plan.blockers}
