"""Random histories, broken the way crashes and careless tools break them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from marksweep.testing.histories import Raw, valid

GARBAGE: tuple[Any, ...] = (
    None,
    7,
    "text",
    [],
    {},
    {"role": "banana", "content": "?"},
    {"role": "user"},
    {"role": "user", "content": 7},
    {"role": "user", "content": ""},
    {"role": "user", "parts": "?"},
    {"role": "assistant", "content": [], "tool_calls": {}},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "?"}]},
    {"role": "system", "content": "be brief"},
    {"role": "tool", "tool_call_id": "nobody", "content": None},
    {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
    {"type": "function_call_output", "call_id": "nobody", "output": "?"},
    {"type": "reasoning", "id": "rs", "summary": []},
    {"type": "from the future", "content": "?"},
)
LISTS = ("content", "parts", "tool_calls")
FIELDS = ("content", "parts", "tool_calls", "role", "type", "call_id", "tool_call_id")


@st.composite
def broken(draw: st.DrawFn, dialect: str, max_beats: int = 8) -> list[Any]:
    """Make histories that are cut, shuffled, emptied, duplicated, or partly not a history."""
    history: list[Any] = copy.deepcopy(draw(valid(dialect, max_beats)))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, max(0, len(history) - 1)))
        harm = draw(st.sampled_from(["drop", "double", "swap", "junk", "block", "field", "empty"]))
        if harm == "junk":
            history.insert(at, copy.deepcopy(draw(st.sampled_from(GARBAGE))))
        elif history and harm == "drop":
            history.pop(at)
        elif history and harm == "double":
            history.append(copy.deepcopy(history[at]))
        elif history and harm == "swap":
            other = draw(st.integers(0, len(history) - 1))
            history[at], history[other] = history[other], history[at]
        elif history and isinstance(history[at], dict):
            _harm_message(draw, history[at], harm)
    return history


def _harm_message(draw: st.DrawFn, message: Raw, harm: str) -> None:
    held = next((message[key] for key in LISTS if isinstance(message.get(key), list)), None)
    if harm == "field":
        fields = [key for key in FIELDS if key in message]
        if fields:
            message[draw(st.sampled_from(fields))] = draw(st.sampled_from([None, 7, "", [], {}]))
    elif held and harm == "block":
        held.pop(draw(st.integers(0, len(held) - 1)))
    elif held and harm == "empty":
        block = held[draw(st.integers(0, len(held) - 1))]
        if isinstance(block, dict):
            for key in ("text", "id", "tool_use_id", "signature"):
                if key in block:
                    block[key] = ""
