"""What the design of the memory requires and no other test shows; docs/seeds.md lists the rest."""

from __future__ import annotations

import inspect
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from marksweep import KnowledgeGraph
from marksweep.errors import NotConfirmed
from marksweep.graph.client import GraphClient
from marksweep.heaps.graph import Limits, nodes_of, planned
from marksweep.mcp.memory_tools import prune_text
from marksweep.model import Event
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.nouns import Kind
from tests.graph.graphs import file
from tests.graph.memories import World, sqlite_graphs
from tests.graph.servers import fresh_graphs


def test_section_4_1_every_method_of_the_client_has_its_name_and_parameters() -> None:
    expected: dict[str, dict[str, object]] = {
        "mark_code_memories_stale": {},
        "mark_memory_fresh": {},
        "count_stale_memories": {},
        "get_stale_memories_preview": {"source": None, "limit": 20},
        "delete_stale_memories": {"source": None},
        "get_orphaned_chunks": {"limit": 20},
        "get_orphaned_entities": {"limit": 20},
        "delete_orphaned_chunks": {},
        "delete_orphaned_entities": {},
    }
    for name, defaults in expected.items():
        method = getattr(GraphClient, name)
        assert inspect.iscoroutinefunction(method), name
        given = {
            each.name: each.default
            for each in inspect.signature(method).parameters.values()
            if each.default is not each.empty and each.kind is not each.KEYWORD_ONLY
        }
        assert given == defaults, name
        first = ["file_path"] if name == "mark_memory_fresh" else []
        optional = {*given, "limit"}
        required = [each for each in inspect.signature(method).parameters if each not in optional]
        assert required == ["self", *first, "workspace_id"], name


def test_section_6_2_the_answers_are_worded_as_designed(tmp_path: Path) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        memory = World(graph, tmp_path / "backups").memory
        sizes = [3] * 12 + [4] * 30
        gone = [
            file("w", f"{n}.py", {f"f{n}_{place}": [] for place in range(size)})
            for n, size in enumerate(sizes)
        ]
        graph.put("w", gone)
        graph.mark_stale("w", [record.memory.memory_id for record in gone])
        shown = memory.prune_memory("w", limit=1000)
        with pytest.raises(NotConfirmed, match="requires explicit confirmation"):
            memory.prune_memory("w", dry_run=False)
        done = memory.prune_memory("w", dry_run=False, confirm=True, limit=len(shown.planned))
        for answer, words in (
            (shown, "Dry run complete. Preview of items to delete:\n\n"),
            (done, "Successfully deleted 42 stale memory nodes and 156 chunks."),
        ):
            assert prune_text(answer, Limits()).startswith(words)


def test_section_8_3_the_audit_has_operation_workspace_strategy_counts_time_and_who(
    tmp_path: Path,
) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        world = World(graph, tmp_path / "backups")
        record = file("w", "a.py", {"a": [], "b": []})
        graph.put("w", [record, file("w", "c.py", {"c": []})])
        graph.mark_stale("w", [record.memory.memory_id])
        world.memory.prune_memory("w", dry_run=False, confirm=True)
        swept, _, shown = world.memory.history(workspace_id="w")
        assert shown.plan is not None
        assert (shown.event, shown.plan.workspace) == (Event.PLANNED, "w")
        assert shown.plan.strategy == "stale_code"
        assert (swept.event, swept.plan_id) == (Event.SWEPT, shown.plan_id)
        assert swept.report is not None
        for names in (planned(shown.plan), nodes_of(swept.report.swept)):
            assert [len(names.of(kind)) for kind in Kind] == [1, 2, 0]
        assert {(each.at, each.actor) for each in (shown, swept)} == {(world.clock(), "tester")}


def test_stale_is_indexed_where_the_index_can_be_trusted(tmp_path: Path, falkor_url: str) -> None:
    """FalkorDB's index on booleans finds nothing after a restart from a rewritten file."""
    with sqlite_graphs(tmp_path / "graph.db")() as store:
        store.put("w", [file("w", "a.py", {"a": []})])
    with fresh_graphs(falkor_url)() as falkor:
        falkor.put("w", [file("w", "a.py", {"a": []})])
        assert isinstance(falkor, FalkorGraphStore)
        rows = falkor.query(
            "w", "CALL db.indexes() YIELD label, properties RETURN label, properties", {}
        )
    indexed = [str(columns) for label, columns in rows if label == "Memory"]
    assert any("id" in columns for columns in indexed)
    assert not any("stale" in columns for columns in indexed)
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        plan = db.execute(
            "EXPLAIN QUERY PLAN SELECT count(*) FROM memory WHERE ws = 1 AND stale = 1"
        ).fetchall()
    assert "memory_stale" in str(plan)


def test_the_audit_survives_a_restart(tmp_path: Path) -> None:
    memory = KnowledgeGraph.open(tmp_path, actor="ada")
    note = memory.add_memory("to be forgotten", workspace_id="w")
    memory.forget([note.memory_id], workspace_id="w")
    entries = memory.history(workspace_id="w")
    memory.close()
    memory = KnowledgeGraph.open(tmp_path, actor="bob")
    assert memory.history(workspace_id="w") == entries
    assert [entry.event for entry in entries] == [Event.SWEPT, Event.SWEEPING, Event.PLANNED]
    assert {entry.actor for entry in entries} == {"ada"}
    (swept,) = memory.history(workspace_id="w", events=[Event.SWEPT])
    assert swept.report is not None
    assert swept.report.swept[0] == f"memory:{note.memory_id}"
    memory.close()
