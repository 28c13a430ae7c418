"""Connections: one writes, a few read, for any number of threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import LifoQueue
from typing import Concatenate, ParamSpec, TypeVar

from marksweep.errors import StoreBusy, StoreCorrupt, StoreError, StoreTooNew
from marksweep.stores.graph.base import SCHEMA_VERSION
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.schema import MIGRATIONS, SCHEMA

Given = ParamSpec("Given")
Result = TypeVar("Result")

BUSY_SECONDS = 30.0
"""How long a write waits for another process's transaction; ours are far shorter."""

READERS = 2
"""Connections that read. More answer more searches at once, and each keeps a page cache."""


PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA wal_autocheckpoint = 8000",
)
"""How each connection is set up."""


class Database:
    """A graph's file: one thread writes at a time, a few read beside it.

    Each call is one transaction, and may come from any thread.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._closed = False
        self._writer = _Connections(self._open, 1)
        self._readers = _Connections(self._open, READERS)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def read(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Run work on one consistent view of the file."""
        with self._transaction(self._readers, "BEGIN") as db:
            return work(db, *args, **kwargs)

    def write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Run work in one transaction: all of it happens, or nothing."""
        with self._transaction(self._writer, "BEGIN IMMEDIATE") as db:
            return work(db, *args, **kwargs)

    def close(self) -> None:
        """Wait for running work and close the connections."""
        self._closed = True
        self._writer.close()
        self._readers.close()

    @contextmanager
    def _transaction(self, connections: _Connections, begin: str) -> Iterator[sqlite3.Connection]:
        with self._translated(), connections.borrowed() as db:
            db.execute(begin)
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreError(f"{self.path} was closed; open a new store to go on.")
        db = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            for statement in (*PRAGMAS, sql.PICKED, sql.KEYED):
                db.execute(statement)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self) -> None:
        """Lay the file out, or see that it is one of ours."""
        with self._translated():
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._transaction(self._writer, "BEGIN IMMEDIATE") as db:
            self._lay_out(db)

    def _lay_out(self, db: sqlite3.Connection) -> None:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found > SCHEMA_VERSION:
            raise StoreTooNew(
                f"{self.path} has graph layout {found}, this marksweep knows up to "
                f"{SCHEMA_VERSION}. Upgrade marksweep to open it."
            )
        steps = [MIGRATIONS[each] for each in range(found, SCHEMA_VERSION)] if found else [SCHEMA]
        for statement in _statements("".join(steps)):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise StoreBusy(
                    f"{self.path} was locked by another process for {BUSY_SECONDS:.0f} s. "
                    "Try again when it has finished."
                ) from error
            raise StoreError(f"{self.path} cannot be used: {error}.") from error
        except sqlite3.DatabaseError as error:
            raise StoreCorrupt(
                f"{self.path} is not a readable graph: {error}. The file is left as it is; "
                "restore it from a backup or name another file."
            ) from error


class _Connections:
    """At most so many connections, opened when first needed; who finds all in use waits."""

    def __init__(self, opened: Callable[[], sqlite3.Connection], most: int) -> None:
        self._opened = opened
        self._most = most
        self._idle: LifoQueue[sqlite3.Connection | None] = LifoQueue()
        for _ in range(most):
            self._idle.put(None)

    @contextmanager
    def borrowed(self) -> Iterator[sqlite3.Connection]:
        """Have a connection to oneself."""
        db = self._idle.get()
        try:
            if db is None:
                db = self._opened()
            yield db
        finally:
            self._idle.put(db)

    def close(self) -> None:
        """Wait until none is in use, and close them."""
        held = [self._idle.get() for _ in range(self._most)]
        for db in held:
            if db is not None:
                db.close()
            self._idle.put(None)


def _statements(script: str) -> Iterator[str]:
    """Cut a script into statements; `executescript` would commit before it starts."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def pick(db: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Name the ids that the next statements are about."""
    db.execute(sql.FORGET_PICKED)
    db.executemany(sql.PICK, ((each,) for each in ids))


def key(db: sqlite3.Connection, keys: Iterable[int]) -> None:
    """Name the keys that the next statements are about."""
    db.execute(sql.FORGET_KEYED)
    db.executemany(sql.KEY, ((each,) for each in keys))


def number(db: sqlite3.Connection, workspace_id: str) -> int:
    """Look a workspace's number up; 0, which none has, if it holds nothing."""
    row = db.execute(sql.WORKSPACE, (workspace_id,)).fetchone()
    return int(row[0]) if row else 0


def advance(db: sqlite3.Connection, workspace_id: str) -> tuple[int, int]:
    """Give a workspace its next version; return its number and that version."""
    db.execute(sql.NEW_WORKSPACE, (workspace_id,))
    ws = number(db, workspace_id)
    (version,) = db.execute(sql.NEXT_VERSION, (ws,)).fetchone()
    return ws, int(version)
