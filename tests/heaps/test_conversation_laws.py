"""The laws on random conversations: every dialect, every strategy, random budgets."""

from __future__ import annotations

import contextlib
import copy
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.conversation import Conversation
from marksweep.dialects import read, validate
from marksweep.errors import NotFound
from marksweep.messages import Message, Role
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.mask import Mask
from marksweep.strategies.truncate import Truncate
from marksweep.testing.histories import broken, valid

PROVIDERS = ["openai_chat", "openai_responses", "anthropic", "gemini"]
STRATEGIES: list[Any] = ["truncate", "mask", "superseded", ("superseded", "mask", "truncate")]

each_dialect = pytest.mark.parametrize("dialect", PROVIDERS)
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
shares = st.integers(0, 100)


def weigh(message: Message) -> int:
    """Weigh what a message holds, so that joined messages weigh as much as apart."""
    return sum(len(json.dumps(part.raw)) for part in message.parts)


def conversation(messages: list[Any], dialect: str, strategy: Any) -> Conversation:
    talk = Conversation(limit=10**9, dialect=dialect, strategy=strategy, counter=weigh)
    talk.extend(messages)
    return talk


def raws(talk: Conversation) -> list[Any]:
    return [message.raw for message in talk.history]


def must_stay(messages: list[Any], dialect: str) -> tuple[list[Any], list[Any]]:
    """The first request with the system prompt, and what the model has not answered."""
    read_messages = read(messages, dialect).messages
    front = [m.raw for m in read_messages if m.role is Role.SYSTEM]
    front += [next(m.raw for m in read_messages if m.role is Role.USER)]
    answers = [i for i, m in enumerate(read_messages) if m.role is Role.MODEL]
    last = answers[-1] if answers else len(read_messages) - 1
    return front, [m.raw for m in read_messages[last:]]


@each_dialect
@each_strategy
@given(data=st.data(), share=shares)
def test_after_any_collection_the_history_is_valid_and_what_must_stay_is_there(
    dialect: str, strategy: Any, data: st.DataObject, share: int
) -> None:
    messages = data.draw(valid(dialect))
    before = copy.deepcopy(messages)
    talk = conversation(messages, dialect, strategy)
    plan = talk.plan(talk.tokens * share // 100)
    talk.collect(plan)
    left = raws(talk)
    assert validate(left, dialect) == []
    assert messages == before
    front, tail = must_stay(messages, dialect)
    assert all(raw in left for raw in front)
    if dialect == "gemini":
        tail = tail[1:]
    assert tail == left[len(left) - len(tail) :]


@each_dialect
@each_strategy
@given(data=st.data(), share=shares)
def test_freed_tokens_are_real_and_no_step_is_too_many(
    dialect: str, strategy: Any, data: st.DataObject, share: int
) -> None:
    talk = conversation(data.draw(valid(dialect)), dialect, strategy)
    before = sum(map(weigh, talk.history))
    target = before * share // 100
    plan = talk.plan(target)
    report = talk.collect(plan)
    after = sum(map(weigh, talk.history))
    assert plan.tokens_before == report.tokens_before == before
    assert plan.tokens_after == report.tokens_after == after == talk.tokens
    assert before - after == sum(step.tokens for step in plan.steps)
    if plan.steps:
        assert after + plan.steps[-1].tokens > target or after > target
    if after > target:
        assert plan.kept


@each_dialect
@each_strategy
@given(data=st.data(), share=shares)
def test_a_second_collection_changes_nothing_and_undo_brings_everything_back(
    dialect: str, strategy: Any, data: st.DataObject, share: int
) -> None:
    messages = data.draw(valid(dialect))
    talk = conversation(messages, dialect, strategy)
    target = talk.tokens * share // 100
    plan = talk.plan(target)
    talk.collect(plan)
    assert talk.plan(target).steps == ()
    if plan.steps:
        talk.undo(plan.plan_id)
    assert raws(talk) == messages


@each_dialect
@each_strategy
@given(data=st.data(), share=shares)
def test_a_broken_history_is_never_made_worse(
    dialect: str, strategy: Any, data: st.DataObject, share: int
) -> None:
    talk = conversation(data.draw(broken(dialect)), dialect, strategy)
    before = Counter(finding.rule for finding in validate(raws(talk), dialect))
    talk.collect(talk.plan(talk.tokens * share // 100))
    after = Counter(finding.rule for finding in validate(raws(talk), dialect))
    assert after <= before


@each_dialect
@given(data=st.data(), cuts=st.lists(st.integers(0, 40), max_size=4))
def test_messages_one_by_one_make_the_same_conversation_as_all_at_once(
    dialect: str, data: st.DataObject, cuts: list[int]
) -> None:
    """Also when the program is started again in between."""
    messages = data.draw(valid(dialect))
    whole = conversation(messages, dialect, "truncate")
    store = MemoryStore()
    talk = Conversation(
        limit=10**9, dialect=dialect, strategy="truncate", counter=weigh, store=store
    )
    for at, message in enumerate(messages):
        if at in cuts:
            talk = Conversation(
                limit=10**9, dialect=dialect, strategy="truncate", counter=weigh, store=store
            )
        talk.extend([message])
    assert raws(talk) == messages
    assert _decisions(talk) == _decisions(whole)


def _decisions(talk: Conversation) -> list[Any]:
    return [(step.segments, step.tokens, step.reason) for step in talk.plan(0).steps]


@each_dialect
@each_strategy
@given(data=st.data(), shares=st.lists(shares, min_size=2, max_size=4))
def test_a_conversation_that_goes_on_between_collections_stays_valid(
    dialect: str, strategy: Any, data: st.DataObject, shares: list[int]
) -> None:
    messages = data.draw(valid(dialect, max_beats=16))
    talk = Conversation(limit=10**9, dialect=dialect, strategy=strategy, counter=weigh)
    size = max(1, len(messages) // len(shares))
    plans: list[str] = []
    for at, share in enumerate(shares):
        stop = (at + 1) * size if at < len(shares) - 1 else len(messages)
        talk.extend(messages[at * size : stop])
        before = validate(messages[:stop], dialect)
        plan = talk.plan(talk.tokens * share // 100)
        talk.collect(plan)
        plans += [plan.plan_id] if plan.steps else []
        assert len(validate(raws(talk), dialect)) <= len(before)
    for plan_id in reversed(plans):
        talk.undo(plan_id)
    assert raws(talk) == messages


@each_dialect
@given(data=st.data(), shares=st.lists(shares, min_size=2, max_size=4))
def test_plans_may_be_undone_in_any_order(
    dialect: str, data: st.DataObject, shares: list[int]
) -> None:
    messages = data.draw(valid(dialect))
    talk = conversation(messages, dialect, "truncate")
    plans: list[str] = []
    for share in shares:
        chosen = data.draw(st.sampled_from(["mask all", "truncate"]))
        plan = talk.plan(talk.tokens * share // 100, strategy=_strategy(talk, chosen))
        talk.collect(plan)
        plans += [plan.plan_id] if plan.steps else []
    for plan_id in data.draw(st.permutations(plans)):
        with contextlib.suppress(NotFound):
            talk.undo(plan_id)
        assert validate(raws(talk), dialect) == []
    assert raws(talk) == messages


def _strategy(talk: Conversation, name: str) -> Any:
    if name == "truncate":
        return Truncate()
    return Mask(talk._heap.outcomes, talk._heap.masked, bulky=80, spare=0)
