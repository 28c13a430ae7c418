"""Which call a result answers."""

from __future__ import annotations

from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult, with_outcomes


def called(call_id: str, path: str) -> Message:
    return Message(Role.MODEL, (Part(function_call=FunctionCall(call_id, "read", {"path": path})),))


def answered(*call_ids: str) -> Message:
    results = (Part(function_response=ToolResult(each, "", "out")) for each in call_ids)
    return Message(Role.TOOL, tuple(results))


def test_a_result_answers_the_latest_call_before_it_of_its_id() -> None:
    history = [called("1", "a.py"), answered("1"), called("1", "b.py"), answered("1", "ghost")]
    found = [
        [(each.name, each.path) for each in outcomes] for _, outcomes in with_outcomes(history)
    ]
    assert found == [[], [("read", "a.py")], [], [("read", "b.py"), ("", None)]]
