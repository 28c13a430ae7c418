"""The stash in SQLite."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from marksweep.model import Stashed
from marksweep.stores.base import Hit, Query
from marksweep.stores.codec import STASHED, microseconds
from marksweep.stores.database import Database, unreadable
from marksweep.stores.memory import heap_order
from marksweep.stores.sqlite import columns
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import Value, Workspace, bind
from marksweep.stores.sqlite.search import STASH


class SqliteStash:
    """Swept segments. Later entries have higher row numbers."""

    def __init__(self, file: Database) -> None:
        self._file = file

    def put(self, workspace: str, entries: Sequence[Stashed]) -> None:
        """Store entries atomically. An entry with the same plan and segment is replaced."""
        latest: dict[tuple[str, str], Stashed] = {}
        for entry in entries:
            key = (entry.plan_id, entry.segment.segment_id)
            latest.pop(key, None)
            latest[key] = entry
        with self._file.writing() as database:
            place = columns.make_workspace(database, workspace)
            for plan_id in dict.fromkeys(plan for plan, _ in latest):
                known = (place.number, bind(plan_id))
                if database.execute(sql.PLAN_IS_KNOWN, known).fetchone():
                    _remove(database, place, plan_id, [s for plan, s in latest if plan == plan_id])
            first, last = place.rows
            (highest,) = database.execute(sql.LAST_STASH_ROW, (first, last)).fetchone()
            start = first if highest is None else highest + 1
            rows = list(enumerate(latest.values(), start))
            database.executemany(sql.ADD_STASHED, (_row(place, row, each) for row, each in rows))
            STASH.add_words(database, ((row, each.segment) for row, each in rows))

    def get(self, workspace: str, segment_ids: Sequence[str]) -> tuple[Stashed, ...]:
        """Fetch the entries of these segments, newest first."""
        with self._file.reading() as database:
            place = columns.find_workspace(database, workspace)
            found: list[tuple[int, bytes]] = []
            for segment_id in dict.fromkeys(segment_ids):
                span = (place.number, bind(segment_id))
                found += database.execute(sql.STASHED_OF_SEGMENT, span).fetchall()
        found.sort(reverse=True)
        return self._read(body for _, body in found)

    def of_plan(self, workspace: str, plan_id: str) -> tuple[Stashed, ...]:
        """Fetch what a plan swept, in heap order."""
        with self._file.reading() as database:
            place = columns.find_workspace(database, workspace)
            span = (place.number, bind(plan_id))
            found = database.execute(sql.STASHED_OF_PLAN, span).fetchall()
        return tuple(sorted(self._read(body for (body,) in found), key=heap_order))

    def remove(self, workspace: str, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Drop a plan's entries atomically. Unknown ids are not an error."""
        with self._file.writing() as database:
            place = columns.find_workspace(database, workspace)
            _remove(database, place, plan_id, segment_ids)

    def search(self, workspace: str, query: Query) -> tuple[Hit[Stashed], ...]:
        """Find entries, best first; without words, newest first."""
        with self._file.reading() as database:
            place = columns.find_workspace(database, workspace)
            found = STASH.search(database, place, query)
        entries = self._read(body for _, body, _ in found)
        hits = (Hit(entry, each[2]) for entry, each in zip(entries, found, strict=True))
        return tuple(hit for hit in hits if query.matches(hit.found.segment))

    def entries(self, workspace: str) -> Iterator[Stashed]:
        """Read all entries, oldest first, in batches."""
        with self._file.reading() as database:
            first, last = columns.find_workspace(database, workspace).rows
        after = first - 1
        while True:
            with self._file.reading() as database:
                rows = database.execute(sql.STASHED_FROM, (after, last, sql.PAGE_ROWS)).fetchall()
            if not rows:
                return
            yield from self._read(body for _, body in rows)
            after = rows[-1][0]

    def expired(self, workspace: str, now: datetime) -> tuple[Stashed, ...]:
        """Fetch the entries whose deletion has become final, oldest first."""
        with self._file.reading() as database:
            place = columns.find_workspace(database, workspace)
            span = (place.number, microseconds(now))
            found = database.execute(sql.EXPIRED, span).fetchall()
        return self._read(body for (body,) in found)

    def count(self, workspace: str, most: int = sys.maxsize) -> int:
        """Count the entries, up to `most`."""
        with self._file.reading() as database:
            place = columns.find_workspace(database, workspace)
            (count,) = database.execute(sql.COUNT_STASHED, (*place.rows, most)).fetchone()
        return int(count)

    def _read(self, bodies: Iterable[bytes]) -> tuple[Stashed, ...]:
        try:
            return tuple(STASHED.decode_all(list(bodies)))
        except ValueError as error:
            raise unreadable(self._file.path, "a stash entry", error) from error


def _row(place: Workspace, row: int, entry: Stashed) -> tuple[Value, ...]:
    segment = entry.segment
    return (
        row,
        place.number,
        bind(entry.plan_id),
        bind(segment.segment_id),
        microseconds(segment.created_at),
        None if entry.expires_at is None else microseconds(entry.expires_at),
        STASHED.encode(entry),
    )


def _remove(
    database: sqlite3.Connection, place: Workspace, plan_id: str, segment_ids: Iterable[str]
) -> None:
    plan = bind(plan_id)
    rows: list[int] = []
    for segment_id in dict.fromkeys(segment_ids):
        span = (place.number, plan, bind(segment_id))
        rows += [row for (row,) in database.execute(sql.FIND_STASHED, span)]
    database.executemany(sql.REMOVE_STASHED, ((row,) for row in rows))
    STASH.remove_words(database, rows)
