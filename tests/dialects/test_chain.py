"""The chain of a Claude Code session: which lines are live, and what holds after a collection."""

from __future__ import annotations

from typing import Any

import pytest

from marksweep.dialects import repair, validate
from marksweep.dialects.chain import faults, live, relinked
from marksweep.dialects.history import read
from marksweep.reading import tidy


def line(uuid: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **more.pop("message", {})}
    base = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "isSidechain": False}
    return {**base, "type": role, "message": message, **more}


def session(steps: int) -> list[dict[str, Any]]:
    lines = [line("u", None, "user", "fix the parser")]
    for n in range(steps):
        use = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": f"{n}.py"}}
        text = f"content of file {n}\n" * 60
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": text}
        usage = {"input_tokens": 10, "cache_read_input_tokens": 400 * (n + 1)}
        lines += [
            line(f"a{n}", lines[-1]["uuid"], "assistant", [use], message={"usage": usage}),
            line(f"r{n}", f"a{n}", "user", [result], toolUseResult={"stdout": text}),
        ]
    return lines


def test_what_was_rewound_is_not_live() -> None:
    lines = session(3)
    other = line("x", "u", "user", "rather fix the lexer")
    assert live([*lines, other]) == {0, len(lines)}
    assert len(read([*lines, other], "claude_code").messages) == 2


def test_what_was_compacted_is_not_live() -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None}
    after = line("s", "b", "user", "This session is being continued …")
    lines = [*session(3), boundary, after]
    assert live(lines) == {len(lines) - 2, len(lines) - 1}


def test_results_of_calls_made_at_once_are_live_together() -> None:
    def use(n: int) -> dict[str, Any]:
        return {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {}}

    def result(n: int) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": f"t{n}", "content": "x"}

    lines = [
        line("u", None, "user", "look"),
        line("a1", "u", "assistant", [use(1)], message={"id": "msg"}),
        line("a2", "a1", "assistant", [use(2)], message={"id": "msg"}),
        line("r1", "a1", "user", [result(1)]),
        line("r2", "a2", "user", [result(2)]),
        line("a3", "r2", "assistant", "done"),
    ]
    assert live(lines) == set(range(6))
    assert validate(lines) == []


def test_a_session_without_links_is_live_as_a_whole() -> None:
    lines = [{"type": "user", "message": {"role": "user", "content": "hi"}}]
    assert live(lines) == {0}
    assert relinked(lines, lines) == lines


@pytest.mark.parametrize("strategy", ["coverage", "truncate", "mask", "summarize", "hybrid"])
def test_what_is_left_after_a_collection_is_one_chain(strategy: str) -> None:
    lines = session(30)
    left = tidy(lines, limit=3_000, strategy=strategy, dialect="claude_code")
    assert left != lines
    assert faults(left) == []
    spoken = [i for i, each in enumerate(left) if each.get("type") in ("user", "assistant")]
    assert set(spoken) <= live(left)
    assert validate(left) == []
    assert len({each["uuid"] for each in left}) == len(left)
    assert all(each["sessionId"] == "s" for each in left)


def test_a_shortened_result_is_shortened_where_the_client_shows_it_too() -> None:
    lines = session(30)
    whole = {each["uuid"]: each for each in lines}
    for each in tidy(lines, limit=3_000, strategy="mask", dialect="claude_code"):
        old = whole.get(each["uuid"])
        if old is not None and old["message"] != each["message"] and "toolUseResult" in old:
            assert each["toolUseResult"] == each["message"]["content"][0]["content"]


def test_the_window_that_the_last_response_reported_shrinks() -> None:
    def reported(lines: list[Any]) -> int:
        answers = [each["message"] for each in lines if each["type"] == "assistant"]
        return int(sum(answers[-1]["usage"].values()))

    lines = session(30)
    left = tidy(lines, limit=3_000, strategy="truncate", dialect="claude_code")
    assert reported(left) < reported(lines) / 2


def test_a_broken_chain_is_found() -> None:
    lines = session(3)
    del lines[2]
    assert "lines-linked" in [finding.rule for finding in validate(lines)]
    lines = [*session(2), {"type": "user", "message": {"role": "user", "content": "hi"}}]
    assert [finding.rule for finding in validate(lines)] == ["lines-linked"]


def test_a_broken_chain_is_repaired_and_lines_without_a_parent_are_live_again() -> None:
    whole = session(3)
    lines = [line for i, line in enumerate(whole) if i != 3]
    lines.append({"type": "user", "message": {"role": "user", "content": "and now?"}})
    assert len(read(lines, "claude_code").messages) < len(lines)
    fixed, changes = repair(lines)
    assert [change.rule for change in changes].count("lines-linked") == 2
    assert not validate(fixed)
    assert len(read(fixed, "claude_code").messages) == len(lines) - 1  # a result without its call
    assert fixed[:3] == lines[:3]
    assert repair(fixed) == (fixed, [])


def test_a_valid_chain_is_left_unchanged() -> None:
    lines = session(3)
    assert repair(lines)[0] is lines


def test_a_line_that_a_collection_puts_first_is_live_when_the_session_is_read_again() -> None:
    repaired, _ = repair(session(2)[1:], "claude_code")
    assert repaired[0]["type"] == "user"
    assert live(repaired) == set(range(len(repaired)))
    assert validate(repaired, "claude_code") == []


@pytest.mark.parametrize("odd", [[], {}, ["x"], 1, True])
@pytest.mark.parametrize("field", ["type", "uuid", "parentUuid", "message"])
def test_a_damaged_field_of_a_line_does_no_harm(field: str, odd: object) -> None:
    damaged = {**line("x", "r0", "assistant", "ok", message={"id": "msg"}), field: odd}
    lines = [*session(1), damaged]
    assert validate(lines, "claude_code") is not None
    assert len(read(lines, "claude_code").messages) >= 3


@pytest.mark.parametrize("odd", [[], {}, ["x"], 1, True])
def test_a_damaged_id_of_a_response_does_no_harm(odd: object) -> None:
    lines = [*session(1), line("x", "r0", "assistant", "ok", message={"id": odd})]
    assert live(lines) == set(range(len(lines)))
