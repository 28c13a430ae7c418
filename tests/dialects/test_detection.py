from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from marksweep import Conversation, Fit, tidy
from marksweep.dialects import detect, dialect_named, read, repair, validate, write
from marksweep.errors import BadInput, UnknownName, UnreadableWarning
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

SCRIPT = Script((Said("hi"), Answered(calls=(Call("f", {}, "1"),)), Answered("done")))


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
def test_the_dialect_of_a_history_with_calls_is_detected(dialect: str) -> None:
    assert detect(render_script(SCRIPT, dialect)) == dialect


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
def test_the_dialect_of_a_request_is_detected(body: dict[str, Any], dialect: str) -> None:
    assert detect(body) == dialect


@pytest.mark.parametrize(
    ("given", "told_of"),
    [
        ([{"role": "tool"}, {"parts": []}], "marks of gemini and openai_chat"),
        ([{"nothing": "known"}], "no known marks"),
        ({"prompt": "hi"}, "a request with prompt"),
    ],
)
def test_what_cannot_be_detected_is_an_error_that_says_what_was_looked_for(
    given: Any, told_of: str
) -> None:
    with pytest.raises(BadInput, match=told_of) as caught:
        detect(given)
    assert "gemini" in str(caught.value)


@pytest.mark.parametrize("odd", [{}, [], ["a"], 7, None, True])
def test_a_type_that_is_not_a_string_does_not_hide_the_marks_of_the_rest(odd: Any) -> None:
    strange = [
        {"type": odd, "payload": odd, "role": odd, "content": [{"type": odd}]},
        {"role": "user", "content": odd},
    ]
    assert detect([*render_script(SCRIPT, "anthropic"), *strange]) == "anthropic"


def test_an_unknown_dialect_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(UnknownName, match="known are openai_chat"):
        dialect_named("cobol")


@pytest.mark.parametrize("ask", [read, validate, repair, detect, partial(tidy, limit=10)])
@pytest.mark.parametrize("given", [7, None])
def test_what_is_not_a_list_is_an_error_that_says_so(ask: Any, given: Any) -> None:
    with pytest.raises(BadInput, match=f"{type(given).__name__} where messages were expected"):
        ask(given)


def test_a_bare_string_is_a_user_message() -> None:
    assert [message.text for message in read("hi").messages] == ["hi"]


def test_what_cannot_be_read_is_reported_and_kept_until_it_is_repaired() -> None:
    messages = [{"role": "user", "content": "hi"}, None, {"role": "banana"}, {"role": "assistant"}]
    history = read(messages)
    assert [skipped.position for skipped in history.skipped] == [1, 2]
    assert "banana" in history.skipped[1].reason
    assert write(history) == messages
    assert [f.rule for f in validate(messages)] == ["readable", "readable", "content-present"]
    assert [f.position for f in validate(messages)] == [1, 2, 3]
    repaired, changes = repair(messages)
    assert repaired == [messages[0], {"role": "assistant", "content": ""}]
    assert [change.rule for change in changes] == ["readable", "readable", "content-present"]


class Model:
    """A stand-in for an object that an SDK returns."""

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


def test_objects_of_an_sdk_are_read_at_any_depth_and_come_back_as_json() -> None:
    said = Model(type="text", text="what a server of tools answered")
    result = {"type": "tool_result", "tool_use_id": "a", "content": (said,)}
    messages = [
        {"role": "user", "content": "hi", "at": datetime(2026, 6, 1, tzinfo=UTC)},
        {"role": "assistant", "content": [Model(type="tool_use", id="a", name="f", input={})]},
        {"role": "user", "content": [result]},
    ]
    talk = Conversation(limit=100_000)
    talk.extend(messages)
    assert talk.messages[0]["at"] == "2026-06-01T00:00:00Z"
    assert talk.messages[2]["content"][0]["content"] == [said.fields]
    assert [kept.message for kept in Conversation(limit=100_000).follow(messages)] == messages
    again = Conversation.from_state(talk.state(), limit=100_000)
    assert again.messages == talk.messages


def test_bytes_are_read_as_base64_and_come_back_so_after_a_restart() -> None:
    blob = {"mime_type": "audio/wav", "data": bytes(90_000)}
    talk = Conversation(limit=100_000)
    talk.extend([{"role": "user", "parts": [{"inline_data": blob}]}])
    assert talk.messages[0]["parts"][0]["inline_data"]["data"] == "AAAA" * 30_000
    assert talk.tokens > 120_000 // 32
    assert Conversation.from_state(talk.state(), limit=100_000).messages == talk.messages


def deeply(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("odd", [object(), deeply(2_000)], ids=["an object", "nested too deeply"])
def test_a_message_that_is_not_json_is_skipped_and_stays_in_place(odd: Any) -> None:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello", "odd": odd},
        {"role": "user", "content": "bye"},
    ]
    with pytest.warns(UnreadableWarning, match="1 of 3"):
        assert tidy(messages, limit=1) == messages
    talk = Conversation(limit=100_000)
    with pytest.warns(UnreadableWarning, match="1 of 3"):
        kept = talk.follow(messages)
    assert [each.message for each in kept] == messages
    assert [each.message for each in talk.follow(messages)] == messages
    with pytest.raises(BadInput, match="none of 1"):
        Conversation(limit=100_000).extend(messages[1:2])
    with pytest.warns(UnreadableWarning, match="1 of 3"):
        assert Fit(limit=100_000)(messages) == messages


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
def test_every_rule_has_a_unique_name_a_source_and_advice(dialect: str) -> None:
    rules = dialect_named(dialect).rules
    assert len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        assert "https://" in rule.source
        assert rule.advice.endswith(".")


SERVER_ITEMS = [
    {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}},
    {"type": "file_search_call", "id": "fs", "status": "completed", "queries": ["port"]},
    {"type": "code_interpreter_call", "id": "ci", "code": "1", "container_id": "c"},
    {"type": "image_generation_call", "id": "ig", "result": "iVBORw0KGgo="},
    {"type": "mcp_call", "id": "mc", "name": "f", "arguments": "{}", "server_label": "s"},
    {"type": "mcp_list_tools", "id": "ml", "server_label": "s", "tools": []},
    {"type": "mcp_approval_request", "id": "ma", "name": "f", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "ma", "approve": True},
    {"type": "tool_search_call", "id": "ts", "arguments": {"query": "q"}},
    {"type": "tool_search_output", "tools": []},
    {"type": "compaction", "encrypted_content": "x"},
    {"type": "item_reference", "id": "msg_1"},
]


@pytest.mark.parametrize("item", SERVER_ITEMS, ids=lambda item: item["type"])
def test_every_kind_of_responses_item_shows_its_dialect_when_it_comes_first(
    item: dict[str, Any],
) -> None:
    talk = Conversation(limit=10_000)
    asked = {"role": "user", "content": "hi"}
    answer = {"type": "message", "role": "assistant", "content": "done"}
    for each in (asked, item, answer):
        assert len(talk.extend([each])) == 1
    assert talk.dialect == "openai_responses"
    assert talk.messages == [asked, item, answer]


def test_a_claude_code_session_is_recognized_whatever_its_first_line_is() -> None:
    for line in (
        {"type": "summary", "summary": "a title", "leafUuid": "u"},
        {"type": "file-history-snapshot", "messageId": "u", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"},
    ):
        talk = Conversation(limit=10_000)
        assert talk.extend([line]) == []
        assert talk.dialect == "claude_code"


def test_the_results_of_gemini_may_be_given_by_role_function() -> None:
    contents = render_script(SCRIPT, "gemini")
    results = next(c for c in contents if "functionResponse" in c["parts"][0])
    results["role"] = "function"
    talk = Conversation(limit=10_000)
    for content in contents:
        talk.extend([content])
    assert talk.dialect == detect(contents) == "gemini"
    assert talk.messages == contents


class HumanMessage(Model):
    """A stand-in for a message of LangChain, which does not state its role as a field."""

    __module__ = "langchain_core.messages.human"


class ModelRequest:
    """A stand-in for a message of pydantic-ai, which is a dataclass."""

    __module__ = "pydantic_ai.messages"


FOREIGN = [
    pytest.param(HumanMessage(content="hi"), "convert_to_openai_messages", id="langchain"),
    pytest.param({"type": "human", "data": {"content": "hi"}}, "LangChain", id="langchain-dict"),
    pytest.param(
        {"type": "ai", "content": "hi", "additional_kwargs": {}}, "LangChain", id="langchain-dump"
    ),
    pytest.param(ModelRequest(), "pydantic-ai", id="pydantic-ai"),
    pytest.param(
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]},
        "pydantic-ai",
        id="pydantic-ai-dict",
    ),
    pytest.param({"type": "banana"}, "Pass dialect=", id="unknown"),
]


@pytest.mark.parametrize(("given", "advice"), FOREIGN)
@pytest.mark.parametrize("take", [partial(tidy, limit=10), Conversation(limit=10).extend])
def test_messages_of_which_none_can_be_read_are_an_error_that_says_what_to_do(
    take: Any, given: Any, advice: str
) -> None:
    with pytest.raises(BadInput, match=advice):
        take([given, given])


def test_what_cannot_be_read_among_what_can_is_a_warning() -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "banana"}]
    with pytest.warns(UnreadableWarning, match="1 of 2 .* message 1: role 'banana'") as tidied:
        assert tidy(messages, limit=10_000) == messages
    talk = Conversation(limit=10_000)
    with pytest.warns(UnreadableWarning, match="banana") as extended:
        talk.extend(messages)
    assert [warned.filename for warned in (*tidied, *extended)] == [__file__, __file__]
    assert [skipped.position for skipped in talk.skipped] == [1]


def test_nothing_to_read_is_not_an_error() -> None:
    assert tidy([], limit=10) == []
    assert Conversation(limit=10).extend([]) == []
