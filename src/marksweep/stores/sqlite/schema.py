"""The schema's versions, and the steps from each to the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from marksweep.stores.codec import ENTRY, SEGMENT, STASHED, microseconds
from marksweep.stores.database import Schema
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.search import SEGMENTS, STASH


def _create_tables(database: sqlite3.Connection) -> None:
    for statement in sql.CREATE_TABLES:
        database.execute(statement)


def _index_words(database: sqlite3.Connection) -> None:
    for statement in sql.CREATE_WORD_INDEXES:
        database.execute(statement)
    live = database.execute(sql.ALL_SEGMENTS).fetchall()
    SEGMENTS.add_words(database, ((row, SEGMENT.decode(body)) for row, body in live))
    stashed = database.execute(sql.ALL_STASHED).fetchall()
    STASH.add_words(database, ((row, STASHED.decode(body).segment) for row, body in stashed))


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


def _upgrade(database: sqlite3.Connection, version: int) -> None:
    for step in STEPS[version:]:
        step(database)


SCHEMA = Schema(
    len(STEPS),
    _upgrade,
    settings=(sql.CACHE_MORE, sql.CHECKPOINT_LESS),
    words=("segments_words", "stash_words"),
)
