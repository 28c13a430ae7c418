"""Law 4 on conversations: a plan stops at its target, or lists what blocks it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.laws import broken_laws
from marksweep.testing.histories import Answered, Call, Said, Script, render_script, valid
from tests.laws.talking import Raws, dialects, each_strategy, few, holding, shares


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


def with_results(*rows: int) -> Raws:
    """Make a history with results of so many rows, and answers of a few tokens."""
    read = [Answered(calls=(Call("read", {"path": "a.py"}, "one row\n" * n),)) for n in rows]
    ends = (Said("and"), Answered("ok"), Said("more"), Answered("done"))
    return render_script(Script((Said("go"), *read, *ends)), "openai_chat")


def test_nothing_is_swept_for_a_line_that_does_not_fit_even_then() -> None:
    talk = holding(with_results(500), "openai_chat", "truncate")
    read = sum(s.tokens for s in talk.context().segments[1:3])
    plan = talk.plan(talk.tokens - read)
    assert [step.segments for step in plan.steps] == [("m2", "m3")]


def test_one_more_unit_is_swept_for_a_line_that_fits_then() -> None:
    talk = holding(with_results(500, 900), "openai_chat", "truncate")
    read = sum(s.tokens for s in talk.context().segments[1:3])
    plan = talk.plan(talk.tokens - read)
    assert [step.segments for step in plan.steps] == [("m2", "m3"), ("m4", "m5")]
    assert all(step.stand_in for step in plan.steps)
