"""The schema's versions, and the steps from each to the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from marksweep.errors import StoreCorrupt, StoreTooNew
from marksweep.search.words import segment_words
from marksweep.stores.codec import ENTRY, SEGMENT, STASHED, microseconds
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import marks
from marksweep.stores.sqlite.errors import unreadable


def _create_tables(database: sqlite3.Connection) -> None:
    for statement in sql.CREATE_TABLES:
        database.execute(statement)


def _index_words(database: sqlite3.Connection) -> None:
    for statement in sql.CREATE_WORD_INDEXES:
        database.execute(statement)
    for row, body in database.execute(sql.ALL_SEGMENTS).fetchall():
        segment = SEGMENT.decode(body)
        database.execute(sql.ADD_SEGMENT_WORDS, (row, segment_words(segment), marks(segment)))
    for row, body in database.execute(sql.ALL_STASHED).fetchall():
        segment = STASHED.decode(body).segment
        database.execute(sql.ADD_STASH_WORDS, (row, segment_words(segment), marks(segment)))


def _note_times(database: sqlite3.Connection) -> None:
    for statement in sql.ADD_JOURNAL_TIMES:
        database.execute(statement)
    for row, body in database.execute(sql.ALL_ENTRIES).fetchall():
        database.execute(sql.SET_ENTRY_TIME, (microseconds(ENTRY.decode(body).at), row))


STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _create_tables,
    _index_words,
    _note_times,
)
"""Step n leads from version n to n + 1. Steps that were released are never changed."""

VERSION = len(STEPS)
"""The version this code reads and writes."""


def check_version(database: sqlite3.Connection, path: Path) -> int:
    """Read the version, and refuse a file that is newer than this code or not ours."""
    found: int
    found, has_tables = database.execute(sql.READ_SCHEMA).fetchone()
    if found > VERSION:
        raise StoreTooNew(
            f"{path}: schema version {found}, written by a newer marksweep; this one knows "
            f"up to {VERSION}. Upgrade marksweep, or open another file."
        )
    if found == 0 and has_tables:
        raise StoreCorrupt(
            f"{path}: a SQLite database that is not marksweep's. Nothing was changed. "
            "Name another file."
        )
    return found


def migrate(database: sqlite3.Connection, path: Path) -> None:
    """Bring a file to the current version, all steps or none. Several may try at once."""
    if check_version(database, path) == VERSION:
        return
    database.execute(sql.BEGIN_WRITING)
    try:
        for step in STEPS[check_version(database, path) :]:
            step(database)
        database.execute(sql.WRITE_SCHEMA_VERSION.format(version=VERSION))
        database.commit()
    except ValueError as error:
        database.rollback()
        raise unreadable(path, "a row", error) from error
    except BaseException:
        if database.in_transaction:
            database.rollback()
        raise
