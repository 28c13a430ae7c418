"""gc_superseded: what later results made worthless becomes one line."""

from __future__ import annotations

import pytest

from marksweep.dialects import read, validate, written
from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult
from marksweep.plugins import GCConfig, GCResult, GCTriggerReason, load_gc_plugin
from tests.plugins.histories import budget_for, full, ids, say, text, unpaired, weigh

DOWN = GCConfig(threshold_percent=50, target_percent=40, preserve_recent_turns=1)


def read_file(n: int, path: str, size: int = 200) -> list[Message]:
    call = FunctionCall(f"c{n}", "read", {"path": path})
    result = ToolResult(call.id, "read", text(size, f"line{n}"))
    return [
        Message(Role.MODEL, (Part(function_call=call),), f"call{n}"),
        Message(Role.TOOL, (Part(function_response=result),), f"result{n}"),
    ]


def history() -> list[Message]:
    return [
        say(Role.USER, "u0"),
        *read_file(0, "a.py"),
        *read_file(1, "b.py"),
        say(Role.MODEL, "m0"),
        say(Role.USER, "u1"),
        *read_file(2, "a.py"),
        say(Role.MODEL, "m1"),
        say(Role.USER, "u2"),
        say(Role.MODEL, "m2"),
    ]


def collect(limit: int, messages: list[Message] | None = None) -> tuple[list[Message], GCResult]:
    before = messages or history()
    plugin = load_gc_plugin("gc_superseded")
    budget = budget_for(before, limit)
    return plugin.collect(before, full(before, limit), DOWN, GCTriggerReason.THRESHOLD, budget)


def result_of(kept: list[Message], id_: str) -> str:
    (message,) = [message for message in kept if message.message_id == id_]
    return str(message.function_responses[0].result)


def test_a_read_that_was_made_again_becomes_one_line_that_says_what_it_was() -> None:
    before = history()
    kept, result = collect(limit=1850)
    assert ids(kept) == ids(before), "nothing but the old output is touched"
    assert "superseded" in result_of(kept, "result0")
    assert "a.py" in result_of(kept, "result0")
    assert 'recall("result0")' in result_of(kept, "result0")
    assert "line1" in result_of(kept, "result1")
    assert "line2" in result_of(kept, "result2")
    assert [(i.child_key, i.reason) for i in result.removal_list] == [
        ("turn_0.working_0", "superseded")
    ]
    assert result.tokens_after == weigh(kept)


def test_the_oldest_turns_go_only_if_that_was_not_enough() -> None:
    kept, result = collect(limit=600)
    assert "result0" not in ids(kept)
    assert unpaired(kept) == set()
    assert "truncated" in {item.reason for item in result.removal_list}
    assert result.tokens_after == weigh(kept)


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
def test_a_line_is_written_as_the_provider_wants_it(dialect: str) -> None:
    messages = list(read(written(history(), dialect), dialect).messages)
    kept, result = collect(limit=1850, messages=messages)
    raw = written(kept, dialect)
    assert validate(raw, dialect) == []
    assert "superseded" in str(raw)
    assert "line0" not in str(raw)
    assert result.tokens_freed > 150
