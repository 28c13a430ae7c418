"""Superseded: a result goes only if what came later says the same or more."""

from __future__ import annotations

from typing import Any

from marksweep import Conversation


def asked(n: int, name: str, args: str) -> list[dict[str, Any]]:
    call = {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": args}}
    result = "\n".join(f"{name} {n}: line {line}" for line in range(100))
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{n}", "content": result},
    ]


def reasons(*steps: tuple[str, str]) -> list[str]:
    talk = Conversation(limit=100_000, strategy="superseded")
    talk.extend([{"role": "user", "content": "look"}])
    for n, (name, args) in enumerate(steps):
        talk.extend(asked(n, name, args))
    talk.extend([{"role": "user", "content": "and?"}])
    return [step.reason for step in talk.plan(10).steps if "superseded" in step.reason]


def test_a_part_of_a_file_is_superseded_by_the_whole_of_it() -> None:
    part, whole = ("read", '{"path": "a.py", "offset": 1}'), ("read", '{"path": "a.py"}')
    assert reasons(part, whole) == ["superseded: a.py was read whole later"]


def test_a_file_is_not_superseded_by_what_another_tool_says_of_it() -> None:
    read, lint = ("read", '{"path": "a.py"}'), ("lint", '{"path": "a.py"}')
    assert reasons(read, lint) == []


def test_what_was_read_is_superseded_once_the_file_is_written() -> None:
    read, edit = ("read", '{"path": "a.py"}'), ("edit", '{"path": "a.py", "to": "x"}')
    assert reasons(read, edit) == ["superseded: a.py was written later"]
