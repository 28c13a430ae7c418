"""Law 1 on conversations: what is pinned, locked, recent or unanswered is never changed."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marksweep.dialects import read
from marksweep.messages import Message, Role
from marksweep.testing.histories import valid
from tests.laws.talking import (
    conversation,
    dialects,
    each_strategy,
    few,
    holding,
    is_in_order,
    must_stay,
    pieces,
    shares,
)


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_what_the_next_request_needs_stays_and_the_order_is_kept(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    messages = data.draw(valid(dialect))
    given_as = copy.deepcopy(messages)
    talk = holding(messages, dialect, strategy)
    talk.collect(talk.plan(talk.tokens * share // 100))
    left = pieces(talk.history)
    assert not Counter(pieces(must_stay(messages, dialect))) - Counter(left)
    assert is_in_order(left, pieces(read(messages, dialect).messages))
    assert messages == given_as


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_pinned_messages_stay_whatever_they_belong_to(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    messages = data.draw(valid(dialect))
    talk = conversation(dialect, strategy)
    pins = data.draw(st.lists(st.booleans(), min_size=len(messages), max_size=len(messages)))
    for message, pin in zip(messages, pins, strict=True):
        talk.extend([message], pin=pin)
    talk.collect(talk.plan(talk.tokens * share // 100))
    found = read(messages, dialect).messages
    pinned = [message for message, pin in zip(found, pins, strict=True) if pin]
    assert not Counter(pieces(pinned)) - Counter(pieces(talk.history))


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares, turns=st.integers(1, 4))
def test_the_words_and_the_newest_exchange_of_the_most_recent_turns_stay(
    strategy: Any, data: st.DataObject, dialect: str, share: int, turns: int
) -> None:
    messages = data.draw(valid(dialect))
    talk = holding(messages, dialect, strategy, preserve_recent_turns=turns)
    talk.collect(talk.plan(talk.tokens * share // 100))
    recent = last_turns(read(messages, dialect).messages, turns)
    work = [m for m in recent if m.function_calls or m.function_responses]
    words = [m for m in recent if m not in work]
    calls = [m for m in work[-1:] if not m.function_responses]
    assert not Counter(pieces([*words, *calls])) - Counter(pieces(talk.history))
    answered = {result.call_id for m in talk.history for result in m.function_responses}
    assert {result.call_id for m in work[-1:] for result in m.function_responses} <= answered


LINE = '[marksweep: 5 messages left out (calls of read), 1,234 tokens; recall("m3")]'


@each_strategy
def test_a_line_that_is_pinned_or_first_of_all_stays_also_beside_what_goes(strategy: Any) -> None:
    said: list[Any] = [{"role": "user", "content": LINE}]
    said += [{"role": "assistant", "content": f"answer {n} " * 200} for n in range(3)]
    said += [{"role": "user", "content": LINE}]
    said += [{"role": "assistant", "content": f"more {n} " * 200} for n in range(3)]
    talk = holding(said, "anthropic", strategy)
    talk.pin("m5")
    talk.collect(talk.plan(0))
    assert [m.raw for m in talk.history if m.message_id in ("m1", "m5")] == [said[0], said[4]]


def last_turns(messages: tuple[Message, ...], count: int) -> tuple[Message, ...]:
    """Return the last turns. A turn begins at a user message that is not a result."""
    starts = [
        at for at, m in enumerate(messages) if m.role is Role.USER and not m.function_responses
    ]
    return messages[starts[-count] :] if len(starts) >= count else messages[starts[0] :]
