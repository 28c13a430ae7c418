"""Law 5 on conversations: a second collection right after the first changes nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.conversation import Conversation
from marksweep.core.budget import LONGEST_WAIT, Budget
from marksweep.messages import Message
from marksweep.model import Event
from marksweep.reading import tidy
from marksweep.testing.histories import Answered, Call, Said, Script, render_script, valid
from tests.laws.talking import (
    conversation,
    dialects,
    each_strategy,
    few,
    holding,
    raws,
    shares,
)


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_a_second_plan_for_the_same_target_is_empty(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    talk = holding(data.draw(valid(dialect)), dialect, strategy)
    target = talk.tokens * share // 100
    talk.collect(talk.plan(target))
    assert talk.plan(target).steps == ()


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=st.integers(1, 100))
def test_asking_for_the_messages_again_gives_the_same_messages(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    messages = data.draw(valid(dialect))
    whole = holding(messages, dialect, strategy).tokens
    talk = holding(messages, dialect, strategy, limit=max(1, whole * share // 100))
    asked = talk.messages
    assert [talk.messages for _ in range(3)] == [asked] * 3
    assert raws(talk) == asked


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_above_the_hard_limit_a_second_collection_changes_nothing(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    talk = holding(data.draw(valid(dialect)), dialect, strategy, budget=Budget.at_limit(0))
    target = talk.tokens * share // 100
    talk.collect(talk.plan(target))
    left = raws(talk)
    talk.collect(talk.plan(target))
    assert raws(talk) == left


@pytest.mark.parametrize("strategy", ["summarize", "hybrid"])
def test_above_the_hard_limit_what_was_summarised_is_never_left_with_nothing(strategy: str) -> None:
    talk = conversation("openai_chat", strategy, limit=8_000, budget=Budget.at_limit(8_000))
    talk.extend([{"role": "user", "content": "Mend the importer."}])
    for n in range(30):
        said = f"We decided to skip empty rows in part {n}, because they broke it. " * 8
        talk.extend([{"role": "assistant", "content": said}])
        talk.extend([{"role": "user", "content": f"Go on with part {n}."}])
        talk.collect_if_due()
        if sweeps(talk) and strategy == "summarize":
            assert len([1 for m in talk.history if "[Summary of" in m.text]) == 1
    assert sweeps(talk)
    assert talk.tokens <= 8_000


IN_A_LINE = re.compile(r'recall\(\\"m\d+')


def without_ids(message: Message) -> int:
    """Weigh a message whatever the ids in its lines: tidying again numbers the messages anew.

    A line that names m3 may be worth it where one that named m10 was not.
    """
    return sum(len(IN_A_LINE.sub("", json.dumps(part.raw))) for part in message.parts)


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=st.integers(1, 100))
def test_tidying_what_is_tidy_changes_nothing(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    messages = data.draw(valid(dialect))
    whole = holding(messages, dialect, strategy).tokens
    limit = max(1, whole * share // 100)
    once = tidy(messages, limit=limit, strategy=strategy, dialect=dialect, counter=without_ids)
    assert tidy(once, limit=limit, strategy=strategy, dialect=dialect, counter=without_ids) == once


FUTILE = 40


@pytest.mark.parametrize("strategy", ["mask", "superseded"])
def test_however_often_a_pass_was_futile_it_is_tried_again(strategy: str) -> None:
    """Below the limit, but over the hard limit: at first nothing is offered, later something is."""
    talk = conversation("openai_chat", strategy, limit=10_000, budget=Budget.of(10_000))
    talk.extend([{"role": "user", "content": "Go."}])
    talk.extend([{"role": "assistant", "content": "fix " * 2_400}])
    talk.extend([{"role": "assistant", "content": "Done."}])
    passes = [_passes(talk) for _ in range(FUTILE)]
    assert 1 < sum(passes) < FUTILE / 4
    assert not sweeps(talk)
    talk.extend(_bulky())
    for _ in range(LONGEST_WAIT):
        _passes(talk)
    assert sweeps(talk)


def sweeps(talk: Conversation) -> bool:
    return talk.store.journal.read(talk.workspace, events=(Event.SWEPT,)) != ()


def _passes(talk: Conversation) -> bool:
    """Add a little, and return whether a pass was made."""
    talk.extend([{"role": "user", "content": ""}], pin=True)
    was_due = talk.is_due
    talk.collect_if_due()
    assert not talk.is_due
    return was_due


def _bulky() -> list[Any]:
    """Make reads of one file; the last one is answered."""
    reads = [Answered(calls=(Call("read", {"path": "a.py"}, "row\n" * 200),)) for _ in range(5)]
    return render_script(Script((Said("go on"), *reads, Answered("done"))), "openai_chat")
