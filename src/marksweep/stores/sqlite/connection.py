"""The one connection of a SQLite store: opened privately, shared by threads."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marksweep.errors import StoreError
from marksweep.stores.files import check_writable, make_database, unusable
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.errors import in_words, named
from marksweep.stores.sqlite.schema import check_version, migrate

_PAUSE = 0.01

_left_to_parents: list[sqlite3.Connection] = []
"""Connections that a forked child found in its copy of memory. They are the parent's to close."""


class Connection:
    """One database file. Every use is one transaction, one thread at a time."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self._timeout = timeout
        self._mutex = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._owner = os.getpid()
        self._inode = 0
        with self._errors():
            self._database = self._open()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """See one state of the file for several reads."""
        with self._mutex, self._errors():
            database = self._current()
            database.execute(sql.BEGIN_READING)
            try:
                yield database
            finally:
                if database.in_transaction:
                    database.rollback()

    @contextmanager
    def asking(self) -> Iterator[sqlite3.Connection]:
        """Read what one statement tells: it sees one state of the file by itself.

        A workspace keeps its number, so looking that up first does not count.
        """
        with self._mutex, self._errors():
            yield self._current()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Change the file: all of the block, or nothing if it raises."""
        with self._mutex, self._errors():
            database = self._current()
            check_writable(self.path)
            self._check_in_place()
            database.execute(sql.BEGIN_WRITING)
            try:
                yield database
                database.commit()
            except BaseException:
                if database.in_transaction:
                    database.rollback()
                raise

    @contextmanager
    def writing_durably(self) -> Iterator[sqlite3.Connection]:
        """Change the file so that this, and all that was written before, survives a power cut."""
        with self._mutex, self._errors():
            self._current().execute(sql.SYNC_AT_COMMIT)
            try:
                with self.writing() as database:
                    yield database
            finally:
                self._current().execute(sql.SYNC_AT_CHECKPOINTS)

    def scrub(self) -> tuple[str, ...]:
        """Take what was removed out of the files; say what a neighbour kept from it."""
        with self._mutex, self._errors():
            with self.writing() as database:
                database.execute(sql.SCRUB_BEGINS)
                for statement in sql.MERGE_WORDS:
                    database.execute(statement)
            if self._finish_scrub(database):
                return ()
        return (
            f"{self.path} and its log hold what was removed while another process reads from them; "
            "it goes when the store is next opened, or scrubbed again",
        )

    def _finish_scrub(self, database: sqlite3.Connection) -> bool:
        """Write the file anew and empty the log, unless a neighbour is at work."""
        try:
            database.execute(sql.REWRITE_FILE)
            (kept, _, _) = database.execute(sql.EMPTY_LOG).fetchone()
        except sqlite3.OperationalError as error:
            if not named(error, "SQLITE_BUSY"):
                raise
            return False
        if not kept:
            database.execute(sql.SCRUB_ENDS)
        return not kept

    def check_open(self) -> None:
        """Refuse if the store is closed."""
        if self._database is None:
            raise self._closed()

    def close(self) -> None:
        """Close the file. Closing twice is no error."""
        with self._mutex, self._errors():
            database, self._database = self._database, None
            if database is not None and self._owner == os.getpid():
                database.close()

    def _current(self) -> sqlite3.Connection:
        if self._database is None:
            raise self._closed()
        if self._owner != os.getpid():
            _left_to_parents.append(self._database)
            self._database, self._owner = self._open(), os.getpid()
        return self._database

    def _check_in_place(self) -> None:
        """Refuse to write into a file that was moved away: nobody would ever read it."""
        if self.path.stat().st_ino != self._inode:
            raise StoreError(
                f"{self.path}: the file was replaced while it was open. Nothing was changed. "
                "Close the store and open it again."
            )

    def _closed(self) -> StoreError:
        return StoreError(f"{self.path}: the store is closed. Open it again.")

    def _open(self) -> sqlite3.Connection:
        make_database(self.path)
        check_writable(self.path)
        database = sqlite3.connect(
            self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            check_version(database, self.path)
            self._wait_for_write_ahead(database)
            for setting in (sql.SYNC_AT_CHECKPOINTS, sql.CACHE_MORE, sql.CHECKPOINT_LESS):
                database.execute(setting)
            migrate(database, self.path)
            if database.execute(sql.SCRUB_PENDING).fetchone()[0]:
                self._finish_scrub(database)
            self._inode = self.path.stat().st_ino
        except BaseException:
            database.close()
            raise
        return database

    def _wait_for_write_ahead(self, database: sqlite3.Connection) -> None:
        """Switch the mode. SQLite does not wait for this lock by itself when two open at once."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                database.execute(sql.WRITE_AHEAD)
            except sqlite3.OperationalError as error:
                if not named(error, "SQLITE_BUSY") or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
            else:
                return

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise in_words(self.path, error) from error
        except OSError as error:
            raise unusable(self.path, error) from error
