"""Microsoft Agent Framework: `TruncationStrategy` and `ToolResultCompactionStrategy`."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_framework import (
    Content,
    Message,
    ToolResultCompactionStrategy,
    TruncationStrategy,
    apply_compaction,
)
from stopwatch import Messages, Work, main, tokens  # type: ignore[import-not-found]


class Counter:
    """The counter that all peers get."""

    def count_tokens(self, text: str) -> int:
        """Count."""
        return tokens(text)  # type: ignore[no-any-return]


def truncate(messages: Messages, budget: int) -> Work:
    """The oldest groups are left out until the rest fits."""
    strategy = TruncationStrategy(max_n=budget, compact_to=budget, tokenizer=Counter())
    return _compaction(messages, strategy)


def compact(messages: Messages, budget: int) -> Work:  # noqa: ARG001
    """All but the last groups of calls become a summary of their results. It has no budget."""
    return _compaction(messages, ToolResultCompactionStrategy(keep_last_tool_call_groups=3))


def _compaction(messages: Messages, strategy: object) -> Work:
    built = [_built(message) for message in messages]
    return lambda: asyncio.run(apply_compaction(built, strategy=strategy, tokenizer=Counter()))


def _built(message: dict[str, Any]) -> object:
    if message["role"] == "tool":
        result = Content.from_function_result(message["tool_call_id"], result=message["content"])
        return Message("tool", [result])
    calls = [
        Content.from_function_call(
            c["id"], c["function"]["name"], arguments=c["function"]["arguments"]
        )
        for c in message.get("tool_calls") or ()
    ]
    return Message(message["role"], [message["content"], *calls])


if __name__ == "__main__":
    main("agent-framework-core", {"truncate": truncate, "compact": compact})
