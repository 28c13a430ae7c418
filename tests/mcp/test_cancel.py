"""A call that is cancelled leaves a consistent state."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from tests.mcp.support import Agent, with_agent


def test_a_cancelled_sweep_is_either_complete_or_absent(tmp_path: Path, mode: str) -> None:
    names = [f"s{number}" for number in range(200)]

    async def work(one: Agent) -> None:
        await one.add(*names, times=2)
        for wait in (0.0, 0.002, 0.01, 0.03):
            with anyio.move_on_after(wait):
                await one.client.call_tool("context_gc_prune", {"segment_ids": names})
            events = await settled(one)
            swept = events.count("sweeping")
            assert events.count("swept") == swept
            live = len((await one.call("context_gc_analyze", target_tokens=0))["candidates"])
            assert live in (0, 20)
            if swept:
                break

    with_agent(tmp_path, work, mode)


async def settled(one: Agent) -> list[str]:
    """Return the events of the journal, once nothing is in progress: a sweep always finishes."""
    for _ in range(100):
        events = [each["event"] for each in (await one.call("context_gc_history"))["events"]]
        if events.count("sweeping") == events.count("swept"):
            return events
        await asyncio.sleep(0.02)
    pytest.fail("a sweep never ended")


def test_a_cancelled_index_is_completed_by_the_next(tmp_path: Path, mode: str) -> None:
    for number in range(150):
        (tmp_path / f"m{number}.py").write_text(f"def f{number}():\n    return {number}\n")

    async def work(one: Agent) -> None:
        with anyio.move_on_after(0.3):
            await one.client.call_tool("index_codebase", {})
        indexed = await one.call("index_codebase")
        assert indexed["files"] + indexed["unchanged"] == 150
        stats = await one.call("memory_stats")
        assert (stats["memories"], stats["stale"]) == (150, 0)

    with_agent(tmp_path, work, mode)


def test_reading_a_session_can_be_cancelled(tmp_path: Path, mode: str) -> None:
    line = '{"role": "user", "content": "word word word word word"}\n'
    (tmp_path / "long.jsonl").write_text(line * 20_000)

    async def work(one: Agent) -> None:
        with anyio.move_on_after(0.05):
            await one.client.call_tool("context_gc_analyze", {"transcript": "long.jsonl"})
        assert (await one.call("context_gc_history"))["events"] == []

    with_agent(tmp_path, work, mode)
