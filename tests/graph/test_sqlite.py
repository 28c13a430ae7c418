from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import accumulate
from pathlib import Path

import pytest

from marksweep.errors import StoreError, StoreTooNew
from marksweep.stores.graph.base import Copy, GraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.graph.sqlite.salvage import salvage_graph
from marksweep.stores.graph.sqlite.schema import VERSION
from tests.graph.graph_contract import (
    CALLERS,
    HostileContract,
    MoveContract,
    OpenStore,
    RememberContract,
    everything,
    found,
)
from tests.graph.graph_merge_contract import MergeContract
from tests.graph.graph_search_contract import SearchContract
from tests.graph.graph_sweep_contract import LeaseContract, RunContract, SweepContract
from tests.graph.graphs import entity, file, note


class TestSqliteGraph(
    RememberContract,
    MergeContract,
    SearchContract,
    HostileContract,
    MoveContract,
    RunContract,
    SweepContract,
    LeaseContract,
):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        @contextmanager
        def opened() -> Iterator[GraphStore]:
            store = SqliteGraphStore(tmp_path / "graph.db")
            try:
                yield store
            finally:
                store.close()

        return opened


FOURTH_LAYOUT = """
DROP TABLE text_length;
DROP TABLE chunk_words;
CREATE VIRTUAL TABLE chunk_words USING fts5(
    words, named, placed, content='chunk_text', content_rowid='key', tokenize='ascii'
);
INSERT INTO chunk_words (chunk_words) VALUES ('rebuild');
PRAGMA user_version = 4;
"""
"""Turns the current layout into the fourth one."""

THIRD_LAYOUT = """
ALTER TABLE memory DROP COLUMN expires_at;
DROP INDEX chunk_by_text;
ALTER TABLE chunk DROP COLUMN text_key;
PRAGMA user_version = 3;
"""
"""Turns the fourth layout into the third one, that of 0.2.0."""


@pytest.mark.parametrize(
    "layout",
    list(accumulate([FOURTH_LAYOUT, THIRD_LAYOUT])),
    ids=["4", "3"],
)
def test_a_file_of_an_older_layout_is_migrated(tmp_path: Path, layout: str) -> None:
    store = SqliteGraphStore(tmp_path / "graph.db")
    kept = file("w", "src/kept.py", {"Shop.open_door": ["knock"]})
    store.put("w", [file("w", "a.py", {"parse": ["Config", "config"]}), kept])
    store.close()
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        db.executescript(layout)
    store = SqliteGraphStore(tmp_path / "graph.db")
    for words in ("doors", "knocking", "kept", "Shop.open_door"):
        assert len(found(store, "w", words)) == 1, words
    assert [link.source for link in store.links("w", ["knock"], CALLERS)] == ["Shop.open_door"]
    assert [each.line for each in store.definitions("w", ["open_door"], 9)] == [1]
    store.put("w", [file("w", "a.py", {"split": ["Config", "config"]})])
    assert found(store, "w", "parse") == []
    assert len(found(store, "w", "split")) == 1
    keep, gone = (entity("w", name).entity_id for name in ("Config", "config"))
    assert store.merge("w", keep, [gone]) == 1
    store.close()
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
        db.execute("INSERT INTO chunk_words (chunk_words) VALUES ('integrity-check')")


def test_a_migration_that_fails_leaves_the_old_layout(tmp_path: Path) -> None:
    SqliteGraphStore(tmp_path / "graph.db").close()
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        db.executescript(FOURTH_LAYOUT + THIRD_LAYOUT + "DROP TABLE chunk_words;")
    with pytest.raises(StoreError, match="chunk_words"):
        SqliteGraphStore(tmp_path / "graph.db")
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
        columns = [name for _, name, *_ in db.execute("PRAGMA table_info (chunk)")]
    assert "text_key" not in columns


def test_a_file_from_before_the_first_release_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        db.execute("PRAGMA user_version = 2")
    with pytest.raises(StoreError, match="version 2, written before the first release"):
        SqliteGraphStore(tmp_path / "graph.db")


def test_a_file_of_a_newer_marksweep_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match="version 99"):
        SqliteGraphStore(tmp_path / "graph.db")


def salvaged(folder: Path, damage: str) -> SqliteGraphStore:
    """Rebuild a graph after damage to its rows."""
    with closing(sqlite3.connect(folder / "graph.db")) as db:
        db.executescript(damage)
    salvage_graph(folder / "graph.db", folder / "fresh.db")
    return SqliteGraphStore(folder / "fresh.db")


@pytest.mark.parametrize("lost", ["DELETE FROM memory;", "UPDATE memory SET id = 'x' || id;"])
def test_memories_that_a_rebuild_lost_can_be_written_copied_and_loaded_again(
    tmp_path: Path, lost: str
) -> None:
    code, words = file("w", "a.py", {"a": ["b"]}), note("w", "Ada", mentions=("Ada",))
    twin = file("w", "a.py", {"a": ["b"]}, repository="/twin")
    with closing(SqliteGraphStore(tmp_path / "graph.db")) as store:
        store.put("w", [code, words])
        store.copy("w", [Copy(code.memory.memory_id, twin.memory)])
        before = everything(store, "w")
    with closing(salvaged(tmp_path, lost)) as store:
        store.put("w", [code, words])
        store.copy("w", [Copy(code.memory.memory_id, twin.memory)])
        store.remove("w", ["x" + each.memory.memory_id for each in (code, words, twin)])
        assert everything(store, "w") == before
    (tmp_path / "fresh.db").unlink()
    with closing(salvaged(tmp_path, "DELETE FROM memory;")) as store:
        store.load("w", before)
        assert everything(store, "w") == before
        assert found(store, "w", "Ada") == ["Ada"]
