"""What `gather` finds: any dialect and compression, folders, patterns, and reasons for the rest."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

from marksweep.cli.demo import recorded
from marksweep.errors import BadInput
from marksweep.replay.guards import is_paired
from marksweep.replay.inputs import gather

Wire = dict[str, Any]


def chat() -> list[Wire]:
    """Make two rounds, in the format of chat completions."""
    return [
        {"role": "system", "content": "You fix bugs."},
        {"role": "user", "content": "Fix the login."},
        _call("a", "ls"),
        {"role": "tool", "tool_call_id": "a", "content": "login.py"},
        _call("b", "cat login.py"),
        {"role": "tool", "tool_call_id": "b", "content": "def login(): ..."},
        {"role": "assistant", "content": "Done."},
    ]


def _call(name: str, command: str) -> Wire:
    function = {"name": "shell", "arguments": json.dumps({"command": command})}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": name, "type": "function", "function": function}],
    }


def claude_code() -> list[Wire]:
    """Make lines as Claude Code writes them: a block per line, results out of order, a summary."""
    return [
        {"type": "summary", "summary": "a bug hunt"},
        _line("user", "Fix the login."),
        _line("assistant", [{"type": "text", "text": "I look."}]),
        _line("assistant", [_use("t1", "a.py")]),
        _line("assistant", [_use("t2", "b.py")]),
        _line("user", [_result("t2", "b = 2")]),
        _line("user", [_result("t1", "a = 1")]),
        _line("assistant", [_use("t3", "c.py")]),
        _line("user", [_result("t3", "c = 3")]),
        _line("assistant", [{"type": "text", "text": "Done."}]),
    ]


def codex() -> list[Wire]:
    """Make lines as Codex writes them: a header, events, reasoning, calls, outputs."""
    return [
        {"type": "session_meta", "payload": {"id": "s", "cwd": "/shop", "cli_version": "0.58.0"}},
        _item(type="message", role="user", content=[_text("input_text", "Fix the login.")]),
        {"type": "event_msg", "payload": {"type": "user_message", "message": "Fix the login."}},
        _item(type="reasoning", summary=[], encrypted_content="gAAA"),
        _item(type="function_call", name="shell", arguments='{"cmd": "ls"}', call_id="a"),
        {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
        _item(type="function_call_output", call_id="a", output="login.py"),
        _item(type="function_call", name="shell", arguments='{"cmd": "cat"}', call_id="b"),
        _item(type="function_call_output", call_id="b", output="def login(): ..."),
        _item(type="message", role="assistant", content=[_text("output_text", "Done.")]),
    ]


def _item(**payload: object) -> Wire:
    return {"type": "response_item", "timestamp": "2026-11-15T08:00:00Z", "payload": payload}


def _text(kind: str, text: str) -> Wire:
    return {"type": kind, "text": text}


def _line(role: str, content: object) -> Wire:
    return {"type": role, "uuid": "u", "message": {"role": role, "content": content}}


def _use(name: str, path: str) -> Wire:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {"path": path}}


def _result(name: str, text: str) -> Wire:
    return {"type": "tool_result", "tool_use_id": name, "content": text}


def lines(values: list[Wire]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_the_prefix_is_everything_before_the_first_answer(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps(chat()))
    (run,) = gather([str(tmp_path / "chat.json")]).trajectories
    assert run.id == "chat.json"
    assert run.pinned == 2
    assert list(run.messages) == chat()


def test_a_claude_code_log_becomes_paired_chat_messages(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(lines(claude_code()))
    (run,) = gather([str(tmp_path / "log.jsonl")]).trajectories
    assert run.pinned == 1
    assert is_paired(list(run.messages))
    first = run.messages[1]
    assert [call["id"] for call in first["tool_calls"]] == ["t1", "t2"]
    assert [m["content"] for m in run.messages[2:4]] == ["a = 1", "b = 2"]


def test_an_anthropic_request_keeps_its_system_prompt_pinned(tmp_path: Path) -> None:
    messages = [line["message"] for line in claude_code() if "message" in line]
    request = {"system": "You fix bugs.", "messages": messages}
    (tmp_path / "request.json").write_text(json.dumps(request))
    (run,) = gather([str(tmp_path / "request.json")]).trajectories
    assert run.pinned == 2
    assert run.messages[0] == {"role": "system", "content": "You fix bugs."}


def test_a_folder_is_searched_and_compressed_files_are_read(tmp_path: Path) -> None:
    inner = tmp_path / "project"
    inner.mkdir()
    (inner / "a.json.gz").write_bytes(gzip.compress(json.dumps(chat()).encode()))
    (tmp_path / "b.jsonl.xz").write_bytes(lzma.compress(lines(claude_code())))
    (tmp_path / "notes.txt").write_text("not looked at")
    found = gather([str(tmp_path)])
    assert [run.id for run in found.trajectories] == ["b.jsonl.xz", "project/a.json.gz"]
    assert found.passed == ()


def test_a_pattern_names_files_and_no_file_is_read_twice(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(chat()))
    found = gather([str(tmp_path / "*.json"), str(tmp_path / "one.json")])
    assert len(found.trajectories) == 1


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(chat()).encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    (run,) = gather(["-"]).trajectories
    assert run.id == "standard input"


def test_packed_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(json.dumps(chat()).encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    assert len(gather(["-"]).trajectories) == 1


def test_a_codex_session_becomes_paired_chat_messages(tmp_path: Path) -> None:
    (tmp_path / "rollout.jsonl").write_bytes(lines(codex()))
    (run,) = gather([str(tmp_path)]).trajectories
    assert is_paired(list(run.messages))
    assert [message["role"] for message in run.messages[run.pinned :]] == [
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "Fix the login." in str(run.messages[: run.pinned])


def test_an_empty_folder_is_an_error_that_says_what_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(BadInput, match="jsonl"):
        gather([str(tmp_path)])


def test_records_keep_their_own_names_and_prefix(tmp_path: Path) -> None:
    records: list[Wire] = [
        {"id": "r1", "messages": chat(), "pinned": 1},
        {"id": "r1", "messages": chat(), "pinned": 2},
        {"id": "r2", "messages": chat()},
    ]
    (tmp_path / "set.jsonl").write_bytes(lines(records))
    found = gather([str(tmp_path / "set.jsonl")])
    assert [(run.id, run.pinned) for run in found.trajectories] == [
        ("r1", 1),
        ("r1 (2)", 2),
        ("r2", 2),
    ]


def test_conversations_with_questions_are_distinguished(tmp_path: Path) -> None:
    talk = {
        "id": "t",
        "turns": [{"speaker": "A", "text": "It is blue."}],
        "questions": [{"q": "Which colour?", "evidence": [0]}],
    }
    (tmp_path / "talk.jsonl").write_bytes(lines([talk, talk]))
    found = gather([str(tmp_path / "talk.jsonl")])
    assert found.trajectories == ()
    assert [each.id for each in found.conversations] == ["t", "t (2)"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("text.json", b"this is not a transcript", "messages"),
        ("number.json", b"42", "holds a int"),
        ("short.json", json.dumps(chat()[:3]).encode(), "at least 2"),
        ("other.json.xz", b"not xz at all", "JSON"),
        ("broken.json.xz", lzma.compress(b"[]" * 999)[:-20], "cannot be unpacked"),
        ("broken.json.gz", gzip.compress(b"[]" * 999, mtime=0)[:15] + b"???", "cannot be unpacked"),
        ("noise.jsonl", bytes(range(256)) * 9, "JSON"),
        ("settings.json", b'{"model": "x"}', "messages"),
        ("empty.jsonl", b"  ", "is empty"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_cannot_be_replayed_is_skipped_with_a_reason(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.json").write_text(json.dumps(chat()))
    found = gather([str(tmp_path)])
    assert [run.id for run in found.trajectories] == ["good.json"]
    (passed,) = found.passed
    assert passed.name == name
    assert passed.reason
    assert reason in passed.reason


def test_what_may_not_be_read_is_skipped_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.json").write_text(json.dumps(chat()))
    for name in ("closed", "shut"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps(chat()))
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "up").symlink_to("..")
    os.mkfifo(tmp_path / "pipe.json")
    scandir, look = os.scandir, os.stat

    def listing(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    def looking(path: Any, **how: Any) -> os.stat_result:
        if "shut" in Path(path).parts[:-1]:
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, **how)

    def reading(path: Path) -> bytes:
        looking(path)
        with path.open("rb") as file:
            return file.read()

    monkeypatch.setattr(os, "scandir", listing)
    monkeypatch.setattr(os, "stat", looking)
    monkeypatch.setattr(Path, "read_bytes", reading)
    found = gather([str(tmp_path), str(tmp_path / "shut" / "a.json")])
    assert [run.id for run in found.trajectories] == ["good.json"]
    assert [(each.name, "cannot be read" in each.reason) for each in found.passed] == [
        ("closed", True),
        ("loop.json", True),
        ("shut/a.json", True),
    ]


def test_a_line_cut_by_a_crash_does_not_cost_the_transcript(tmp_path: Path) -> None:
    (tmp_path / "cut.jsonl").write_bytes(lines(claude_code()) + b'{"type": "assist')
    assert len(gather([str(tmp_path)]).trajectories) == 1


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(BadInput, match="does not exist"):
        gather(["nowhere/*.jsonl"])


def test_a_home_folder_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(BadInput, match="no home folder '~nobody-has-this-name'"):
        gather(["~nobody-has-this-name/*.jsonl"])


def test_the_sample_transcript_is_always_the_same_and_valid() -> None:
    first, second = recorded(), recorded()
    assert first == second
    assert is_paired(first)
