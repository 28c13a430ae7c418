from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from marksweep.dialects import read, read_lines, repair, validate, write, written
from marksweep.dialects.transcripts import read_transcript
from marksweep.errors import BadInput
from marksweep.messages import Role

SNAPSHOT = {"type": "file-history-snapshot", "messageId": "1", "snapshot": {}}


def line(number: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s",
        "isSidechain": False,
        "type": role,
        "message": {"role": role, "content": content},
        **more,
    }


USE = {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "a.py"}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "x = 1"}
SESSION = [
    SNAPSHOT,
    line(0, "user", "read a.py"),
    line(1, "assistant", [{"type": "thinking", "thinking": "hm", "signature": "sig"}]),
    line(2, "assistant", [USE], requestId="r"),
    line(3, "user", [{"type": "text", "text": "sub-task"}], isSidechain=True),
    line(4, "user", [RESULT], toolUseResult={"file": {"content": "x = 1"}}),
    SNAPSHOT,
    line(5, "assistant", [{"type": "text", "text": "x is 1"}]),
]

ITEM = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
ROLLOUT = [
    {"timestamp": "t0", "type": "session_meta", "payload": {"id": "x", "instructions": None}},
    {
        "timestamp": "t1",
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "list"}],
        },
    },
    {"timestamp": "t2", "type": "event_msg", "payload": {"type": "token_count"}},
    {"timestamp": "t3", "type": "response_item", "payload": ITEM},
    {
        "timestamp": "t4",
        "type": "response_item",
        "payload": {"type": "function_call_output", "call_id": "c", "output": "a.py"},
    },
    {"timestamp": "t5", "type": "response_item", "payload": {"type": "ghost_snapshot"}},
]


def lines(values: list[Any]) -> list[str]:
    return [json.dumps(value) for value in values]


def test_a_claude_code_session_is_read_and_written_back_to_the_last_field() -> None:
    history = read_lines(lines(SESSION))
    assert history.dialect == "claude_code"
    assert [m.role for m in history.messages] == [
        Role.USER,
        Role.MODEL,
        Role.MODEL,
        Role.TOOL,
        Role.MODEL,
    ]
    assert [aside.position for aside in history.asides] == [0, 4, 6]
    assert history.skipped == ()
    assert write(history) == SESSION
    assert validate(SESSION) == []


def test_what_is_left_of_a_session_keeps_its_lines_in_order() -> None:
    history = read_lines(lines(SESSION))
    assert write(history, [history.messages[0], history.messages[4]]) == [
        SESSION[0],
        SESSION[1],
        SESSION[4],
        SESSION[6],
        {**SESSION[7], "parentUuid": "u0"},
    ]


def test_a_session_can_be_sent_to_its_provider() -> None:
    history = read_lines(lines(SESSION))
    sent = written(history.messages, "anthropic")
    assert sent == [SESSION[i]["message"] for i in (1, 2, 3, 5, 7)]
    assert validate(sent, "anthropic") == []
    assert validate(written(history.messages, "openai_chat"), "openai_chat") == []


def test_a_session_that_was_cut_is_read_up_to_there_and_repaired() -> None:
    cut: list[str | bytes] = [
        *lines(SESSION[:5]),
        '{"uuid": "u9", "type": "user", "mess',
        "",
        b"\xff\xfe",
    ]
    history = read_lines(cut)
    assert len(history.messages) == 3
    assert [skipped.position for skipped in history.skipped] == [5, 7]
    assert "line 6 is not JSON" in history.skipped[0].reason
    later = [*SESSION[:5], line(9, "user", "go on", parentUuid="u2")]
    findings = validate(later)
    assert [(f.rule, f.provider) for f in findings] == [("calls-answered", "anthropic")]
    repaired, changes = repair(later)
    assert [change.rule for change in changes] == ["calls-answered"]
    assert repaired[-1]["message"] == later[-1]["message"]
    uuids = [each["uuid"] for each in repaired if each.get("isSidechain") is False]
    assert repaired[-1]["parentUuid"] == uuids[-2]
    assert repaired[:4] == later[:4]
    assert validate(repaired) == []


def test_a_lone_surrogate_in_a_line_does_no_harm() -> None:
    cut = {**RESULT, "content": "the end of an emoji \ud83d"}
    session = [line(4, "user", [cut]) if value is SESSION[5] else value for value in SESSION]
    for given in (lines(session), [text.encode() for text in lines(session)]):
        history = read_lines(given)
        assert history.skipped == ()
        assert write(history) == session
        assert validate(written(history.messages, "anthropic"), "anthropic") == []
    (skipped,) = read_lines(['{"half": "\\ud83d", "number": NaN}']).skipped
    assert skipped.reason.startswith("line 1 is not JSON")


def test_a_codex_rollout_is_read_and_written_back_to_the_last_field() -> None:
    history = read_lines(lines(ROLLOUT))
    assert history.dialect == "codex"
    assert [m.role for m in history.messages] == [Role.USER, Role.MODEL, Role.TOOL]
    assert [aside.position for aside in history.asides] == [0, 2, 5]
    assert write(history) == ROLLOUT
    assert written(history.messages, "openai_responses") == [
        ROLLOUT[i]["payload"] for i in (1, 3, 4)
    ]


def test_an_old_rollout_with_bare_items_is_read() -> None:
    old = [
        {"id": "x", "timestamp": "t", "instructions": None},
        {"record_type": "state"},
        ITEM,
        {"type": "function_call_output", "call_id": "c", "output": "a.py"},
    ]
    history = read_lines(lines(old), "codex")
    assert [m.role for m in history.messages] == [Role.MODEL, Role.TOOL]
    assert write(history) == old
    assert write(history, []) == old[:2]


def test_empty_input_is_an_empty_history() -> None:
    assert read_lines([]).messages == ()
    assert validate([]) == []
    assert repair([]) == ([], [])


def test_a_file_that_unpacks_to_more_than_it_may_is_refused() -> None:
    packed = gzip.compress("\n".join(lines(SESSION)).encode())
    assert len(read_transcript(packed, "session.gz", most=100_000).history.messages) == 5
    with pytest.raises(BadInput, match="unpacks to more than 100 bytes"):
        read_transcript(packed, "session.gz", most=100)


def test_of_a_codex_session_only_what_follows_its_last_compaction_is_live() -> None:
    """Codex continues from there; the lines before stay in the file unchanged."""
    compacted = {"timestamp": "t", "type": "compacted", "payload": {"message": "what was done"}}
    later = [*ROLLOUT, compacted, *ROLLOUT[1:]]
    history = read_lines(lines(later))
    assert [m.role for m in history.messages] == [Role.USER, Role.MODEL, Role.TOOL]
    assert min(history.positions) == len(ROLLOUT) + 1
    assert write(history) == later
    assert write(history, history.messages[:1])[: len(ROLLOUT) + 1] == later[: len(ROLLOUT) + 1]
    assert validate(later) == validate(ROLLOUT) == []


@pytest.mark.parametrize("odd", [[], {}, ["x"], 1, None])
def test_a_damaged_type_in_a_codex_rollout_does_no_harm(odd: object) -> None:
    item = {"type": "message", "role": "user", "content": "hello"}
    whole = {"type": "response_item", "payload": item}
    inside = {"type": "response_item", "payload": {**item, "type": odd}}
    found = read([whole, inside, {"type": odd}], "codex")
    assert "hello" in found.messages[0].text
