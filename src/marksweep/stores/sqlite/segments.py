"""The live segments in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from marksweep.model import Segment
from marksweep.search.words import found_alike
from marksweep.stores.base import Changes, Hit, Query
from marksweep.stores.codec import SEGMENT, microseconds
from marksweep.stores.database import Database, unreadable
from marksweep.stores.memory import CHANGES_KEPT
from marksweep.stores.sqlite import columns
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import Workspace, bind
from marksweep.stores.sqlite.search import SEGMENTS


class SqliteSegments:
    """The live segments of each workspace."""

    def __init__(self, file: Database) -> None:
        self._file = file

    def changes(self, workspace: str, since: int = 0) -> Changes:
        """Return changes after version `since`, or everything if it is 0."""
        with self._file.reading() as database:
            place = columns.find_workspace(database, workspace)
            if since == place.version > 0:
                return Changes(since)
            if since <= 0 or since < place.floor or since > place.version:
                bodies = database.execute(sql.LIVE_SEGMENTS, place.rows).fetchall()
                return Changes(place.version, self._read(bodies), complete=True)
            span = (place.number, since)
            bodies = database.execute(sql.SEGMENTS_SINCE, span).fetchall()
            gone = database.execute(sql.REMOVED_SINCE, span).fetchall()
        put = self._read(bodies)
        return Changes(place.version, put, tuple(columns.unbind(key) for (key,) in gone))

    def write(
        self, workspace: str, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()
    ) -> int:
        """Remove, then put, atomically; return the new version."""
        with self._file.writing() as database:
            place = columns.make_workspace(database, workspace)
            if not put and not remove:
                return place.version
            version = place.version + 1
            if remove:
                _remove(database, place, version, remove)
            if put:
                _put(database, place, version, {each.segment_id: each for each in put})
            database.execute(sql.SET_VERSION, (version, place.number))
            return version

    def search(self, workspace: str, query: Query) -> tuple[Hit[Segment], ...]:
        """Find live segments, best first; without words, last touched first."""
        with self._file.reading() as database:
            place = columns.find_workspace(database, workspace)
            found = SEGMENTS.search(database, place, query)
        segments = self._read([(body,) for _, body, _ in found])
        hits = (Hit(s, float(each[2])) for s, each in zip(segments, found, strict=True))
        return tuple(hit for hit in hits if query.matches(hit.found))

    def workspaces(self) -> tuple[str, ...]:
        """List the workspaces with live segments, sorted by name."""
        with self._file.reading() as database:
            names = database.execute(sql.LIVE_WORKSPACES).fetchall()
        return tuple(sorted(columns.unbind(name) for (name,) in names))

    def _read(self, bodies: Sequence[tuple[bytes]]) -> tuple[Segment, ...]:
        try:
            return tuple(SEGMENT.decode_all([body for (body,) in bodies]))
        except ValueError as error:
            raise unreadable(self._file.path, "a live segment", error) from error


def _remove(
    database: sqlite3.Connection, place: Workspace, version: int, segment_ids: Sequence[str]
) -> None:
    rows: list[int] = []
    notes: list[tuple[int, str | bytes, int]] = []
    for segment_id in dict.fromkeys(segment_ids):
        key = bind(segment_id)
        found = database.execute(sql.FIND_SEGMENT, (place.number, key)).fetchone()
        if found is not None:
            rows.append(found[0])
            notes.append((place.number, key, version))
    database.executemany(sql.REMOVE_SEGMENT, ((row,) for row in rows))
    SEGMENTS.remove_words(database, rows)
    database.executemany(sql.NOTE_REMOVED, notes)
    (count,) = database.execute(sql.COUNT_REMOVED, (place.number,)).fetchone()
    if count > 2 * CHANGES_KEPT:
        # Twice, to amortize the cost of the deletion over many writes.
        span = (place.number, CHANGES_KEPT)
        (floor,) = database.execute(sql.OLDEST_KEPT_REMOVAL, span).fetchone()
        database.execute(sql.FORGET_REMOVED, (place.number, floor))
        database.execute(sql.SET_FLOOR, (floor, place.number))


def _put(
    database: sqlite3.Connection, place: Workspace, version: int, segments: dict[str, Segment]
) -> None:
    first, last = place.rows
    (highest,) = database.execute(sql.LAST_SEGMENT_ROW, (first, last)).fetchone()
    new_row = first if highest is None else highest + 1
    outdated: list[int] = []
    to_index: list[tuple[int, Segment]] = []
    for segment in segments.values():
        key = bind(segment.segment_id)
        created, touched = segment.created_at, segment.last_touched_at
        content = (microseconds(created), microseconds(touched), SEGMENT.encode(segment))
        found = database.execute(sql.FIND_SEGMENT, (place.number, key)).fetchone()
        if found is None:
            database.execute(sql.ADD_SEGMENT, (new_row, place.number, key, version, *content))
            database.execute(sql.FORGET_REMOVED_ID, (place.number, key))
            to_index.append((new_row, segment))
            new_row += 1
            continue
        row, body = found
        database.execute(sql.CHANGE_SEGMENT, (version, *content, row))
        if not found_alike(SEGMENT.decode(body), segment):
            outdated.append(row)
            to_index.append((row, segment))
    SEGMENTS.remove_words(database, outdated)
    SEGMENTS.add_words(database, to_index)
