"""A turn: one definition for conversations, the ledger and GC plugins."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep import Conversation
from marksweep.dialects import read
from marksweep.ledger import InstructionBudget, InstructionSource
from marksweep.messages import (
    InlineData,
    Message,
    Part,
    Role,
    ToolResult,
    has_words_beside_results,
    starts_turn,
    turn_number,
)
from marksweep.testing.histories import valid

DIALECTS = ["openai_chat", "openai_responses", "anthropic", "gemini"]


def user(*parts: Part, id_: str = "u") -> Message:
    return Message(Role.USER, parts, id_)


PICTURE = Part(inline_data=InlineData("image/gif", "R0lGODlh"))
RESULT = Part(function_response=ToolResult("c", "run", "out"))


@pytest.mark.parametrize(
    ("message", "starts"),
    [
        (user(Part(text="do it")), True),
        (user(PICTURE), True),
        (user(Part(raw={"type": "new_block"})), True),
        (user(RESULT), False),
        (user(RESULT, Part(text="and hurry")), False),
        (user(Part(text="so far"), id_="gc_summary_3"), False),
        (user(Part(text="[gc_notice_1] 3 parts were removed")), False),
        (Message(Role.MODEL, (Part(text="done"),)), False),
        (Message(Role.TOOL, (RESULT,)), False),
        (Message(Role.SYSTEM, (Part(text="be good"),)), False),
    ],
)
def test_a_turn_starts_at_what_the_user_typed(message: Message, starts: bool) -> None:
    assert starts_turn(message) is starts


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (user(RESULT, Part(text="and hurry")), True),
        (user(Part(text="<b>now</b>, please"), RESULT), True),
        (user(RESULT, Part(text="<reminder>use the list"), PICTURE), True),
        (user(RESULT), False),
        (user(RESULT, PICTURE, Part(text="\n")), False),
        (user(RESULT, Part(text='\n<system-reminder a="1">\nuse it\n</system-reminder>\n')), False),
        (user(RESULT, Part(text="<a-" * 50_000)), True),
        (user(Part(text="do it")), False),
        (Message(Role.MODEL, (RESULT, Part(text="done"))), False),
    ],
)
def test_what_the_user_says_beside_results_is_found_and_a_reminder_in_tags_is_not_that(
    message: Message, says: bool
) -> None:
    assert has_words_beside_results(message) is says


def turns_of_ledger(messages: tuple[Message, ...]) -> dict[str, str]:
    """Return the turn of each message according to the ledger; locked messages have none there."""
    budget = InstructionBudget.create_default(10**6)
    budget.follow(lambda: messages, lambda _: 1)
    entry = budget.get_entry(InstructionSource.CONVERSATION)
    assert entry is not None
    return {
        id_: key.partition(".")[0]
        for key, child in entry.children.items()
        if not key.startswith(("system_", "original_request"))
        for id_ in child.message_ids
    }


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_conversation_and_ledger_number_the_same_turns(dialect: str, data: st.DataObject) -> None:
    history: list[Any] = data.draw(valid(dialect, 8))
    talk = Conversation(limit=10**9, dialect=dialect)
    names = talk.extend(history)
    segments = {s.segment_id: s for s in talk._heap.snapshot().segments}
    ledger = turns_of_ledger(read(history, dialect, start=1).messages)
    assert {name: segments[name].topic_id for name in names if name in ledger} == ledger


@pytest.mark.parametrize("text", [f"[gc_summary_{'9' * 5_000}] x", "[gc_notice_²] x"])
def test_a_number_that_nobody_counted_to_is_only_text(text: str) -> None:
    assert starts_turn(Message.from_text(Role.USER, text))
    assert turn_number(f"turn_{'9' * 5_000}") == turn_number("turn_²") == -1
