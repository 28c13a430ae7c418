"""The whole workflow: index, delete a file, index again, preview, prune, restore, purge."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from marksweep.indexing.indexer import index_codebase
from tests.graph.graph_contract import OpenStore, everything, found
from tests.graph.memories import OnWorld, World, sqlite_graphs
from tests.graph.servers import fresh_graphs


def index(world: World, root: Path) -> None:
    asyncio.run(index_codebase(root, store=world.graph, workspace_id="w", now=world.clock()))
    world.clock.wait(minutes=1)


class WorkflowContract(OnWorld):
    def test_full_gc_workflow(self, world: World) -> None:
        root = world.backups.parent / "repository"
        root.mkdir()
        for name in ("keep", "gone", "also"):
            (root / f"{name}.py").write_text(f"def {name}():\n    return helper_{name}()\n")
        index(world, root)
        assert world.graph.counts("w").memories == 3
        assert len(found(world.graph, "w", "gone")) == 1

        (root / "gone.py").unlink()
        index(world, root)
        assert world.graph.counts("w").stale == 1
        assert found(world.graph, "w", "gone") == []

        shown = world.memory.prune_memory("w")
        assert [row.relative_path for row in shown.rows] == ["gone.py"]
        before = everything(world.graph, "w")

        done = world.memory.prune_memory("w", dry_run=False, confirm=True, plan_id=shown.plan_id)
        assert (len(done.deleted.memories), len(done.deleted.chunks)) == (1, 1)
        assert world.graph.counts("w").stale == 0

        world.memory.restore(plan_id=shown.plan_id, workspace_id="w")
        assert everything(world.graph, "w") == before

        world.memory.prune_memory("w", dry_run=False, confirm=True, strategy="all")
        world.clock.wait(days=8)
        purged = world.memory.purge(workspace_id="w")
        assert len(purged.gone.memories) == 1
        assert {entity.name for entity in world.graph.entities("w")}.isdisjoint(
            {"gone", "helper_gone"}
        )
        assert len(found(world.graph, "w", "keep")) == 1

    def test_a_file_that_comes_back_within_its_grace_is_whole_again(self, world: World) -> None:
        root = world.backups.parent / "repository"
        root.mkdir()
        (root / "stay.py").write_text("def stay():\n    return 1\n")
        path = root / "back.py"
        path.write_text("def back():\n    return there()\n")
        index(world, root)
        content = path.read_text()
        path.unlink()
        index(world, root)
        world.memory.prune_memory("w", dry_run=False, confirm=True, strategy="all")
        assert found(world.graph, "w", "there") == []
        path.write_text(content)
        index(world, root)
        assert len(found(world.graph, "w", "there")) == 1
        counts = world.graph.counts("w")
        assert (counts.memories, counts.stale, counts.deleted) == (2, 0, 0)


class TestWorkflowOnSqlite(WorkflowContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return sqlite_graphs(tmp_path / "graph.db")


class TestWorkflowOnFalkorServer(WorkflowContract):
    @pytest.fixture
    def open_store(self, falkor_url: str) -> OpenStore:
        return fresh_graphs(falkor_url)


class TestWorkflowOnEmbeddedFalkor(WorkflowContract):
    @pytest.fixture
    def open_store(self, embedded_url: str) -> OpenStore:
        return fresh_graphs(embedded_url)
