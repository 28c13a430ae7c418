"""pydantic-ai-harness on recorded runs: `ClearToolResults`."""

from __future__ import annotations

import asyncio

from pydantic_ai_harness.compaction import ClearToolResults  # type: ignore[import-not-found]
from recorded import START, Collect, Messages, main  # type: ignore[import-not-found]
from run_pydantic_harness import _built  # type: ignore[import-not-found]
from stopwatch import tokens  # type: ignore[import-not-found]


def clear(limit: int) -> Collect:
    """Every result but the last three becomes a fixed phrase, once there is more than the limit."""
    edit = ClearToolResults(max_tokens=int(limit * START), keep_pairs=3, tokenizer=tokens)

    def collect(history: Messages) -> Messages:
        names = {c["id"]: c["function"]["name"] for m in history for c in m.get("tool_calls") or ()}
        built = [_built({**m, "content": m.get("content") or ""}, names) for m in history]
        left = asyncio.run(edit.compact(built, None))
        assert len(left) == len(history)
        return [
            {**was, "content": now.parts[0].content} if was["role"] == "tool" else was
            for was, now in zip(history, left, strict=True)
        ]

    return collect


if __name__ == "__main__":
    main({"clear": clear})
