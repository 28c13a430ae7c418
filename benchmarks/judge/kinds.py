"""Kinds of runs on which nothing of the strategies was tuned, made from the recorded ones.

    coding_sessions   the two long coding sessions with tool calls, in parts that a small model can
                      read whole
    mini_swe_calls    bug fixing, with the command of each message as a tool call and its output as
                      the result
    beam100k          long chats of a user and an assistant without tools, in parts

A strategy that is good at the runs it was made for may still be worse than truncation at others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from marksweep.replay.records import Conversation, Count, Trajectory, Wire, price, read_records

MOST = 6500
"""Tokens of a part, with the pinned prefix, at most: a small model reads it whole."""
LEAST_MESSAGES = 8
"""Messages of a part at least."""
_COMMAND = re.compile(r"```bash\n(.*?)```", re.DOTALL)


def coding_sessions(folder: Path, count: Count) -> Iterator[Trajectory]:
    """Yield parts of the long coding sessions."""
    for run in read_records(folder / "coding_sessions.jsonl.xz", Trajectory):
        yield from _parts(run, 12, count)


def mini_swe_calls(folder: Path, count: Count) -> Iterator[Trajectory]:
    """Yield runs of bug fixing whose commands are tool calls."""
    del count
    for run in read_records(folder / "mini_swe.jsonl.xz", Trajectory):
        pinned = run.messages[: run.pinned]
        yield Trajectory(run.id, (*pinned, *_with_calls(run.messages[run.pinned :])), run.pinned)


def beam100k(folder: Path, count: Count) -> Iterator[Trajectory]:
    """Yield parts of long chats; their first message is the pinned prefix."""
    for chat in read_records(folder / "beam100k.jsonl.xz", Conversation):
        messages: list[Wire] = [
            {"role": "assistant" if turn.speaker == "assistant" else "user", "content": turn.text}
            for turn in chat.turns
        ]
        first = next(at for at, message in enumerate(messages) if message["role"] == "user")
        yield from _parts(Trajectory(chat.id, tuple(messages[first:]), 1), 9, count)


KINDS: dict[str, Callable[[Path, Count], Iterator[Trajectory]]] = {
    "coding_sessions": coding_sessions,
    "mini_swe_calls": mini_swe_calls,
    "beam100k": beam100k,
}


def _parts(run: Trajectory, stride: int, count: Count) -> Iterator[Trajectory]:
    """Yield the prefix with what follows it from every so many messages on, up to MOST tokens."""
    sizes = [price(message, count) for message in run.messages]
    prefix = run.messages[: run.pinned]
    start = run.pinned
    while start < len(run.messages):
        while start < len(run.messages) and run.messages[start]["role"] == "tool":
            start += 1  # Its call is not in this part.
        end, tokens = start, sum(sizes[: run.pinned])
        while end < len(run.messages) and tokens + sizes[end] <= MOST:
            tokens += sizes[end]
            end += 1
        if end - start >= LEAST_MESSAGES:
            messages = (*prefix, *run.messages[start:end])
            yield Trajectory(f"{run.id}+{start}", messages, run.pinned)
        start += stride


def _with_calls(messages: Sequence[Wire]) -> Iterator[Wire]:
    """Yield messages with each answered command as a call, and its output as the result."""
    answered = ""
    for at, message in enumerate(messages):
        found = _COMMAND.search(message["content"])
        follows = messages[at + 1]["role"] if at + 1 < len(messages) else ""
        if message["role"] == "assistant" and found is not None and follows == "user":
            answered = f"call_{at}"
            arguments = json.dumps({"command": found[1].strip()})
            function = {"name": "bash", "arguments": arguments}
            said = message["content"].replace(found[0], "").strip()
            calls = [{"id": answered, "type": "function", "function": function}]
            yield {"role": "assistant", "content": said, "tool_calls": calls}
        elif answered and message["role"] == "user":
            yield {"role": "tool", "tool_call_id": answered, "content": message["content"]}
            answered = ""
        else:
            yield message
