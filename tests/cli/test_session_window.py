"""What fills the window of a coding agent's session. `make clients` uses real sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import run
from tests.dialects.test_chain import line, session


def analysed(path: Path, lines: list[Any]) -> dict[str, Any]:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    found: dict[str, Any] = json.loads(run("analyze", str(path), "--json").output)["window"]
    return found


@pytest.fixture
def lines() -> list[Any]:
    """Make a session in which two calls were answered at once, one of them by an MCP server."""
    made: list[Any] = session(3)
    calls = [
        {"type": "tool_use", "id": "x", "name": "Read", "input": {"file_path": "0.py"}},
        {"type": "tool_use", "id": "y", "name": "mcp__shop__stock", "input": {"berth": 7}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "x", "content": "short"},
        {"type": "tool_result", "tool_use_id": "y", "content": "many words " * 500},
    ]
    usage = {"input_tokens": 1_000, "cache_read_input_tokens": 9_000}
    made.append(line("b", made[-1]["uuid"], "assistant", calls, message={"usage": usage}))
    made.append(line("c", "b", "user", results))
    return made


def test_the_window_is_shown_by_the_sessions_own_usage(lines: list[Any], tmp_path: Path) -> None:
    found = analysed(tmp_path / "session.jsonl", lines)
    assert (found["used_tokens"], found["window_tokens"]) == (10_000, 200_000)
    assert 0 < found["fixed_tokens"] < 10_000
    assert [(each["name"], each["segments"]) for each in found["by_tool"]] == [
        ("Read", 4),
        ("mcp__shop__stock", 1),
    ]
    assert {each["name"]: each["segments"] for each in found["by_file"]} == {
        "0.py": 2,
        "1.py": 1,
        "2.py": 1,
    }
    assert [each["name"] for each in found["by_server"]] == ["shop"]
    assert found["biggest"][0]["what"].startswith("mcp__shop__stock 7")
    assert found["biggest"][0]["tokens"] > 500
    assert [action.split("    ")[0] for action in found["actions"]] == [
        "marksweep resume claude --limit 50%",
        "marksweep wrap claude",
        "marksweep plugin claude DIR",
    ]
    shown = " ".join(run("analyze", str(tmp_path / "session.jsonl")).output.split())
    assert "10,000 of 200,000 tokens, 5% of it" in shown


def test_what_was_rewound_is_not_in_the_window(lines: list[Any], tmp_path: Path) -> None:
    again = line("d", "r0", "user", "rather fix the lexer")
    found = analysed(tmp_path / "session.jsonl", [*lines, again])
    assert [each["segments"] for each in found["by_tool"]] == [1]
    assert found["used_tokens"] == 410


def test_a_codex_session_names_its_window(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "a.py\n" * 90}
    usage = {"last_token_usage": {"input_tokens": 5_000}, "model_context_window": 20_000}
    found = analysed(
        tmp_path / "rollout.jsonl",
        [
            {"type": "session_meta", "payload": {"id": "s"}},
            *({"type": "response_item", "payload": item} for item in (call, output)),
            {"type": "event_msg", "payload": {"type": "token_count", "info": usage}},
            {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
        ],
    )
    assert (found["used_tokens"], found["window_tokens"]) == (5_000, 20_000)
    assert [each["name"] for each in found["by_tool"]] == ["shell"]
    assert "marksweep wrap codex" in " ".join(found["actions"])


def test_other_transcripts_do_not_state_a_window(tmp_path: Path) -> None:
    assert analysed(tmp_path / "chat.jsonl", [{"role": "user", "content": "hello"}]) is None
