from __future__ import annotations

from typing import Any

import pytest

from marksweep.dialects import dialect_named, read, repair, validate, write, written
from marksweep.dialects.rulebook import NO_RESULT
from marksweep.messages import InlineData, Part, Role
from tests.dialects.masked import with_text
from tests.dialects.units import without

GEMINI = dialect_named("gemini")


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def text(said: str) -> dict[str, Any]:
    return {"text": said}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}}, **more}


def response(name: str, said: str = "ok") -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"result": said}}}


HI = user(text("hi"))
OK = model(text("ok"))


def rules(contents: list[Any]) -> list[str]:
    return [finding.rule for finding in validate(contents, "gemini")]


def test_every_kind_of_part_is_understood_or_kept() -> None:
    contents = [
        user(
            text("look"),
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x/y"}},
        ),
        model(
            {"text": "hm", "thought": True},
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
            call("read", thoughtSignature="sig"),
            call("read"),
        ),
        user(response("read"), response("read")),
    ]
    history = read(contents)
    first, second, third = history.messages
    assert [part.inline_data for part in first.parts[1:]] == [
        InlineData("image/png", "AAAA"),
        InlineData("video/mp4", "gs://x/y"),
    ]
    assert second.parts[0].thought == "hm"
    assert second.parts[1] == Part(raw={"executableCode": {"language": "PYTHON", "code": "1"}})
    assert third.role is Role.TOOL
    assert write(history) == contents
    assert validate(contents) == []


def test_the_names_of_the_python_sdk_are_read_and_kept() -> None:
    contents = [
        HI,
        model({"function_call": {"name": "f", "args": {}}, "thought_signature": "s"}),
        user({"function_response": {"name": "f", "response": {"result": "x" * 99}}}),
    ]
    history = read(contents)
    assert validate(contents) == []
    masked = with_text(GEMINI, history.messages[2], lambda part: "short")
    assert masked.raw == user({"function_response": {"name": "f", "response": {"result": "short"}}})
    assert repair([*contents[:2], HI], "gemini")[0][2] == user(
        {"function_response": {"name": "f", "response": {"result": NO_RESULT}}}
    )


@pytest.mark.parametrize(
    ("contents", "rule", "repaired"),
    [
        ([OK, HI], "starts-with-user", None),
        ([HI, OK, user(response("f"))], "responses-have-calls", [HI, OK]),
        (
            [HI, model(call("f")), HI],
            "as-many-responses-as-calls",
            [HI, model(call("f")), user(response("f", NO_RESULT)), HI],
        ),
        (
            [HI, model(call("f"), call("g")), user(response("f")), user(response("g")), OK],
            "responses-follow-calls",
            [HI, model(call("f"), call("g")), user(response("f"), response("g")), OK],
        ),
        ([HI, OK, model(call("f"))], "calls-after-user", [HI, model(text("ok"), call("f"))]),
        ([HI, model(), HI], "parts-not-empty", [HI, HI]),
        ([HI, model(text(""), text("ok"))], "parts-not-empty", [HI, OK]),
        ([{"role": "system", "parts": [text("x")]}], "roles-known", [user(text("x"))]),
        ([user(text("hi"), call("f"))], "parts-by-role", [HI]),
    ],
)
def test_each_rule_is_found_and_repaired(
    contents: list[Any], rule: str, repaired: list[Any] | None
) -> None:
    assert rules(contents) == [rule]
    changed, changes = repair(contents, "gemini")
    assert {change.rule for change in changes} == {rule}
    assert validate(changed, "gemini") == []
    if repaired is not None:
        assert changed == repaired


def test_a_call_of_the_current_turn_that_lost_its_signature_is_marked() -> None:
    turn = [
        HI,
        model(call("f", thoughtSignature="sig")),
        user(response("f")),
        model(call("g")),
        user(response("g")),
    ]
    assert rules(turn) == ["signatures-kept"]
    repaired, _ = repair(turn, "gemini")
    assert repaired[3] == model(call("g", thoughtSignature="skip_thought_signature_validator"))
    assert rules([*turn, HI]) == []


def test_an_empty_text_that_carries_a_signature_is_fine() -> None:
    assert rules([HI, model({"text": "", "thoughtSignature": "sig"})]) == []


def test_the_models_text_is_merged_with_the_calls_that_follow_it() -> None:
    contents = [HI, OK, model(text("well")), HI, model(call("f")), user(response("f")), OK]
    history = read(contents)
    kept = without(GEMINI, history.messages, {3})
    raws = [message.raw for message in kept]
    assert raws == [HI, model(text("ok"), text("well"), call("f")), user(response("f")), OK]
    assert validate(raws, "gemini") == []


def test_a_whole_request_is_read_with_its_system_instruction() -> None:
    body = {"systemInstruction": {"parts": [text("be brief")]}, "contents": [HI, OK]}
    history = read(body)
    assert history.system is not None
    assert history.system.text == "be brief"
    assert write(history, history.messages[:1]) == {**body, "contents": [HI]}
    assert write(read({"contents": "hi"})) == {"contents": "hi"}


def test_results_from_elsewhere_are_named_after_their_calls() -> None:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "1"}
    given = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    _, answered = written(read(given, "anthropic").messages, "gemini")
    assert answered["parts"][0]["functionResponse"]["name"] == "f"
