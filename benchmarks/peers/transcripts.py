"""Tool-heavy transcripts in the format of OpenAI chat completions, the same on every machine."""

from __future__ import annotations

import json
import random
from typing import Any

CALLS_PER_REQUEST = 40
"""Tool calls between two messages of the user."""

FILES = 300
"""Files the agent works on, repeatedly."""

WORDS = (
    "parse",
    "token",
    "buffer",
    "index",
    "commit",
    "socket",
    "retry",
    "queue",
    "cache",
    "merge",
)


def transcript(calls: int) -> list[dict[str, Any]]:
    """An agent at work: system prompt, requests, and calls whose outputs make up most of it."""
    chance = random.Random(calls)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a careful engineer. " * 20}
    ]
    for n in range(calls):
        if n % CALLS_PER_REQUEST == 0:
            messages.append({"role": "user", "content": f"Task {n}: mend the parser, step {n}."})
        name = chance.choice(("read_file", "read_file", "run", "edit_file"))
        args = {"path": f"src/module_{chance.randrange(FILES)}.py"}
        call = {"name": name, "arguments": json.dumps(args)}
        messages.append(
            {
                "role": "assistant",
                "content": f"Step {n}: {chance.choice(WORDS)} first.",
                "tool_calls": [{"id": f"call_{n}", "type": "function", "function": call}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": _output(chance)})
    messages.append({"role": "user", "content": "And now the tests."})
    return messages


def _output(chance: random.Random) -> str:
    """Lines as in a file or a log: 600 to 2,400 characters, one in eight short."""
    lines = 2 if chance.randrange(8) == 0 else chance.randrange(12, 48)
    return "\n".join(
        f"{line:4d}  {chance.choice(WORDS)}_{chance.randrange(10_000)} = {chance.choice(WORDS)}(x)"
        for line in range(lines)
    )


def approximate_tokens(messages: list[dict[str, Any]]) -> int:
    """Four characters a token and three tokens a message: the counter that all peers get."""
    return sum(3 + -(-_characters(message) // 4) for message in messages)


def _characters(message: dict[str, Any]) -> int:
    said = len(message.get("content") or "")
    calls = message.get("tool_calls") or ()
    return said + sum(len(c["function"]["name"]) + len(c["function"]["arguments"]) for c in calls)
