"""The graph's database file: one writer and a few readers, for any number of threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marksweep.search.ranking import Fields, marked
from marksweep.search.words import stemmed
from marksweep.stores import database
from marksweep.stores.database import Schema, statements_of
from marksweep.stores.graph.base import SCHEMA_VERSION
from marksweep.stores.graph.reading import Statements
from marksweep.stores.graph.rows import Row, bare
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.schema import MIGRATIONS, SCHEMA

BUSY_SECONDS = 30.0
"""How long a write waits for another process's transaction. Ours are far shorter."""

READERS = 2
"""Read connections. More allow more concurrent searches, but each has a page cache."""

SETTINGS = (
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA wal_autocheckpoint = 8000",
    sql.PICKED,
    sql.KEYED,
    sql.WORD_INSTANCES,
)
"""Statements that set up each connection."""


def _upgrade(db: sqlite3.Connection, version: int) -> None:
    add_functions(db)
    steps = [MIGRATIONS[each] for each in range(version, SCHEMA_VERSION)] if version else [SCHEMA]
    for statement in statements_of("".join(steps)):
        db.execute(statement)


class Database(database.Database):
    """A graph's database file. Each call is one transaction, from any thread."""

    def __init__(self, path: Path) -> None:
        schema = Schema(SCHEMA_VERSION, _upgrade, SETTINGS, ("chunk_words",), min(MIGRATIONS))
        super().__init__(path, schema, timeout=BUSY_SECONDS, readers=READERS)

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
        given: dict[str, Any] = {"ws": number(self._db, workspace_id), **params}
        pick(self._db, given.pop("ids", ()))
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


def pick(db: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Set the ids that the next statements apply to."""
    db.execute(sql.FORGET_PICKED)
    db.executemany(sql.PICK, ((each,) for each in ids))


def key(db: sqlite3.Connection, keys: Iterable[int]) -> None:
    """Set the keys that the next statements apply to."""
    db.execute(sql.FORGET_KEYED)
    db.executemany(sql.KEY, ((each,) for each in keys))


def number(db: sqlite3.Connection, workspace_id: str) -> int:
    """Look up a workspace's number; 0, which is never assigned, if it has none."""
    row = db.execute(sql.WORKSPACE, (workspace_id,)).fetchone()
    return int(row[0]) if row else 0


def advance(db: sqlite3.Connection, workspace_id: str) -> tuple[int, int]:
    """Increment a workspace's version; return its number and the new version."""
    db.execute(sql.NEW_WORKSPACE, (workspace_id,))
    ws = number(db, workspace_id)
    (version,) = db.execute(sql.NEXT_VERSION, (ws,)).fetchone()
    return ws, int(version)
