"""Law 4 on conversations: a plan stops at its target, or lists what blocks it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.laws import broken_laws
from marksweep.testing.histories import valid
from tests.laws.talking import dialects, each_strategy, few, holding, shares


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_a_plan_keeps_every_law_about_plans(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    talk = holding(data.draw(valid(dialect)), dialect, strategy)
    target = talk.tokens * share // 100
    context = talk.context(target)
    names = [segment.segment_id for segment in context.segments]
    roots = {names[i]: reason for i, reason in context.roots.items()}
    yields = {names[i]: far for i, far in context.yields.items()}
    limit = talk.budget.limit
    plan = talk.plan(target)
    assert plan.target_size == target
    assert broken_laws(context.snapshot, roots, plan, yields=yields, limit=limit) == ()
    assert bool(plan.blockers) == (plan.size_after > target)
