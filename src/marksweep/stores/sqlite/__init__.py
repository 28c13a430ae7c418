"""The SQLite store: one file, many processes, word search. The default.

statements   every SQL statement, with its purpose
schema       versions and the steps between them
columns      values and clauses
segments, stash, journal   the three faces
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import AbstractContextManager
from pathlib import Path

from marksweep.stores.base import KEEP_PLANS, PlanRetention
from marksweep.stores.database import Database
from marksweep.stores.files import LOCK_TIMEOUT, FileLock
from marksweep.stores.sqlite.journal import SqliteJournal
from marksweep.stores.sqlite.schema import SCHEMA
from marksweep.stores.sqlite.segments import SqliteSegments
from marksweep.stores.sqlite.stash import SqliteStash

__all__ = ["SqliteJournal", "SqliteSegments", "SqliteStash", "SqliteStore"]


class SqliteStore:
    """All three faces in one file. Threads may share the object, processes the file."""

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

    def lock(self, workspace: str) -> AbstractContextManager[None]:
        """Hold a workspace for one sweep, across threads and processes."""
        self._file.check_open()
        with self._mutex:
            lock = self._locks.get(workspace)
            if lock is None:
                digest = hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()
                side = self._path.with_name(f"{self._path.name}.{digest[:16]}.lock")
                lock = self._locks[workspace] = FileLock(side, self._timeout)
        return lock.held()

    def scrub(self) -> tuple[str, ...]:
        """Rewrite the file and its word indexes, without what was removed; empty the log."""
        return self._file.scrub()

    def close(self) -> None:
        """Close the file. A closed store refuses further calls."""
        self._file.close()
