"""Laws 3 and 4 on conversations: freed tokens are real, and a plan stops at its target."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marksweep.testing.histories import valid
from tests.laws.talking import dialects, each_strategy, few, holding, shares, weigh


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_freed_tokens_are_counted_on_the_result_and_no_step_is_too_many(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    talk = holding(data.draw(valid(dialect)), dialect, strategy)
    before = sum(map(weigh, talk.history))
    target = before * share // 100
    plan = talk.plan(target)
    report = talk.collect(plan)
    after = sum(map(weigh, talk.history))
    assert plan.tokens_before == report.tokens_before == before
    assert plan.tokens_after == report.tokens_after == after == talk.tokens
    assert before - after == sum(step.size for step in plan.steps)
    assert all(step.size > 0 and step.reason for step in plan.steps)
    if plan.steps:
        last = plan.steps[-1]
        lines = [s.replacement.tokens for s in plan.steps if s.replacement and s.stand_in]
        joined = (len(last.segments) + 1) * max(lines, default=0)  # without it, more lines
        assert after + last.size + joined > target
    if after > target:
        assert plan.blockers
        assert sum(blocker.size for blocker in plan.blockers) == after
