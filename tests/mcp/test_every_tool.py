"""Every tool over every transport and protocol: it works, refuses, asks, and can be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from marksweep.mcp.app import TOOLS
from tests.mcp.support import Agent
from tests.mcp.test_asking import LONG, Model, User
from tests.mcp.test_cancel import settled
from tests.mcp.test_gc_tools import session_lines
from tests.mcp.transports import TRANSPORTS, reached

Reach = Callable[..., None]


@pytest.fixture(params=TRANSPORTS)
def reach(request: pytest.FixtureRequest, tmp_path: Path, mode: str) -> Reach:
    """Let an agent do some work over one transport and protocol."""

    def work_there(work: Callable[[Agent], Awaitable[None]], **offers: Any) -> None:
        async def run() -> None:
            async with reached(str(request.param), tmp_path, mode, **offers) as one:
                await work(one)

        asyncio.run(run())

    return work_there


class Listed(Agent):
    """An agent that records which tools it called."""

    def __init__(self, one: Agent) -> None:
        super().__init__(one.client)
        self.called: set[str] = set()

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        self.called.add(tool)
        return await super().call(tool, **arguments)


def test_every_tool_does_its_work(reach: Reach, tmp_path: Path) -> None:
    (tmp_path / "parse.py").write_text("def parse(text):\n    return text.split()\n")
    (tmp_path / "gone.py").write_text("def gone():\n    return 0\n")
    session_lines(tmp_path / "session.jsonl")

    async def work(agent: Agent) -> None:
        one = Listed(agent)
        await one.add("a", "b", "c")
        assert (await one.call("context_focus", task="t"))["task"] == "t"
        assert (await one.call("context_gc_configure", batch=5))["changed"] == ["steps.batch"]
        assert (await one.call("context_gc_pin", segment_ids=["a"]))["pinned"] is True
        plan = (await one.call("context_gc_analyze", target_tokens=0))["plan_id"]
        assert sorted((await one.call("context_gc_prune", plan_id=plan))["stashed"]) == ["b", "c"]
        assert len((await one.call("context_search"))["segments"]) == 1
        assert (await one.call("context_recall", segment_ids=["b"]))["restored"] == ["b"]
        assert (await one.call("context_gc_undo", plan_id=plan))["restored"] == ["c"]
        assert (await one.call("context_gc_unpin", segment_ids=["a"]))["pinned"] is False
        short = await one.call("context_gc_compress", segment_id="a", text="short")
        assert short["tokens_after"] < short["tokens_before"]
        assert (await one.call("context_gc_history"))["events"]
        weighed = await one.call("context_gc_analyze", transcript="session.jsonl")
        assert weighed["transcript"]["dead_tokens"] > 0
        assert (await one.call("index_codebase"))["functions"] == 2
        assert (await one.call("search_memory", query="parse"))["hits"]
        (tmp_path / "gone.py").unlink()
        await one.call("index_codebase")
        assert (await one.call("memory_stats"))["stale"] == 1
        assert (await one.call("prune_memory"))["planned"]["memories"]
        given = {"dry_run": False, "confirm": True, "workspace_id": "default"}
        assert (await one.call("prune_memory", **given))["deleted"]["memories"]
        audit = (await one.call("memory_history"))["events"]
        assert [each["event"] for each in audit][:2] == ["swept", "sweeping"]
        assert (await one.call("restore_memory", plan_id=audit[0]["plan_id"]))["restored"]["chunks"]
        (root,) = (await one.call("memory_roots"))["roots"]
        assert (root["path"], root["files"], root["there"]) == (str(tmp_path), 3, True)
        parse = (await one.call("search_memory", query="parse"))["hits"][0]["memory_id"]
        assert (await one.call("memory_pin", memory_ids=[parse, "no"]))["found"] == 1
        assert (await one.call("memory_pin", memory_ids=parse, remove=True))["pinned"] is False
        assert (await one.call("memory_merge"))["groups"] == []
        dropped = await one.call("memory_drop_root", path=str(tmp_path))
        assert dropped["memories"] == 3
        assert (await one.call("search_memory", query="parse"))["hits"] == []
        await one.call("restore_memory", plan_id=dropped["plan_id"])
        assert (await one.call("search_memory", query="parse"))["hits"]
        assert one.called == {tool.name for tool in TOOLS}

    reach(work)


BAD: dict[str, list[tuple[dict[str, Any], str]]] = {
    "context_add": [({}, "missing"), ({"segments": [{"text": ""}]}, "segments.0.text")],
    "context_focus": [({"active_lines": [1, 2]}, "Name the file")],
    "context_search": [({"limit": 0}, "'limit' is 0"), ({"since": "soon"}, "'since'")],
    "context_recall": [({}, "either words"), ({"words": "x", "limit": 0}, "'limit' is 0")],
    "context_gc_pin": [({}, "missing"), ({"segment_ids": ["no"]}, "not in the working set")],
    "context_gc_unpin": [({}, "missing"), ({"segment_ids": ["no"]}, "not in the working set")],
    "context_gc_configure": [({"batch": 4}, "'batch' is 4")],
    "context_gc_analyze": [
        ({"max_candidates": -1}, "max_candidates"),
        ({"transcript": "/etc/passwd"}, "outside the folders"),
    ],
    "context_gc_prune": [({}, "either segment_ids"), ({"segment_ids": ["no"]}, "not live")],
    "context_gc_undo": [({}, "nothing to undo"), ({"plan_id": "no"}, "no")],
    "context_gc_history": [({"limit": "many"}, "'limit' is 'many'")],
    "context_gc_compress": [({}, "missing"), ({"segment_id": "no"}, "no segment 'no'")],
    "index_codebase": [({"path": ".."}, "outside the folders"), ({"languages": ["x"]}, "x")],
    "search_memory": [({}, "missing"), ({"query": ""}, "'query' is ''")],
    "prune_memory": [({"strategy": "every"}, "'strategy'"), ({"dry_run": False}, "confirm")],
    "restore_memory": [({}, "either plan_id"), ({"plan_id": "no"}, "no")],
    "memory_history": [({"events": ["lost"]}, "'events.0' is 'lost'")],
    "memory_pin": [({}, "missing"), ({"memory_ids": []}, "'memory_ids'")],
    "memory_roots": [({"workspace_id": [3]}, "'workspace_id' is [3]")],
    "memory_merge": [({"plan_id": "no"}, "no")],
    "memory_drop_root": [({}, "missing"), ({"root": "/no"}, "the roots are: none")],
    "memory_stats": [({"workspace_id": [3]}, "'workspace_id' is [3]")],
}


def test_every_tool_refuses_bad_input_with_a_reason(reach: Reach) -> None:
    assert set(BAD) == {tool.name for tool in TOOLS}

    async def work(one: Agent) -> None:
        for tool, cases in BAD.items():
            for arguments, expected in cases:
                assert expected in await one.fail(tool, **arguments)
            assert "no parameter 'stray'" in await one.fail(tool, stray=1)
        assert (await one.call("context_gc_configure"))["usage"]["current"] == 0

    reach(work)


@pytest.mark.parametrize("agrees", [True, False])
def test_a_deletion_is_asked_about(reach: Reach, agrees: bool) -> None:
    user = User("accept", {"delete": True}) if agrees else User("decline")

    async def work(one: Agent) -> None:
        await one.add("a")
        wanted = {"segment_ids": ["a"], "strategy": "delete"}
        if agrees:
            assert (await one.call("context_gc_prune", **wanted))["deleted"] == ["a"]
        else:
            assert "Nothing was changed" in await one.fail("context_gc_prune", **wanted)
            assert await one.live("a") == ["a"]

    reach(work, elicitation_callback=user)
    assert len(user.asked) == 1


@pytest.mark.parametrize("offers", [True, False])
def test_the_clients_model_shortens_if_it_is_offered(reach: Reach, offers: bool) -> None:
    async def work(one: Agent) -> None:
        await one.call("context_add", segments=[{"text": LONG, "segment_id": "long"}])
        short = await one.call("context_gc_compress", segment_id="long")
        assert short["made_by"] == ("some-model" if offers else "extractive")

    reach(work, **({"sampling_callback": Model("src/parse.py, line 42")} if offers else {}))


def test_progress_is_reported(reach: Reach, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"m{number}.py").write_text(f"def f{number}():\n    return {number}\n")
    reports: list[tuple[float, float | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total))

    async def work(one: Agent) -> None:
        result = await one.client.call_tool("index_codebase", {}, progress_callback=report)
        assert not result.is_error
        await one.add("a")
        wanted = {"segment_ids": ["a"]}
        await one.client.call_tool("context_gc_prune", wanted, progress_callback=report)

    reach(work)
    assert (20, 20) in reports
    assert reports[-1] == (1, 1)


def test_a_cancelled_call_leaves_a_consistent_state(reach: Reach) -> None:
    names = [f"s{number}" for number in range(200)]

    async def work(one: Agent) -> None:
        await one.add(*names, times=2)
        with anyio.move_on_after(0.01):
            await one.client.call_tool("context_gc_prune", {"segment_ids": names})
        await settled(one)
        left = await one.call("context_gc_analyze", target_tokens=0)
        assert left["candidates_total"] in (0, len(names))

    reach(work)
