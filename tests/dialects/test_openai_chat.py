from __future__ import annotations

from typing import Any

from marksweep.dialects import dialect_named, read, repair, validate, write, written
from marksweep.dialects.base import Slot, call_of, match
from marksweep.dialects.rulebook import NO_RESULT, _fresh_ids
from marksweep.messages import FunctionCall, InlineData, Message, Part, Role, ToolResult
from tests.dialects.masked import with_text

CHAT = dialect_named("openai_chat")


def call(call_id: str, name: str = "read", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call(i) for i in ids]}


def answers(call_id: str, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "hi"}


def rules(messages: list[Any]) -> list[str]:
    return [finding.rule for finding in validate(messages, "openai_chat")]


def test_every_kind_of_content_is_understood() -> None:
    messages = [
        {"role": "developer", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "hologram", "hologram": 1},
            ],
        },
        {
            "role": "assistant",
            "content": "reading",
            "reasoning_content": "hm",
            "tool_calls": [
                call("c1", arguments='{"path": "a.py"}'),
                call("c2", arguments="{no"),
            ],
        },
        answers("c1", [{"type": "text", "text": "x = 1"}]),
        answers("c2"),
    ]
    history = read(messages)
    system, user, model, first, _ = history.messages
    assert system.role is Role.SYSTEM
    assert [part.inline_data for part in user.parts[1:4]] == [
        InlineData("image/*", "https://x/y.png"),
        InlineData("audio/wav", "AAAA"),
        InlineData("application/*", "file-1"),
    ]
    assert user.parts[4] == Part(raw={"type": "hologram", "hologram": 1})
    assert model.parts[0].thought == "hm"
    assert model.function_calls == (
        FunctionCall("c1", "read", {"path": "a.py"}),
        FunctionCall("c2", "read", "{no"),
    )
    assert first.function_responses[0].result == [{"type": "text", "text": "x = 1"}]
    assert write(history) == messages


def test_the_old_form_of_function_calls_is_paired_by_name() -> None:
    messages = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    ]
    assert validate(messages, "openai_chat") == []
    assert rules([USER, messages[2]]) == ["results-have-calls"]


def test_a_result_without_its_call_is_found_and_dropped() -> None:
    messages = [USER, answers("gone"), USER]
    assert rules(messages) == ["results-have-calls"]
    repaired, changes = repair(messages, "openai_chat")
    assert repaired == [USER, USER]
    assert [change.position for change in changes] == [1]


def test_a_call_without_a_result_is_answered_where_the_provider_wants_it() -> None:
    messages = [USER, asks("a", "b"), answers("b"), USER]
    assert rules(messages) == ["calls-answered"]
    repaired, _ = repair(messages, "openai_chat")
    assert repaired == [USER, asks("a", "b"), answers("a", NO_RESULT), answers("b"), USER]


def test_a_call_at_the_end_may_wait() -> None:
    assert rules([USER, asks("a", "b")]) == []
    assert rules([USER, asks("a", "b"), answers("a")]) == []


def test_a_misplaced_result_is_moved_back() -> None:
    messages = [USER, asks("a"), USER, answers("a", "late"), USER]
    assert rules(messages) == ["results-follow-calls"]
    assert repair(messages, "openai_chat")[0] == [USER, asks("a"), answers("a", "late"), USER, USER]


def test_a_second_result_for_one_call_is_dropped() -> None:
    messages = [USER, asks("a"), answers("a", "1"), answers("a", "2"), USER]
    assert repair(messages, "openai_chat")[0] == [USER, asks("a"), answers("a", "1"), USER]


def test_an_id_may_be_used_again_in_a_later_message() -> None:
    messages = [USER, asks("call_0"), answers("call_0"), asks("call_0"), answers("call_0")]
    assert rules(messages) == []


def test_calls_that_share_an_id_get_unique_ids_and_so_do_their_results() -> None:
    messages = [USER, asks("a", "a"), answers("a", "1"), answers("a", "2"), USER]
    assert rules(messages) == ["call-ids-unique"]
    repaired, _ = repair(messages, "openai_chat")
    assert repaired == [USER, asks("a", "a_2"), answers("a", "1"), answers("a_2", "2"), USER]


def test_a_late_system_message_moves_to_the_front() -> None:
    system = {"role": "system", "content": "be brief"}
    assert rules([USER, system]) == ["system-first"]
    assert repair([USER, system], "openai_chat")[0] == [system, USER]


def test_content_that_is_missing_becomes_empty() -> None:
    messages = [USER, {"role": "assistant", "content": None, "name": "x"}]
    assert rules(messages) == ["content-present"]
    repaired, _ = repair(messages, "openai_chat")
    assert repaired == [USER, {"role": "assistant", "content": "", "name": "x"}]
    assert rules([USER, {"role": "assistant", "content": None, "refusal": "no"}]) == []


def test_a_masked_result_keeps_the_other_fields_of_its_message() -> None:
    (message,) = read([{**answers("a", "x" * 500), "name": "read", "cost": 3}]).messages
    masked = with_text(CHAT, message, lambda part: "[500 characters of read]")
    assert masked.raw == {
        "role": "tool",
        "tool_call_id": "a",
        "content": "[500 characters of read]",
        "name": "read",
        "cost": 3,
    }
    assert message.raw["content"] == "x" * 500


def test_neutral_messages_are_composed() -> None:
    messages = [
        Message.from_text(Role.SYSTEM, "be brief"),
        Message(Role.USER, (Part(text="look"), Part(inline_data=InlineData("image/png", "AAAA")))),
        Message(Role.MODEL, (Part(function_call=FunctionCall("a", "read", {"p": 1})),)),
        Message(Role.TOOL, (Part(function_response=ToolResult("a", "read", {"x": 1})),)),
    ]
    assert written(messages, "openai_chat") == [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call("a", arguments='{"p":1}')],
        },
        {"role": "tool", "tool_call_id": "a", "content": '{"x":1}'},
    ]


def test_a_result_answers_the_nearest_pending_call_with_its_id() -> None:
    messages = read([asks("a"), asks("a"), answers("a"), answers("a")]).messages
    assert match(messages).answers == {Slot(1, 0): Slot(2, 0), Slot(0, 0): Slot(3, 0)}


def test_thousands_of_calls_without_ids_are_repaired_at_once() -> None:
    class Id(str):
        """An id that counts how often it was looked for."""

        seen = 0

        def __format__(self, spec: str) -> str:
            Id.seen += 1
            return str.__format__(self, spec)

    number = 1_000
    asked = Part(function_call=FunctionCall(Id("c"), "read", {}))
    message = Message(Role.MODEL, (asked,) * number, "m1")
    slots = [Slot(0, k) for k in range(1, number)]
    assert len(set(_fresh_ids([message], slots, call_of).values())) == number - 1
    assert Id.seen < 5 * number
