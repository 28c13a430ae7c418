"""Law 6 on conversations: what was swept can be restored, to the last field and in its place."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marksweep.dialects import validate
from marksweep.errors import NotFound
from marksweep.stores.memory import MemoryStore
from marksweep.testing.histories import valid
from tests.broken_histories import broken
from tests.laws.talking import (
    another,
    conversation,
    dialects,
    each_strategy,
    few,
    holding,
    holding_readable,
    names,
    raws,
    shares,
)


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_undo_brings_everything_back_also_after_a_restart(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    messages = data.draw(valid(dialect))
    store = MemoryStore()
    talk = holding(messages, dialect, strategy, store=store)
    plan = talk.plan(talk.tokens * share // 100)
    talk.collect(plan)
    if data.draw(st.booleans()):
        talk = conversation(dialect, strategy, store=store)
    if plan.steps:
        talk.undo(plan.plan_id)
    assert raws(talk) == messages


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_a_broken_history_comes_back_as_broken_as_it_was(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    talk = holding_readable(data.draw(broken(dialect)), dialect, strategy)
    before = raws(talk)
    plan = talk.plan(talk.tokens * share // 100)
    talk.collect(plan)
    if plan.steps:
        talk.undo(plan.plan_id)
    assert raws(talk) == before


@each_strategy
@few
@given(data=st.data(), dialect=dialects, shares=st.lists(shares, min_size=2, max_size=4))
def test_sweeps_with_new_messages_between_them_are_undone_one_by_one(
    strategy: Any, data: st.DataObject, dialect: str, shares: list[int]
) -> None:
    messages = data.draw(valid(dialect, max_beats=16))
    talk = conversation(dialect, strategy)
    size = max(1, len(messages) // len(shares))
    plans: list[str] = []
    for at, share in enumerate(shares):
        stop = (at + 1) * size if at < len(shares) - 1 else len(messages)
        talk.extend(messages[at * size : stop])
        plan = talk.plan(talk.tokens * share // 100)
        talk.collect(plan)
        plans += [plan.plan_id] if plan.steps else []
    for plan_id in reversed(plans):
        talk.undo(plan_id)
    assert raws(talk) == messages


@given(
    data=st.data(),
    dialect=dialects,
    sweeps=st.lists(st.tuples(names, shares), min_size=2, max_size=4),
)
def test_sweeps_of_any_strategies_may_be_undone_in_any_order(
    data: st.DataObject, dialect: str, sweeps: list[tuple[str, int]]
) -> None:
    messages = data.draw(valid(dialect))
    limit = data.draw(st.sampled_from([10**9, 1]))
    talk = holding(messages, dialect, "truncate", limit=limit)
    plans: list[str] = []
    for name, share in sweeps:
        plan = talk.plan(talk.tokens * share // 100, strategy=another(talk, name))
        talk.collect(plan)
        plans += [plan.plan_id] if plan.steps else []
    for plan_id in data.draw(st.permutations(plans)):
        with contextlib.suppress(NotFound):
            talk.undo(plan_id)
        assert validate(raws(talk), dialect) == []
    assert raws(talk) == messages


@given(
    data=st.data(),
    dialect=dialects,
    sweeps=st.lists(st.tuples(names, shares), min_size=1, max_size=3),
)
def test_single_messages_come_back_with_the_rest_of_their_unit(
    data: st.DataObject, dialect: str, sweeps: list[tuple[str, int]]
) -> None:
    messages = data.draw(valid(dialect))
    store = MemoryStore()
    talk = holding(messages, dialect, "truncate", store=store)
    for name, share in sweeps:
        talk.collect(talk.plan(talk.tokens * share // 100, strategy=another(talk, name)))
    while (plan_id := talk.latest()) is not None:
        swept = [entry.segment.segment_id for entry in store.stash.of_plan(talk.workspace, plan_id)]
        talk.restore(data.draw(st.sampled_from(swept)))
        assert validate(raws(talk), dialect) == []
    assert raws(talk) == messages
