"""Law 2 on conversations: what goes out is valid for its provider, or no worse than the input."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marksweep.dialects import validate
from marksweep.testing.histories import valid
from tests.broken_histories import broken
from tests.laws.talking import (
    conversation,
    dialects,
    each_strategy,
    few,
    holding,
    holding_readable,
    raws,
    shares,
)


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_a_valid_history_is_valid_after_any_collection(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    talk = holding(data.draw(valid(dialect)), dialect, strategy)
    talk.collect(talk.plan(talk.tokens * share // 100))
    assert validate(raws(talk), dialect) == []


@each_strategy
@few
@given(data=st.data(), dialect=dialects, share=shares)
def test_a_broken_history_is_never_made_worse(
    strategy: Any, data: st.DataObject, dialect: str, share: int
) -> None:
    talk = holding_readable(data.draw(broken(dialect)), dialect, strategy)
    before = Counter(finding.rule for finding in validate(raws(talk), dialect))
    talk.collect(talk.plan(talk.tokens * share // 100))
    after = Counter(finding.rule for finding in validate(raws(talk), dialect))
    assert after <= before


@each_strategy
@few
@given(data=st.data(), dialect=dialects, shares=st.lists(shares, min_size=2, max_size=4))
def test_a_conversation_that_goes_on_between_collections_stays_valid(
    strategy: Any, data: st.DataObject, dialect: str, shares: list[int]
) -> None:
    messages = data.draw(valid(dialect, max_beats=16))
    talk = conversation(dialect, strategy)
    size = max(1, len(messages) // len(shares))
    for at, share in enumerate(shares):
        stop = (at + 1) * size if at < len(shares) - 1 else len(messages)
        talk.extend(messages[at * size : stop])
        before = validate(messages[:stop], dialect)
        talk.collect(talk.plan(talk.tokens * share // 100))
        assert len(validate(raws(talk), dialect)) <= len(before)
