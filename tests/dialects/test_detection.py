from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from marksweep import tidy
from marksweep.dialects import detect, dialect_named, read, repair, validate, write
from marksweep.errors import BadInput, UnknownName
from marksweep.testing.histories import Answered, Call, Said, Script, told

SCRIPT = Script((Said("hi"), Answered(calls=(Call("f", {}, "1"),)), Answered("done")))


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
def test_a_history_with_calls_tells_its_dialect(dialect: str) -> None:
    assert detect(told(SCRIPT, dialect)) == dialect


def test_plain_text_is_taken_for_chat_completions() -> None:
    assert detect([{"role": "user", "content": "hi"}]) == "openai_chat"
    assert detect([]) == "openai_chat"


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        ({"contents": []}, "gemini"),
        ({"input": "hi"}, "openai_responses"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "openai_chat"),
        ({"messages": [{"role": "user", "content": "hi"}], "system": "x"}, "anthropic"),
        ({"messages": [], "tools": [{"name": "f", "input_schema": {}}]}, "anthropic"),
    ],
)
def test_a_request_tells_its_dialect(body: dict[str, Any], dialect: str) -> None:
    assert detect(body) == dialect


@pytest.mark.parametrize(
    ("given", "told_of"),
    [
        ([{"role": "tool"}, {"parts": []}], "marks of gemini and openai_chat"),
        ([{"nothing": "known"}], "no known marks"),
        ({"prompt": "hi"}, "a request with prompt"),
    ],
)
def test_what_cannot_be_told_is_an_error_that_says_what_was_looked_for(
    given: Any, told_of: str
) -> None:
    with pytest.raises(BadInput, match=told_of) as caught:
        detect(given)
    assert "gemini" in str(caught.value)


@pytest.mark.parametrize("odd", [{}, [], ["a"], 7, None, True])
def test_a_kind_that_is_no_word_does_not_hide_the_marks_of_the_rest(odd: Any) -> None:
    strange = [
        {"type": odd, "payload": odd, "role": odd, "content": [{"type": odd}]},
        {"role": "user", "content": odd},
    ]
    assert detect([*told(SCRIPT, "anthropic"), *strange]) == "anthropic"


def test_an_unknown_dialect_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(UnknownName, match="known are openai_chat"):
        dialect_named("cobol")


@pytest.mark.parametrize("ask", [read, validate, repair, detect, partial(tidy, limit=10)])
@pytest.mark.parametrize("given", [7, None])
def test_what_is_no_list_is_an_error_that_says_so(ask: Any, given: Any) -> None:
    with pytest.raises(BadInput, match=f"{type(given).__name__} where messages were expected"):
        ask(given)


def test_a_text_alone_is_what_the_user_says() -> None:
    assert [message.text for message in read("hi").messages] == ["hi"]


def test_what_cannot_be_read_is_told_and_kept_until_it_is_repaired() -> None:
    messages = [{"role": "user", "content": "hi"}, None, {"role": "banana"}, {"role": "assistant"}]
    history = read(messages)
    assert [skipped.position for skipped in history.skipped] == [1, 2]
    assert "banana" in history.skipped[1].reason
    assert write(history) == messages
    assert [f.rule for f in validate(messages)] == ["readable", "readable", "content-present"]
    assert [f.position for f in validate(messages)] == [1, 2, 3]
    mended, changes = repair(messages)
    assert mended == [messages[0], {"role": "assistant", "content": ""}]
    assert [change.rule for change in changes] == ["readable", "readable", "content-present"]


class Model:
    """Stands for what an SDK returns."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, Any]:
        assert (mode, exclude_unset) == ("json", True)
        return self.fields


def test_objects_of_an_sdk_are_read_too() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi"},
        Model(role="assistant", content=None, tool_calls=[call]),
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]
    assert validate(messages) == []
    blocks = [Model(type="tool_use", id="a", name="f", input={})]
    assert validate([messages[0], {"role": "assistant", "content": blocks}], "anthropic") == []


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
def test_every_rule_has_a_name_of_its_own_a_source_and_advice(dialect: str) -> None:
    rules = dialect_named(dialect).rules
    assert len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.provider == dialect
        assert "https://" in rule.source
        assert rule.advice.endswith(".")
