from __future__ import annotations

from typing import Any

from marksweep.dialects import dialect_named, read, repair, validate, write, written
from marksweep.dialects.rulebook import NO_RESULT, Answers, all_after, each_run, separately
from marksweep.messages import FunctionCall, InlineData, Message, Part, Role, ToolResult
from tests.dialects.masked import with_text
from tests.dialects.units import units

RESPONSES = dialect_named("openai_responses")

USER = {"role": "user", "content": "hi"}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}


def thinks(name: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": name, "summary": [], "encrypted_content": "xyz"}


def asks(call_id: str, kind: str = "function_call") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "name": "read", "arguments": "{}"}


def answers(call_id: str, output: Any = "ok", kind: str = "function_call") -> dict[str, Any]:
    return {"type": f"{kind}_output", "call_id": call_id, "output": output}


def rules(items: list[Any]) -> list[str]:
    return [finding.rule for finding in validate(items, "openai_responses")]


def test_every_kind_of_item_is_understood_or_kept() -> None:
    items = [
        {"role": "developer", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "https://x/y.png"},
                {"type": "input_file", "file_id": "file-1"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            ],
        },
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c", "name": "grep", "input": "x"},
        answers("c", kind="custom_tool_call"),
        {"type": "item_reference", "id": "msg_1"},
        {"type": "compaction", "encrypted_content": "xyz"},
    ]
    history = read(items)
    assert history.dialect == "openai_responses"
    assert history.messages[1].parts[3].inline_data == InlineData("audio/wav", "AAAA")
    assert history.messages[2].parts[0].thought == "hm"
    assert history.messages[4].function_calls == (FunctionCall("c", "grep", "x"),)
    assert history.messages[7].parts == (Part(raw=items[7]),)
    assert write(history) == items
    assert validate(items) == []


def test_each_part_of_a_long_history_is_looked_at_a_few_times() -> None:
    looked_at = 0

    def result(part: Part) -> ToolResult | None:
        nonlocal looked_at
        looked_at += 1
        return part.function_response

    items = [item for n in range(200) for item in (asks(str(n)), answers(str(n)))]
    messages = read([USER, *items], "openai_responses").messages
    places = list(Answers(each_run, all_after, separately, results=result).places(messages))
    assert len(places) == 200
    assert looked_at <= 3 * len(messages)


def test_an_output_without_its_call_is_dropped() -> None:
    assert rules([USER, answers("gone")]) == ["outputs-have-calls"]
    assert repair([USER, answers("gone")], "openai_responses")[0] == [USER]


def test_a_call_without_output_is_answered_in_the_kind_it_wants() -> None:
    items = [USER, asks("a", "custom_tool_call"), asks("b"), answers("b"), USER]
    assert rules(items) == ["calls-have-outputs"]
    repaired, _ = repair(items, "openai_responses")
    assert repaired == [*items[:3], answers("a", NO_RESULT, "custom_tool_call"), *items[3:]]


def test_a_call_at_the_end_may_wait() -> None:
    assert rules([USER, thinks("r"), asks("a"), asks("b"), answers("b")]) == []
    assert rules([USER, asks("a"), USER]) == ["calls-have-outputs"]


def test_an_output_may_come_anywhere_after_its_call() -> None:
    assert rules([USER, asks("a"), SAID, USER, answers("a")]) == []
    assert rules([USER, answers("a"), asks("a")]) == ["outputs-have-calls"]


def test_reasoning_without_what_follows_it_is_dropped() -> None:
    items = [USER, thinks("r1"), thinks("r2"), USER]
    assert rules(items) == ["reasoning-followed", "reasoning-followed"]
    assert repair(items, "openai_responses")[0] == [USER, USER]
    assert rules([USER, thinks("r1"), SAID]) == []


def test_reasoning_goes_with_all_that_the_model_did_next() -> None:
    items = [USER, thinks("r"), asks("a"), asks("b"), answers("a"), answers("b"), SAID]
    assert units(RESPONSES, read(items).messages) == [(0,), (1, 2, 3, 4, 5), (6,)]


def refers(name: str) -> dict[str, Any]:
    return {"type": "item_reference", "id": name}


def test_a_reference_goes_with_what_may_belong_to_it() -> None:
    """Only the provider knows whether it is a thought, a call or a text."""
    called = [refers("rs_1"), refers("fc_1"), refers("fc_2"), answers("1"), answers("2")]
    items = [USER, *called, refers("rs_2"), asks("3"), answers("3"), refers("msg_1"), USER]
    together = [(0,), (1, 2, 3, 4, 5), (6, 7, 8), (9,), (10,)]
    assert units(RESPONSES, read(items).messages) == together
    assert rules(items) == []


def test_an_output_after_a_reference_may_answer_a_call_of_the_provider() -> None:
    assert rules([USER, answers("1"), refers("fc_2"), answers("2")]) == ["outputs-have-calls"]
    repaired, _ = repair(
        [USER, answers("1"), refers("fc_2"), answers("2"), asks("3"), USER], "openai_responses"
    )
    assert [item.get("call_id") for item in repaired] == [None, None, "2", "3", "3", None]


def test_an_approval_goes_with_its_request() -> None:
    request = {"type": "mcp_approval_request", "id": "r", "name": "f", "server_label": "s"}
    response = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}
    items = [USER, request, response, SAID]
    assert rules(items) == []
    assert units(RESPONSES, read(items).messages) == [(0,), (1, 2), (3,)]
    assert rules([USER, response, SAID]) == ["approvals-have-requests"]
    assert repair([USER, response, SAID], "openai_responses")[0] == [USER, SAID]


def test_a_screenshot_cannot_be_masked() -> None:
    shot = answers("a", {"type": "computer_screenshot", "image_url": "x"}, "computer_call")
    (message,) = read([shot], "openai_responses").messages
    assert with_text(RESPONSES, message, lambda part: "masked") is message


def test_a_whole_request_is_read_with_its_instructions() -> None:
    body = {"model": "m", "instructions": "be brief", "input": [USER, SAID], "store": False}
    history = read(body)
    assert history.system is not None
    assert history.system.text == "be brief"
    assert write(history) == body
    assert write(history, history.messages[:1]) == {**body, "input": [USER]}
    assert write(read({"input": "hi"})) == {"input": "hi"}


def test_neutral_messages_are_composed() -> None:
    message = Message(
        Role.MODEL, (Part(text="ok"), Part(function_call=FunctionCall("a", "read", {})))
    )
    assert written([message], "openai_responses") == [
        {"type": "message", "role": "assistant", "content": "ok"},
        asks("a"),
    ]
