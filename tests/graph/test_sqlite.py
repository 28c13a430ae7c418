from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from marksweep.errors import StoreTooNew
from marksweep.stores.graph.base import SCHEMA_VERSION, GraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from tests.graph.graph_contract import (
    HostileContract,
    MoveContract,
    OpenStore,
    RememberContract,
    found,
)
from tests.graph.graph_merge_contract import MergeContract
from tests.graph.graph_search_contract import SearchContract
from tests.graph.graph_sweep_contract import LeaseContract, RunContract, SweepContract
from tests.graph.graphs import entity, file


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


FIRST_LAYOUT = """
CREATE TRIGGER chunk_text_added AFTER INSERT ON chunk_text BEGIN
    INSERT INTO chunk_words (rowid, title, text) VALUES (new.key, new.title, new.text);
END;
CREATE TRIGGER chunk_text_gone AFTER DELETE ON chunk_text BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, title, text)
    VALUES ('delete', old.key, old.title, old.text);
END;
DROP TABLE alias;
PRAGMA user_version = 1;
"""
"""Turns the layout of today into the first one."""


def test_a_file_of_the_first_layout_is_brought_up(tmp_path: Path) -> None:
    store = SqliteGraphStore(tmp_path / "graph.db")
    store.put("w", [file("w", "a.py", {"parse": ["Config", "config"]})])
    store.close()
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        db.executescript(FIRST_LAYOUT)
    store = SqliteGraphStore(tmp_path / "graph.db")
    store.put("w", [file("w", "a.py", {"split": ["Config", "config"]})])
    assert found(store, "w", "parse") == []
    assert len(found(store, "w", "split")) == 1
    keep, gone = (entity("w", name).entity_id for name in ("Config", "config"))
    assert store.merge("w", keep, [gone]) == 1
    store.close()
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        db.execute("INSERT INTO chunk_words (chunk_words) VALUES ('integrity-check')")


def test_a_file_of_a_newer_marksweep_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match="version 99"):
        SqliteGraphStore(tmp_path / "graph.db")
