"""A SQLite file: private, in WAL mode, for any number of threads and processes.

Each use is one transaction. One thread writes at a time; readers may have separate
connections. Errors say what went wrong and what to do.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import LifoQueue
from typing import NamedTuple

from marksweep.errors import StoreBusy, StoreCorrupt, StoreError, StoreTooNew
from marksweep.stores.files import check_writable, make_database, unusable

WRITE_AHEAD = "PRAGMA journal_mode = WAL"
"""Let readers and one writer work concurrently. Returns the resulting mode."""

SYNC_AT_CHECKPOINTS = "PRAGMA synchronous = NORMAL"
"""Commits survive a kill; a power cut may lose the last ones, but never leaves a gap."""

SYNC_AT_COMMIT = "PRAGMA synchronous = FULL"
"""Commits survive a power cut, and so do all earlier ones."""

READ_SCHEMA = """
    SELECT user_version, EXISTS (SELECT 1 FROM sqlite_master),
        EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?)
    FROM pragma_user_version
"""
"""The file's schema version, 0 for a new file, and whether it contains anything, and one table.

One statement, so that all are consistent: another process may be creating the file.
"""

WRITE_SCHEMA_VERSION = "PRAGMA user_version = {version:d}"
"""Set the schema version. Pragmas take no parameters; the number is a constant."""

BEGIN_READING = "BEGIN"
"""Run several reads on one snapshot."""

BEGIN_WRITING = "BEGIN IMMEDIATE"
"""Take the write lock; wait for another writer if necessary."""

SCRUB_BEGINS = "CREATE TABLE IF NOT EXISTS unfinished_scrub (begun INTEGER)"
"""Record that removed content may still be in the files."""

SCRUB_IS_UNFINISHED = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'unfinished_scrub')"
"""Whether a scrub was started and not finished."""

SCRUB_ENDS = "DROP TABLE IF EXISTS unfinished_scrub"
"""Record that all removed content is gone from the files."""

MERGE_WORDS = "INSERT INTO {table} ({table}) VALUES ('optimize')"
"""Rewrite an FTS5 index without the words of removed rows.

FTS5's `secure-delete` does so at each removal, but then no SQLite before 3.42 can read the file.
"""

REWRITE_FILE = "VACUUM"
"""Rewrite the whole file without removed content."""

EMPTY_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"
"""Checkpoint and truncate the log. The first column says whether a reader prevented it."""

_PAUSE = 0.01

_left_to_parents: list[object] = []
"""Connections that a forked child inherited. Only the parent may close them."""


class Schema(NamedTuple):
    """The schema of a file."""

    version: int
    """The version that this code reads and writes."""
    table: str
    """A table that every version has, and no other schema."""
    create: str
    """A script that fills a new file."""
    migrations: Mapping[int, str] = {}
    """Scripts that migrate a file to the next version, by the version they start from."""
    settings: tuple[str, ...] = ()
    """Statements to run on each new connection."""
    words: tuple[str, ...] = ()
    """The tables that are word indexes."""
    add_functions: Callable[[sqlite3.Connection], None] = lambda _: None
    """Registers the functions that scripts call."""

    @property
    def oldest(self) -> int:
        """The oldest version that can be migrated: that of the first release."""
        return min(self.migrations, default=self.version)

    def upgrade(self, database: sqlite3.Connection, found: int) -> None:
        """Fill a file of version 0, or migrate one step by step."""
        self.add_functions(database)
        steps = range(found, self.version)
        scripts = [self.migrations[each] for each in steps] if found else [self.create]
        for statement in _statements("".join(scripts)):
            database.execute(statement)


class Database:
    """One file. Threads may share the object, processes the file; a forked child may use it."""

    def __init__(self, path: Path, schema: Schema, *, timeout: float, readers: int = 0) -> None:
        self.path = path
        self._schema = schema
        self._timeout = timeout
        self._inode = 0
        self._writer = _Connections(path, self._connect, 1)
        self._readers = _Connections(path, self._connect, readers) if readers else self._writer
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with self._errors():
            make_database(self.path)
            check_writable(self.path)
            with self._writer.borrowed() as database:
                self._upgrade(database)
                self._inode = self.path.stat().st_ino
                if database.execute(SCRUB_IS_UNFINISHED).fetchone()[0]:
                    self._finish_scrub(database)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read from one snapshot of the file."""
        with self._errors(), self._readers.borrowed() as database:
            database.execute(BEGIN_READING)
            try:
                yield database
            finally:
                if database.in_transaction:
                    database.rollback()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one write transaction; roll back if it raises."""
        with self._errors(), self._writer.borrowed() as database, self._transaction(database):
            yield database

    @contextmanager
    def writing_durably(self) -> Iterator[sqlite3.Connection]:
        """Write as `writing` does; this and all earlier writes survive a power cut."""
        with self._errors(), self._writer.borrowed() as database:
            database.execute(SYNC_AT_COMMIT)
            try:
                with self._transaction(database):
                    yield database
            finally:
                database.execute(SYNC_AT_CHECKPOINTS)

    def scrub(self) -> tuple[str, ...]:
        """Erase removed content from the files; return what another process prevented."""
        with self._errors(), self._writer.borrowed() as database:
            with self._transaction(database):
                database.execute(SCRUB_BEGINS)
                for table in self._schema.words:
                    database.execute(MERGE_WORDS.format(table=table))
            if self._finish_scrub(database):
                return ()
        return (
            f"{self.path} and its log hold removed content while another process reads from them; "
            "it is erased when the store is next opened or scrubbed",
        )

    def close(self) -> None:
        """Wait for running work and close the file. Closing twice is not an error."""
        with self._errors():
            self._readers.close()
            self._writer.close()

    def check_open(self) -> None:
        """Refuse if the store is closed."""
        self._writer.check_open()

    @contextmanager
    def _transaction(self, database: sqlite3.Connection) -> Iterator[None]:
        check_writable(self.path)
        self._check_in_place()
        database.execute(BEGIN_WRITING)
        try:
            yield
            database.commit()
        except BaseException:
            if database.in_transaction:
                database.rollback()
            raise

    def _check_in_place(self) -> None:
        """Refuse to write to a file that was moved away: nobody would read it."""
        if self.path.stat().st_ino != self._inode:
            raise StoreError(
                f"{self.path}: the file was replaced while it was open. Nothing was changed. "
                "Close the store and open it again."
            )

    def _finish_scrub(self, database: sqlite3.Connection) -> bool:
        """Rewrite the file and empty the log, unless another process uses it."""
        try:
            database.execute(REWRITE_FILE)
            (kept, _, _) = database.execute(EMPTY_LOG).fetchone()
        except sqlite3.OperationalError as error:
            if not _is_named(error, "SQLITE_BUSY"):
                raise
            return False
        if not kept:
            database.execute(SCRUB_ENDS)
        return not kept

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            check_version(database, self.path, self._schema)
            self._wait_for_write_ahead(database)
            for setting in (SYNC_AT_CHECKPOINTS, *self._schema.settings):
                database.execute(setting)
        except BaseException:
            database.close()
            raise
        return database

    def _wait_for_write_ahead(self, database: sqlite3.Connection) -> None:
        """Switch to WAL. SQLite does not wait for this lock when two open the file at once."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                database.execute(WRITE_AHEAD)
            except sqlite3.OperationalError as error:
                if not _is_named(error, "SQLITE_BUSY") or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
            else:
                return

    def _upgrade(self, database: sqlite3.Connection) -> None:
        """Migrate the file to the current version in one transaction. Safe to run concurrently."""
        version = self._schema.version
        if check_version(database, self.path, self._schema) == version:
            return
        database.execute(BEGIN_WRITING)
        try:
            found = check_version(database, self.path, self._schema)
            if found < version:  # else another process was faster
                self._schema.upgrade(database, found)
                database.execute(WRITE_SCHEMA_VERSION.format(version=version))
            database.commit()
        finally:
            if database.in_transaction:
                database.rollback()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise in_words(self.path, error) from error
        except UnicodeDecodeError as error:
            raise unreadable(self.path, "its layout", NOT_UTF8) from error
        except OSError as error:
            raise unusable(self.path, error) from error


class _Connections:
    """A bounded pool of connections, opened on demand; a thread waits if all are in use."""

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection], most: int) -> None:
        self._path = path
        self._connect = connect
        self._most = most
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._owner = os.getpid()
        self._idle: LifoQueue[sqlite3.Connection | None] = LifoQueue()
        for _ in range(self._most):
            self._idle.put(None)

    @contextmanager
    def borrowed(self) -> Iterator[sqlite3.Connection]:
        """Take a connection for exclusive use."""
        self._leave_to_parent()
        database = self._idle.get()
        try:
            self.check_open()
            if database is None:
                database = self._connect()
            yield database
        finally:
            self._idle.put(database)

    def check_open(self) -> None:
        """Refuse if the pool is closed."""
        if self._closed:
            raise StoreError(f"{self._path}: the store is closed. Open it again.")

    def close(self) -> None:
        """Wait until no connection is in use, then close them all."""
        self._leave_to_parent()
        self._closed = True
        for database in [self._idle.get() for _ in range(self._most)]:
            if database is not None:
                database.close()
            self._idle.put(None)

    def _leave_to_parent(self) -> None:
        """Start over in a forked child: open connections belong to the parent."""
        if self._owner != os.getpid():
            _left_to_parents.append(self._idle)
            self._start()


def check_version(database: sqlite3.Connection, path: Path, schema: Schema) -> int:
    """Read the version, and refuse a file that this code cannot read or that is not marksweep's."""
    found: int
    found, has_tables, is_ours = database.execute(READ_SCHEMA, (schema.table,)).fetchone()
    if has_tables and not (found and is_ours):
        raise StoreCorrupt(
            f"{path}: a SQLite database that is not marksweep's, or a memory named as a store, or "
            "a store named as a memory. Nothing was changed. Name another file."
        )
    if found > schema.version:
        raise StoreTooNew(
            f"{path}: schema version {found}, written by a newer marksweep; this one knows "
            f"up to {schema.version}. Upgrade marksweep, or open another file."
        )
    if 0 < found < schema.oldest:
        raise StoreError(
            f"{path}: schema version {found}, written before the first release of marksweep; this "
            f"one reads from {schema.oldest} on. Nothing was changed. Name another file."
        )
    return found


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements; `executescript` would commit before it starts."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


_REPAIR = "`marksweep doctor --repair` rebuilds it from what can be read; or restore a backup."

_MEANINGS: tuple[tuple[str, type[StoreError], str], ...] = (
    (
        "SQLITE_BUSY",
        StoreBusy,
        "another process is writing and did not finish in time. "
        "Try again, or find the process that hangs and end it.",
    ),
    (
        "SQLITE_NOTADB",
        StoreCorrupt,
        "this is not a SQLite database. Nothing was changed. "
        "Name another file, or move this one away.",
    ),
    (
        "SQLITE_CORRUPT",
        StoreCorrupt,
        f"the database is damaged. It was left as it is. {_REPAIR}",
    ),
    (
        "SQLITE_FULL",
        StoreError,
        "the disk is full. Nothing was changed. Free some space and try again.",
    ),
    (
        "SQLITE_READONLY",
        StoreError,
        "the file or its folder is read-only. Nothing was changed. "
        "Give this user write permission for both, or choose another location.",
    ),
    (
        "SQLITE_CANTOPEN",
        StoreError,
        "it cannot be opened. Check that its folder exists and is writable.",
    ),
    (
        "SQLITE_IOERR",
        StoreError,
        "the disk reports an error. Nothing was changed. Check the disk and its free space.",
    ),
)
"""Prefixes of SQLite's error names, each with the error to raise and what to do."""


def in_words(path: Path, error: sqlite3.Error) -> StoreError:
    """Explain a SQLite error and what to do about it."""
    for name, kind, meaning in _MEANINGS:
        if _is_named(error, name):
            return kind(f"{path}: {meaning} ({error})")
    if "Could not decode to UTF-8" in str(error):
        return unreadable(path, "a row", NOT_UTF8)
    if "fts5" in str(error):
        return StoreError(
            f"{path}: this Python's SQLite has no full-text search ({error}). "
            "Use a Python whose SQLite has FTS5, or another kind of store, like json:…"
        )
    return StoreError(f"{path}: SQLite says: {error}. Nothing was changed. Check the file.")


def _is_named(error: sqlite3.Error, name: str) -> bool:
    """Return whether SQLite's name for an error starts with `name`."""
    return getattr(error, "sqlite_errorname", "").startswith(name)


NOT_UTF8 = "its text is not UTF-8"

DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises: SQLite's own messages quote it, and may not be UTF-8 then."""


def unreadable(path: Path, what: str, reason: Exception | str) -> StoreCorrupt:
    """Report a row with unexpected content."""
    return StoreCorrupt(
        f"{path}: {what} cannot be read ({reason}). The file was left as it is. {_REPAIR}"
    )
