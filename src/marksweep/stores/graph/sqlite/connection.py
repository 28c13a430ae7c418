"""Connections: one thread writes, a few read, and the event loop waits for none of them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
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
"""Threads that read. More answer more searches at once, and each keeps a page cache."""


class Database:
    """A graph's file. Each call runs one transaction on a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections: list[sqlite3.Connection] = []
        self._local = threading.local()
        self._closed = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="graph-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="graph-reader")
        try:
            self._writer.submit(self._prepare).result()
        except BaseException:
            self._shut()
            raise

    async def read(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Run work on one consistent view of the file."""
        return await self._run(self._readers, "BEGIN", work, *args, **kwargs)

    async def write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Run work in one transaction: all of it happens, or nothing."""
        return await self._run(self._writer, "BEGIN IMMEDIATE", work, *args, **kwargs)

    async def close(self) -> None:
        """Wait for running work and close the connections."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._shut)

    async def _run(
        self,
        threads: ThreadPoolExecutor,
        begin: str,
        work: Callable[Concatenate[sqlite3.Connection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        if self._closed:
            raise StoreError(f"{self.path} was closed; open a new store to go on.")

        def transaction() -> Result:
            with self._translated():
                db = self._connection()
                db.execute(begin)
                try:
                    result = work(db, *args, **kwargs)
                    db.execute("COMMIT")
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                return result

        return await asyncio.get_running_loop().run_in_executor(threads, transaction)

    def _connection(self) -> sqlite3.Connection:
        """Give each thread its own connection."""
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connections.append(db)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA cache_size = -65536")
            db.execute("PRAGMA temp_store = MEMORY")
            db.execute("PRAGMA wal_autocheckpoint = 8000")
            db.execute(sql.PICKED)
            db.execute(sql.KEYED)
            self._local.db = db
        return db

    def _prepare(self) -> None:
        """Lay the file out, or see that it is one of ours."""
        with self._translated():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = self._connection()
            db.execute("BEGIN IMMEDIATE")
            try:
                self._lay_out(db)
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise

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

    def _shut(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        for db in self._connections:
            db.close()


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
