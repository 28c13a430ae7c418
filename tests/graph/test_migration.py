from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from marksweep.cli.app import app
from marksweep.errors import StoreError
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.falkor.migrate_original import migrate
from marksweep.stores.graph.nouns import Entity, Memory
from tests.graph.graph_contract import OpenStore, everything, found
from tests.graph.graphs import START
from tests.graph.memories import sqlite_graphs
from tests.graph.servers import fresh_graphs

OLD = """
CREATE (m:Memory {id: 'm1', text: 'code', tags: ['x', 'y z'], source: 'code_indexer',
    metadata: '{"n": 1, "deep": {"a": [1]}}', workspace_id: 'one', file_path: '/r/a.py',
    relative_path: 'a.py', lines: 3, created_at: '2025-11-25T10:00:00'}),
  (s:Memory {id: 'm2', text: 'gone', source: 'code_indexer', workspace_id: 'one',
    file_path: '/r/b.py', created_at: 1764064800, stale: true}),
  (n:Memory {id: 'm3', text: 'note', source: 'user', workspace_id: 'two', timestamp: 0}),
  (c1:Chunk {id: 'c1', text: 'def parse', memory_id: 'm1', workspace_id: 'one'}),
  (c2:Chunk {id: 'c2', text: 'def gone', memory_id: 'm2', workspace_id: 'one'}),
  (c3:Chunk {id: 'c3', text: 'a note on parse', memory_id: 'm3'}),
  (:Chunk {id: 'c4', text: 'orphan', memory_id: 'lost', workspace_id: 'one'}),
  (e:Entity {id: 'e1', name: 'parse', type: 'function'}),
  (i:Entity {id: 'e2', name: 'island', type: 'function'}),
  (:Entity {name: 'nobody', type: 'function'}),
  (m)-[:HAS_CHUNK]->(c1), (s)-[:HAS_CHUNK]->(c2), (n)-[:HAS_CHUNK]->(c3),
  (c1)-[:MENTIONS]->(e), (c3)-[:MENTIONS]->(e), (i)-[:RELATED_TO]->(e)
"""


class MigrationContract:
    @pytest.fixture
    def old_graph(self, falkor_url: str) -> str:
        name = f"old-{secrets.token_hex(4)}"
        with redis.Redis.from_url(falkor_url) as server:
            server.execute_command("GRAPH.QUERY", name, OLD)
        return name

    def test_a_graph_of_the_original_layout_is_taken_over(
        self, open_store: OpenStore, falkor_url: str, old_graph: str
    ) -> None:
        with open_store() as store:
            counts = migrate(falkor_url, old_graph, store, START)
            assert counts == {"default": 1, "one": 9, "two": 6}
            self.check(store)
            before = everything(store, "one")
            migrate(falkor_url, old_graph, store, START)
            assert everything(store, "one") == before

    def check(self, store: GraphStore) -> None:
        items = everything(store, "one")
        memories = {i.memory_id: i for i in items if isinstance(i, Memory)}
        first = memories["m1"]
        assert first.tags == ("x", "y z")
        assert first.metadata == {"n": 1, "deep": '{"a":[1]}'}
        assert (first.relative_path, first.lines, first.stale) == ("a.py", 3, False)
        assert first.created_at.isoformat() == "2025-11-25T10:00:00+00:00"
        assert first.last_seen_at == first.created_at
        assert memories["m2"].stale
        assert {i.name for i in items if isinstance(i, Entity)} == {"parse", "island"}
        assert {e.name for e in store.entities("two")} == {"parse", "island"}
        assert [e.name for e in store.entities("default")] == ["nobody"]
        survey = store.survey("one")
        assert sorted(owner < 0 for owner in survey.chunk_owners) == [False, False, True]
        assert found(store, "one", "parse") == ["def parse"]
        assert found(store, "two", "parse") == ["a note on parse"]


class TestMigrationToSqlite(MigrationContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return sqlite_graphs(tmp_path / "graph.db")


class TestMigrationToFalkor(MigrationContract):
    @pytest.fixture
    def open_store(self, falkor_url: str) -> OpenStore:
        return fresh_graphs(falkor_url)


def test_a_graph_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    with (
        sqlite_graphs(tmp_path / "graph.db")() as store,
        pytest.raises(StoreError, match="cannot be read"),
    ):
        migrate("redis://127.0.0.1:1", "old", store, START)


def test_the_command_line_migrates_a_graph(
    falkor_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"old-{secrets.token_hex(4)}"
    with redis.Redis.from_url(falkor_url) as server:
        server.execute_command("GRAPH.QUERY", name, OLD)
    url = falkor_url.replace("redis://", "falkordb://")
    run = CliRunner().invoke
    done = run(app, ["memory", "migrate", url, name, "--json"])
    assert json.loads(done.stdout)["items"] == {"default": 1, "one": 9, "two": 6}
    assert run(app, ["memory", "migrate", url, "nothing-here"]).exit_code == 4
    assert run(app, ["memory", "migrate", "redis.example", name]).exit_code == 2
    bad = run(app, ["memory", "migrate", "falkordb://:hunter2@host:notaport", name])
    assert bad.exit_code == 2
    assert "hunter2" not in bad.output
