"""pydantic-ai-harness: `ClearToolResults`. It clears all results but the last; it has no target."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai_harness.compaction import ClearToolResults  # type: ignore[import-not-found]
from stopwatch import Messages, Work, main, tokens  # type: ignore[import-not-found]


def clear(messages: Messages, budget: int) -> Work:  # noqa: ARG001
    """Every result but the last three becomes a fixed phrase."""
    names = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls", ())
    }
    built = [_built(message, names) for message in messages]
    edit = ClearToolResults(max_tokens=1, keep_pairs=3, tokenizer=tokens)
    return lambda: asyncio.run(edit.compact(built, None))


def _built(message: dict[str, Any], names: dict[str, str]) -> object:
    said = message["content"]
    if message["role"] == "system":
        return ModelRequest(parts=[SystemPromptPart(said)])
    if message["role"] == "user":
        return ModelRequest(parts=[UserPromptPart(said)])
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        return ModelRequest(parts=[ToolReturnPart(names[call_id], said, call_id)])
    calls = [
        ToolCallPart(c["function"]["name"], c["function"]["arguments"], c["id"])
        for c in message.get("tool_calls") or ()
    ]
    return ModelResponse(parts=[TextPart(said), *calls])


if __name__ == "__main__":
    main("pydantic-ai-harness", {"clear": clear})
