"""The tools on the long-term memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marksweep.graph.strategies import PruneStrategy
from tests.mcp.support import Agent, data_of, with_agent
from tests.mcp.test_asking import User


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "parse.py").write_text("def parse(text):\n    return text.split()\n")
    (folder / "main.py").write_text("import parse\n\n\ndef main():\n    return parse.parse('a')\n")
    return folder


def test_a_codebase_is_indexed_with_progress_and_searched(code: Path, mode: str) -> None:
    reports: list[tuple[float, float | None]] = []

    async def work(one: Agent) -> None:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            reports.append((progress, total))

        result = await one.client.call_tool("index_codebase", {}, progress_callback=report)
        indexed = data_of(result)
        assert (indexed["files"], indexed["functions"], indexed["stale"]) == (2, 2, 0)
        assert "Repository indexed successfully." in indexed["summary"]
        found = await one.call("search_memory", query="parse split")
        assert found["hits"][0]["file"] == "parse.py"
        assert found["hits"][0]["lines"] == [1, 2]
        assert "found, best first" in one.said
        only = await one.call("search_memory", query="parse", path="main.py", limit=5)
        assert {hit["file"] for hit in only["hits"]} == {"main.py"}
        assert (await one.call("search_memory", query="zebra"))["hits"] == []
        stats = await one.call("memory_stats")
        assert (stats["memories"], stats["stale"]) == (2, 0)

    with_agent(code, work, mode)
    assert reports[-1] == (2, 2)


async def with_stale_file(one: Agent, code: Path) -> None:
    await one.call("index_codebase")
    (code / "parse.py").unlink()
    assert (await one.call("index_codebase"))["newly_stale"] == 1


def test_stale_code_is_shown_then_deleted_once_confirmed(code: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await with_stale_file(one, code)
        shown = await one.call("prune_memory")
        assert one.said == "Dry run complete. Preview of items to delete:"
        assert [row["relative_path"] for row in shown["preview"]] == ["parse.py"]
        assert len(shown["planned"]["memories"]) == 1
        assert shown["deleted"]["memories"] == []
        assert (await one.call("memory_stats"))["stale"] == 1
        unsure = await one.fail("prune_memory", dry_run=False)
        assert unsure.startswith(
            "Error: Deletion requires explicit confirmation. Set confirm=true to proceed."
        )
        unnamed = await one.fail("prune_memory", dry_run=False, confirm=True)
        assert "workspace_id='default'" in unnamed
        done = await one.call("prune_memory", dry_run=False, confirm=True, workspace_id="default")
        assert one.said.startswith("Successfully deleted 1 stale memory node and 1 chunk.")
        assert done["plan_id"] == shown["plan_id"]
        assert done["deleted"] == shown["planned"]
        assert (await one.call("memory_stats"))["stale"] == 0

    with_agent(code, work, mode)


def test_what_was_shown_is_what_is_deleted(code: Path) -> None:
    async def work(one: Agent) -> None:
        await with_stale_file(one, code)
        shown = await one.call("prune_memory")
        (code / "main.py").unlink()
        (code / "new.py").write_text("x = 1\n")
        await one.call("index_codebase")
        done = await one.call("prune_memory", dry_run=False, confirm=True, workspace_id="default")
        assert done["deleted"]["memories"] == shown["planned"]["memories"]
        assert (await one.call("memory_stats"))["stale"] == 1

    with_agent(code, work)


def test_a_plan_is_carried_out_by_its_id_once(code: Path, mode: str) -> None:
    confirmed = {"dry_run": False, "confirm": True, "workspace_id": "default"}

    async def work(one: Agent) -> None:
        await with_stale_file(one, code)
        shown = await one.call("prune_memory")
        (code / "main.py").unlink()
        (code / "new.py").write_text("x = 1\n")
        await one.call("index_codebase")
        later = await one.call("prune_memory", strategy="all")
        assert len(later["planned"]["memories"]) == 2
        done = await one.call("prune_memory", **confirmed, strategy="all", plan_id=shown["plan_id"])
        assert done["plan_id"] == shown["plan_id"]
        assert done["deleted"] == shown["planned"]
        again = await one.fail("prune_memory", **confirmed, plan_id=shown["plan_id"])
        assert f"{shown['plan_id']} was applied already" in again
        rest = await one.call("prune_memory", **confirmed, strategy="all")
        assert rest["plan_id"] == later["plan_id"]
        assert len(rest["deleted"]["memories"]) == 1

    with_agent(code, work, mode)


def test_a_user_may_confirm_a_deletion_from_memory(code: Path, mode: str) -> None:
    user = User("accept", {"delete": True})

    async def work(one: Agent) -> None:
        await with_stale_file(one, code)
        done = await one.call("prune_memory", dry_run=False)
        assert len(done["deleted"]["memories"]) == 1

    with_agent(code, work, mode, elicitation_callback=user)
    assert user.asked == ["Delete 1 memory node and 1 chunk from workspace 'default'?"]


def test_a_user_who_declines_keeps_the_memory(code: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await with_stale_file(one, code)
        assert "did not agree" in await one.fail("prune_memory", dry_run=False)
        assert (await one.call("memory_stats"))["stale"] == 1

    with_agent(code, work, mode, elicitation_callback=User("decline"))


@pytest.mark.parametrize("strategy", list(PruneStrategy))
def test_every_strategy_has_a_preview(code: Path, strategy: str) -> None:
    async def work(one: Agent) -> None:
        await one.call("index_codebase")
        shown = await one.call("prune_memory", strategy=strategy)
        assert shown["strategy"] == strategy

    with_agent(code, work)


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("index_codebase", {"path": "/"}, "outside the folders"),
        ("index_codebase", {"path": ".."}, "outside the folders"),
        ("index_codebase", {"path": "missing"}, "missing"),
        ("index_codebase", {"languages": ["klingon"]}, "klingon"),
        ("index_codebase", {"recursive": True}, "no parameter 'recursive'"),
        ("search_memory", {}, "'query' is missing"),
        ("search_memory", {"query": ""}, "'query' is ''"),
        ("search_memory", {"query": "x", "limit": 1_000}, "'limit' is 1000"),
        ("prune_memory", {"strategy": "everything"}, "'strategy' is 'everything'"),
        ("prune_memory", {"plan": "x"}, "no parameter 'plan'"),
        ("prune_memory", {"plan_id": "plan-1"}, "pass dry_run=false and confirm=true"),
        (
            "prune_memory",
            {"plan_id": "plan-1", "dry_run": False, "confirm": True, "workspace_id": "default"},
            "no plan 'plan-1' for workspace 'default'",
        ),
        ("prune_memory", {"dry_run": "perhaps"}, "'dry_run' is 'perhaps'"),
        ("memory_stats", {"all": True}, "no parameter 'all'"),
    ],
)
def test_bad_input_is_refused_with_a_reason(
    code: Path, tool: str, arguments: dict[str, Any], expected: str
) -> None:
    async def work(one: Agent) -> None:
        assert expected in await one.fail(tool, **arguments)

    with_agent(code, work)


def test_workspaces_of_the_memory_are_separate(code: Path) -> None:
    async def work(one: Agent) -> None:
        await one.call("index_codebase", workspace_id="other")
        assert (await one.call("memory_stats"))["memories"] == 0
        assert (await one.call("memory_stats", workspace_id="other"))["memories"] == 2
        assert (await one.call("search_memory", query="parse"))["hits"] == []

    with_agent(code, work)


def test_a_codebase_that_shrank_is_indexed_when_the_share_is_named(code: Path, mode: str) -> None:
    for number in range(20):
        (code / f"m{number}.py").write_text(f"def f{number}(): pass\n")

    async def work(one: Agent) -> None:
        await one.call("index_codebase")
        for number in range(20):
            (code / f"m{number}.py").unlink()
        assert "max_shrink=" in await one.fail("index_codebase")
        assert (await one.call("index_codebase", max_shrink=1.0))["newly_stale"] == 20

    with_agent(code, work, mode)


def test_a_plan_over_the_cap_takes_a_part_and_a_limit_takes_more(code: Path, mode: str) -> None:
    for number in range(90):
        (code / f"m{number}.py").write_text(f"def f{number}(): pass\n")

    async def work(one: Agent) -> None:
        await one.call("index_codebase")
        for number in range(90):
            (code / f"m{number}.py").unlink()
        await one.call("index_codebase", max_shrink=1.0)
        shown = await one.call("prune_memory", max_tokens=20_000)
        assert len(shown["planned"]["memories"]) == 50
        more = await one.call("prune_memory", limit=180, max_tokens=20_000)
        assert len(more["planned"]["memories"]) == 90
        done = await one.call(
            "prune_memory",
            dry_run=False,
            confirm=True,
            workspace_id="default",
            limit=180,
            max_tokens=20_000,
        )
        assert len(done["deleted"]["memories"]) == 90

    with_agent(code, work, mode)
