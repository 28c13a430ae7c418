"""What was deleted from the long-term memory is restored, and all of it is in the audit."""

from __future__ import annotations

from pathlib import Path

from tests.mcp.support import Agent, with_agent

DELETE = {"dry_run": False, "confirm": True, "workspace_id": "default"}


async def with_stale_files(one: Agent, folder: Path) -> None:
    for name in ("one", "two", "kept"):
        (folder / f"{name}.py").write_text(f"def {name}():\n    return 0\n")
    await one.call("index_codebase")
    for name in ("one", "two"):
        (folder / f"{name}.py").unlink()
    await one.call("index_codebase", max_shrink=1)


def test_a_deletion_is_undone_by_its_plan(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await with_stale_files(one, tmp_path)
        deleted = await one.call("prune_memory", **DELETE)
        assert len(deleted["deleted"]["memories"]) == 2
        assert (await one.call("memory_stats"))["deleted"] > 0
        back = await one.call("restore_memory", plan_id=deleted["plan_id"])
        assert sorted(back["restored"]["memories"]) == sorted(deleted["deleted"]["memories"])
        assert "Restored 2 memories, 2 chunks" in one.said
        stats = await one.call("memory_stats")
        assert (stats["memories"], stats["deleted"], stats["stale"]) == (3, 0, 2)
        words = await one.fail("restore_memory", plan_id=deleted["plan_id"])
        assert "left to bring back" in words

    with_agent(tmp_path, work, mode)


def test_single_memories_are_restored(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await with_stale_files(one, tmp_path)
        deleted = await one.call("prune_memory", **DELETE)
        first, second = deleted["deleted"]["memories"]
        back = await one.call("restore_memory", memory_ids=[second])
        assert back["restored"]["memories"] == [second]
        assert len(back["restored"]["chunks"]) == 1
        assert first in await one.fail("restore_memory", memory_ids=[first], workspace_id="other")
        assert "either plan_id or memory_ids" in await one.fail("restore_memory")
        both = await one.fail("restore_memory", plan_id="p", memory_ids=[first])
        assert "either plan_id or memory_ids" in both
        assert (await one.call("memory_stats"))["memories"] == 2

    with_agent(tmp_path, work)


def test_the_audit_records_what_was_done_when_by_whom_and_how_much(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        assert (await one.call("memory_history"))["events"] == []
        await with_stale_files(one, tmp_path)
        await one.call("prune_memory")
        plan_id = (await one.call("prune_memory", **DELETE))["plan_id"]
        await one.call("restore_memory", plan_id=plan_id)
        events = (await one.call("memory_history"))["events"]
        assert [each["event"] for each in events] == [
            "undone",
            "restoring",
            "swept",
            "sweeping",
            "planned",
        ]
        assert {each["plan_id"] for each in events} == {plan_id}
        assert {each["actor"] for each in events} == {"mcp"}
        assert [each["strategy"] for each in events[-2:]] == ["stale_code"] * 2
        assert {(each["memories"], each["chunks"]) for each in events} == {(2, 2)}
        assert f"{len(events)} events" in one.said
        only = await one.call("memory_history", events=["swept"], limit=1)
        assert [each["event"] for each in only["events"]] == ["swept"]
        assert (await one.call("memory_history", plan_id="plan-0"))["events"] == []
        assert (await one.call("memory_history", workspace_id="other"))["events"] == []

    with_agent(tmp_path, work)
