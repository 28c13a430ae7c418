"""The SQLite store: one file, many processes, word search. The default.

schema       the tables
statements   every SQL statement, with its purpose
columns      values and clauses
segments, stash, journal   the three parts of the store
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import AbstractContextManager
from pathlib import Path

from marksweep.stores.base import KEEP_PLANS, PlanRetention
from marksweep.stores.database import Database, Schema
from marksweep.stores.files import DATABASE_FILES, LOCK_TIMEOUT, FileLock, total_size
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import unbind
from marksweep.stores.sqlite.journal import SqliteJournal
from marksweep.stores.sqlite.schema import CREATE_TABLES
from marksweep.stores.sqlite.segments import SqliteSegments
from marksweep.stores.sqlite.stash import SqliteStash

__all__ = ["SCHEMA", "SqliteJournal", "SqliteSegments", "SqliteStash", "SqliteStore"]


SCHEMA = Schema(
    3,
    "workspaces",
    CREATE_TABLES,
    settings=(sql.CACHE_MORE, sql.CHECKPOINT_LESS),
    words=("segments_words", "stash_words"),
)


class SqliteStore:
    """A store in one file. Threads may share the object, processes the file."""

    def __init__(
        self,
        path: str | Path,
        *,
        lock_timeout: float = LOCK_TIMEOUT,
        retention: PlanRetention = KEEP_PLANS,
    ) -> None:
        self._path = Path(path).absolute()
        self._timeout = lock_timeout
        self._file = Database(self._path, SCHEMA, timeout=lock_timeout)
        self._mutex = threading.Lock()
        self._locks: dict[str, FileLock] = {}
        self.segments = SqliteSegments(self._file)
        self.stash = SqliteStash(self._file)
        self.journal = SqliteJournal(self._file, retention)

    def all_workspaces(self) -> tuple[str, ...]:
        """List the non-empty workspaces, sorted by name."""
        with self._file.reading() as database:
            found = database.execute(sql.HELD_WORKSPACES).fetchall()
        return tuple(sorted(unbind(name) for (name,) in found))

    def lock(self, workspace: str) -> AbstractContextManager[None]:
        """Lock a workspace for one sweep, across threads and processes."""
        self._file.check_open()
        with self._mutex:
            lock = self._locks.get(workspace)
            if lock is None:
                digest = hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()
                side = self._path.with_name(f"{self._path.name}.{digest[:16]}.lock")
                lock = self._locks[workspace] = FileLock(side, self._timeout)
        return lock.held()

    def scrub(self) -> tuple[str, ...]:
        """Rewrite the file and its word indexes without removed content; empty the log."""
        return self._file.scrub()

    def size(self) -> int:
        """Return the total size of the file and its side files."""
        self._file.check_open()
        beside = (self._path.with_name(self._path.name + end) for end in DATABASE_FILES)
        return total_size(self._path, beside)

    def close(self) -> None:
        """Close the file. A closed store refuses further calls."""
        self._file.close()
