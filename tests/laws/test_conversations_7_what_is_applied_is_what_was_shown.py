"""Law 7 on conversations: a plan is applied as shown, or refused because the heap has changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.conversation import Conversation
from marksweep.errors import PlanOutdated
from marksweep.testing.histories import valid
from tests.laws.talking import dialects, each_strategy, few, holding, raws, shares

MOVES = {
    "a message came": lambda talk: talk.extend([{"role": "user", "content": "and?", "parts": []}]),
    "one was pinned": lambda talk: talk.pin("m1"),
    "another sweep": lambda talk: talk.collect(talk.plan(0)),
}


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares, move=st.sampled_from(sorted(MOVES)))
def test_a_plan_is_refused_once_the_conversation_has_changed(
    strategy: Any, data: st.DataObject, dialect: str, share: int, move: str
) -> None:
    talk = holding(data.draw(valid(dialect)), dialect, strategy)
    plan = talk.plan(talk.tokens * share // 100)
    before = talk._heap.fingerprint()
    MOVES[move](talk)
    if talk._heap.fingerprint() == before:
        return
    left = raws(talk)
    with pytest.raises(PlanOutdated):
        talk.collect(plan)
    assert raws(talk) == left


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_a_plan_that_was_shown_is_what_happens(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    talk = holding(data.draw(valid(dialect)), dialect, strategy)
    plan = talk.plan(talk.tokens * share // 100)
    talk.plan(0)
    before = live(talk)
    report = talk.collect(plan)
    named = {name for step in plan.steps for name in step.segments}
    stand_ins = {step.replacement.segment_id for step in plan.steps if step.replacement}
    assert set(report.swept) == named
    assert live(talk) == (before - named) | stand_ins


def live(talk: Conversation) -> set[str]:
    """Return the ids of the live messages."""
    return set(talk._heap.index.live)
