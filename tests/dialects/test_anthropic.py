from __future__ import annotations

from typing import Any

import pytest

from marksweep.dialects import dialect_named, read, repair, validate, write, written
from marksweep.dialects.rulebook import NO_RESULT
from marksweep.messages import FunctionCall, InlineData, Message, Part, Role, ToolResult
from tests.dialects.masked import with_text
from tests.dialects.units import ties, units

ANTHROPIC = dialect_named("anthropic")

USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "ok"}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def thinks(signature: str = "sig") -> dict[str, Any]:
    return {"type": "thinking", "thinking": "hm", "signature": signature}


def use(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "read", "input": {}}


def result(name: str, content: Any = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def model(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def rules(messages: list[Any]) -> list[str]:
    return [finding.rule for finding in validate(messages, "anthropic")]


def test_every_kind_of_block_is_understood_or_kept() -> None:
    messages = [
        user(
            {**text("look"), "cache_control": {"type": "ephemeral"}},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
            },
            {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
            {"type": "document", "source": {"type": "text", "data": "plain"}},
            {"type": "search_result", "source": "x", "title": "y", "content": [text("z")]},
        ),
        model(
            thinks(),
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []},
            text("ok"),
            use("a"),
        ),
        user({**result("a", [text("x")]), "is_error": True}),
    ]
    history = read(messages)
    first, second, third = history.messages
    assert [part.inline_data for part in first.parts[1:3]] == [
        InlineData("image/png", "AAAA"),
        InlineData("application/pdf", "https://x/y.pdf"),
    ]
    assert first.parts[3].text == "plain"
    assert first.parts[4] == Part(raw=messages[0]["content"][4])
    assert [part.thought for part in second.parts[:2]] == ["hm", ""]
    assert second.function_calls[1] == FunctionCall("a", "read", {})
    assert third.role is Role.TOOL
    assert third.function_responses == (ToolResult("a", "", [text("x")], is_error=True),)
    assert write(history) == messages
    assert validate(messages) == []


def test_results_go_first_in_what_the_user_says_next() -> None:
    messages = [USER, model(use("a"), use("b")), user(text("so"), result("a")), SAID]
    assert sorted(rules(messages)) == ["calls-answered", "results-first"]
    repaired, _ = repair(messages, "anthropic")
    assert repaired == [
        USER,
        model(use("a"), use("b")),
        user(result("a"), result("b", NO_RESULT)),
        user(text("so")),
        SAID,
    ]


def test_messages_of_one_role_are_read_as_one() -> None:
    assert rules([USER, model(thinks()), model(use("a")), user(result("a")), USER, SAID]) == []
    split = [USER, model(use("a")), model(use("b")), user(result("a")), user(result("b"))]
    assert rules(split) == []
    assert rules([USER, model(use("a")), USER, user(result("a"))]) == ["results-first"]


def test_thinking_goes_with_what_the_model_did_next() -> None:
    messages = [USER, model(thinks()), model(text("ok")), model(use("a")), user(result("a")), SAID]
    assert units(ANTHROPIC, read(messages).messages) == [(0,), (1, 2, 3, 4), (5,)]


@pytest.mark.parametrize(
    ("messages", "rule", "repaired"),
    [
        ([SAID, USER], "starts-with-user", None),
        (
            [USER, model(text("ok"), text(" ")), USER],
            "content-not-empty",
            [USER, model(text("ok")), USER],
        ),
        ([USER, model(), USER], "content-not-empty", [USER, USER]),
        ([USER, model(thinks("")), SAID], "thinking-signed", [USER, SAID]),
        (
            [USER, model(text("ok"), thinks()), USER],
            "thinking-not-last",
            [USER, model(text("ok")), USER],
        ),
        (
            [{"role": "system", "content": "x"}, USER, SAID],
            "roles-known",
            [{"role": "user", "content": "x"}, USER, SAID],
        ),
        (
            [USER, SAID, {"role": "system", "content": "x"}],
            "roles-known",
            [USER, SAID, {"role": "user", "content": "x"}],
        ),
        (
            [USER, {"role": "system", "content": "x"}, USER],
            "roles-known",
            [USER, {"role": "user", "content": "x"}, USER],
        ),
        ([user(text("hi"), use("a"))], "blocks-by-role", [user(text("hi"))]),
        ([USER, model(text("ok "))], "no-space-at-end", [USER, model(text("ok"))]),
        (
            [USER, model(text("ok"), {"type": "web_search_tool_result", "tool_use_id": "x"})],
            "server-results-with-calls",
            [USER, model(text("ok"))],
        ),
        ([USER, SAID, user(result("gone"))], "results-have-calls", [USER, SAID]),
        (
            [USER, model(use("a")), user(result("a")), model(use("a")), user(result("a"))],
            "call-ids-unique",
            [USER, model(use("a")), user(result("a")), model(use("a_2")), user(result("a_2"))],
        ),
    ],
)
def test_each_rule_is_found_and_repaired(
    messages: list[Any], rule: str, repaired: list[Any] | None
) -> None:
    assert rules(messages) == [rule]
    changed, changes = repair(messages, "anthropic")
    assert {change.rule for change in changes} == {rule}
    assert validate(changed, "anthropic") == []
    if repaired is not None:
        assert changed == repaired


def test_at_most_four_blocks_are_marked_for_the_cache_and_the_newest_keep_theirs() -> None:
    marked = [user({**text(str(n)), "cache_control": {"type": "ephemeral"}}) for n in range(6)]
    assert rules(marked) == ["cache-marks", "cache-marks"]
    repaired, _ = repair(marked, "anthropic")
    assert repaired == [user(text("0")), user(text("1")), *marked[2:]]


def test_a_call_at_the_end_may_wait() -> None:
    assert rules([USER, model(use("a"), use("b"))]) == []
    assert rules([USER, model(use("a"), use("b")), user(result("a"))]) == []
    assert rules([USER, model(use("a")), USER]) == ["calls-answered"]


def test_a_masked_result_keeps_its_mark_and_the_results_beside_it() -> None:
    messages = [
        user({**result("a", "x" * 500), "cache_control": {"type": "ephemeral"}}, result("b"))
    ]
    (message,) = read(messages).messages
    first = message.parts[0]
    masked = with_text(ANTHROPIC, message, lambda part: "short" if part is first else None)
    assert masked.raw == user(
        {**result("a", "short"), "cache_control": {"type": "ephemeral"}}, result("b")
    )


def test_a_whole_request_is_read_with_its_system_prompt() -> None:
    body = {
        "model": "m",
        "system": [{**text("be brief"), "cache_control": {"type": "ephemeral"}}],
        "messages": [USER, SAID],
    }
    history = read(body)
    assert history.dialect == "anthropic"
    assert history.system is not None
    assert history.system.text == "be brief"
    assert write(history) == body
    assert validate(body) == []
    broken = {**body, "messages": [SAID, USER]}
    repaired, _ = repair(broken)
    assert {k: v for k, v in repaired.items() if k != "messages"} == {
        k: v for k, v in body.items() if k != "messages"
    }
    assert repaired["messages"][1:] == [SAID, USER]


def test_neutral_messages_are_composed_with_results_first() -> None:
    messages = [
        Message(Role.MODEL, (Part(thought="hm"), Part(function_call=FunctionCall("a", "f", {})))),
        Message(Role.USER, (Part(text="so"), Part(function_response=ToolResult("a", "f", 1)))),
    ]
    assert written(messages, "anthropic") == [
        model({"type": "tool_use", "id": "a", "name": "f", "input": {}}),
        user(result("a", "1"), text("so")),
    ]


SYSTEM = {"role": "system", "content": "the date has changed"}
EFFORT = {"role": "system", "content": [], "output_config": {"effort": "low"}}


@pytest.mark.parametrize(
    "history",
    [
        [USER, SYSTEM],
        [USER, SYSTEM, SAID],
        [USER, SYSTEM, model(use("a")), user(result("a")), SYSTEM, SAID],
        [USER, EFFORT, SAID, EFFORT, USER, EFFORT, SYSTEM, SAID, USER],
    ],
)
def test_a_system_message_between_user_and_assistant_is_valid_and_left_alone(
    history: list[Any],
) -> None:
    assert validate(history, "anthropic") == []
    assert repair(history, "anthropic") == (history, [])


@pytest.mark.parametrize("config", [{}, {"output_config": {}}])
def test_a_system_message_without_content_that_sets_nothing_is_not_valid(
    config: dict[str, Any],
) -> None:
    faulty = [USER, {"role": "system", "content": [], **config}, SAID]
    assert [finding.rule for finding in validate(faulty, "anthropic")] == ["content-not-empty"]


def test_two_system_messages_in_a_row_are_not_valid() -> None:
    faulty = [USER, SYSTEM, SYSTEM, SAID]
    assert [finding.rule for finding in validate(faulty, "anthropic")] == ["roles-known"] * 2
    assert not validate(repair(faulty, "anthropic")[0], "anthropic")


def test_what_the_system_says_stays_with_its_neighbours() -> None:
    messages = read([USER, SAID, USER, SYSTEM, SAID, USER], "anthropic").messages
    assert list(ties(dialect_named("anthropic"), messages)) == [(2, 3), (3, 4)]
