"""Microsoft Agent Framework's compaction on recorded runs, as an agent's run keeps its list."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_framework import ToolResultCompactionStrategy, TruncationStrategy, apply_compaction
from recorded import LAND, START, Collect, Messages, main  # type: ignore[import-not-found]
from run_agent_framework import Counter, _built  # type: ignore[import-not-found]


def truncate(limit: int) -> Collect:
    """The oldest groups are excluded."""
    lines = {"max_n": int(limit * START), "compact_to": int(limit * LAND)}
    return _compaction(TruncationStrategy(**lines, tokenizer=Counter()))


def compact(limit: int) -> Collect:  # noqa: ARG001
    """All but the last groups of calls become a summary of their results. It has no budget."""
    return _compaction(ToolResultCompactionStrategy(keep_last_tool_call_groups=3))


def _compaction(strategy: object) -> Collect:
    state: list[Any] = []
    seen = 0

    def collect(history: Messages) -> Messages:
        nonlocal seen
        for number, message in enumerate(history[seen:], seen):
            state.append(_built(message))
            state[-1].message_id = str(number)
        seen = len(history)
        left = asyncio.run(apply_compaction(state, strategy=strategy, tokenizer=Counter()))
        return [
            history[int(m.message_id)]
            if m.message_id.isdigit()
            else {"role": m.role, "content": m.text}
            for m in left
        ]

    return collect


if __name__ == "__main__":
    main({"truncate": truncate, "compact": compact})
