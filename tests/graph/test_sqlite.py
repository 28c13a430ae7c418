from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import accumulate
from pathlib import Path

import pytest

from marksweep.errors import StoreTooNew
from marksweep.stores.graph.base import SCHEMA_VERSION, GraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from tests.graph.graph_contract import (
    CALLERS,
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
"""Turns the fourth layout into the third one."""

SECOND_LAYOUT = """
ALTER TABLE workspace DROP COLUMN chunks;
ALTER TABLE memory DROP COLUMN superseded_by;
ALTER TABLE memory DROP COLUMN superseded_at;
DROP INDEX memory_path;
DROP INDEX entity_bare;
ALTER TABLE entity DROP COLUMN bare;
DROP INDEX chunk_symbol;
ALTER TABLE chunk DROP COLUMN bare;
ALTER TABLE relation DROP COLUMN lines;
DROP TABLE chunk_words;
ALTER TABLE chunk_text DROP COLUMN words;
ALTER TABLE chunk_text DROP COLUMN named;
ALTER TABLE chunk_text DROP COLUMN placed;
ALTER TABLE chunk_text ADD COLUMN title TEXT NOT NULL DEFAULT '';
CREATE VIRTUAL TABLE chunk_words USING fts5(
    title, text, content='chunk_text', content_rowid='key', tokenize='unicode61 remove_diacritics 0'
);
INSERT INTO chunk_words (chunk_words) VALUES ('rebuild');
PRAGMA user_version = 2;
"""
"""Turns the third layout into the second one."""

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
"""Turns the second layout into the first one."""


@pytest.mark.parametrize(
    "layout",
    list(accumulate([FOURTH_LAYOUT, THIRD_LAYOUT, SECOND_LAYOUT, FIRST_LAYOUT])),
    ids=["4", "3", "2", "1"],
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
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        db.execute("INSERT INTO chunk_words (chunk_words) VALUES ('integrity-check')")


def test_a_file_of_a_newer_marksweep_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match="version 99"):
        SqliteGraphStore(tmp_path / "graph.db")
