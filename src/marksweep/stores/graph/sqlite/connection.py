"""The graph's database file: one writer and a few readers, for any number of threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from marksweep.search.ranking import Fields, marked
from marksweep.search.words import stemmed
from marksweep.stores import database
from marksweep.stores.database import Schema
from marksweep.stores.graph.nouns import Kind
from marksweep.stores.graph.reading import Statements
from marksweep.stores.graph.rows import Cell, Row, bare, plain
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.schema import MIGRATIONS, SCHEMA, VERSION

BUSY_SECONDS = 30.0
"""How long a write waits for another process's transaction. Ours are far shorter."""

READERS = 2
"""Read connections. More allow more concurrent searches, but each has a page cache."""

SETTINGS = (
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA wal_autocheckpoint = 8000",
    sql.WORD_INSTANCES,
)
"""Statements that set up each connection."""


Keys = dict[str, int]
"""Row keys by node id."""


class Database(database.Database):
    """A graph's database file. Each call is one transaction, from any thread."""

    def __init__(self, path: Path) -> None:
        words = ("chunk_words",)
        schema = Schema(VERSION, "workspace", SCHEMA, MIGRATIONS, SETTINGS, words, add_functions)
        super().__init__(path, schema, timeout=BUSY_SECONDS, readers=READERS)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read from one snapshot of the file; StoreCorrupt if a row cannot be read."""
        with super().reading() as db:
            try:
                yield db
            except msgspec.DecodeError as error:
                raise database.unreadable(self.path, "a row", error) from error

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """Read from one snapshot of the file."""
        with self.reading() as db:
            yield Reader(db)


class Reader:
    """A connection that runs the statements of `reading`."""

    statements: Statements = sql

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def read_all(
        self, workspace_id: str, statements: Sequence[str], params: Mapping[str, object]
    ) -> list[list[Row]]:
        """Run statements in a workspace, all with the same parameters."""
        ids = as_json(params.get("ids", ()))  # type: ignore[arg-type]
        given: dict[str, Any] = {**params, "ws": number(self._db, workspace_id), "ids": ids}
        return [self._db.execute(statement, given).fetchall() for statement in statements]


def add_functions(db: sqlite3.Connection) -> None:
    """Register the functions that split names and texts, for statements that rewrite rows."""
    db.create_function("bare_name", 2, bare, deterministic=True)
    db.create_function("marked_words", 2, marked_words, deterministic=True)
    db.create_function("word_count", 3, lambda *found: Fields(*found).length, deterministic=True)


def mark(ws: int) -> str:
    """Return the prefix of a workspace's words in the index."""
    return f"{ws}w"


def marked_words(ws: int, text: str) -> str:
    """Return the words of a text in the form that a workspace's index stores."""
    return marked(stemmed(text), mark(ws))


def as_json(values: Iterable[str | int]) -> str:
    """Write a parameter that is a list of ids or keys, each once."""
    return msgspec.json.encode(tuple(dict.fromkeys(values))).decode()


def number(db: sqlite3.Connection, workspace_id: str) -> int:
    """Look up a workspace's number; 0, which is never assigned, if it has none."""
    row = db.execute(sql.WORKSPACE, (plain(workspace_id),)).fetchone()
    return int(row[0]) if row else 0


class Change:
    """A write transaction on a workspace, which gives the rows it changes the next version."""

    def __init__(self, db: sqlite3.Connection, workspace_id: str) -> None:
        name = (plain(workspace_id),)
        db.execute(sql.NEW_WORKSPACE, name)
        self.ws: int
        self.version: int
        self.ws, self.version = db.execute(sql.NEXT_VERSION, name).fetchone()
        self.db = db

    def run(
        self,
        statement: str,
        *,
        ids: Iterable[str] = (),
        keys: Iterable[int] = (),
        **given: Cell,
    ) -> sqlite3.Cursor:
        """Run a statement on nodes with these ids or keys."""
        given |= {"ws": self.ws, "version": self.version}
        given |= {"ids": as_json(map(plain, ids)), "keys": as_json(keys)}
        return self.db.execute(statement, given)

    def keys(self, kind: Kind, ids: Iterable[str]) -> Keys:
        """Look up the keys of existing nodes."""
        given = {each: plain(each) for each in ids}
        found = {name: key for key, name in self.run(sql.KEYS[kind], ids=given)}
        return {each: found[stored] for each, stored in given.items() if stored in found}
