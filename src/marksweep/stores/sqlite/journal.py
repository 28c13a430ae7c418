"""The journal in SQLite."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Unpack

import msgspec

from marksweep.model import Entry, Event
from marksweep.stores.base import EntryFilter, JournalSize, PlanRetention, redacted
from marksweep.stores.codec import ENTRY, microseconds
from marksweep.stores.database import Database, unreadable
from marksweep.stores.sqlite import columns
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import Value, Workspace, bind

CLOSING = frozenset({Event.SWEPT, Event.RESTORED, Event.UNDONE, Event.ROLLED_BACK})
"""Events that close an operation. The next operation rewrites one lost in a power cut."""


class SqliteJournal:
    """The record of plans and sweeps."""

    def __init__(self, file: Database, retention: PlanRetention) -> None:
        self._file = file
        self._retention = retention

    def append(self, workspace: str, entry: Entry) -> Entry:
        """Append an entry; unless it only closes an operation, sync it and all earlier writes.

        A plan shown again is stored once.
        """
        shows = entry.event is Event.PLANNED and entry.plan is not None
        closes = entry.event in CLOSING
        writing = self._file.writing if closes else self._file.writing_durably
        with writing() as database:
            place = columns.make_workspace(database, workspace)
            if shows and (shown := self._shown(database, place, entry.plan_id)):
                return shown
            (last,) = database.execute(sql.LAST_SEQ, (place.number,)).fetchone()
            numbered = msgspec.structs.replace(entry, seq=(last or 0) + 1)
            row = (place.number, numbered.seq, entry.event.value, bind(entry.plan_id))
            at, body = microseconds(entry.at), ENTRY.encode(numbered)
            database.execute(sql.ADD_ENTRY, (*row, at, body))
            if shows:
                kept = {
                    "workspace": place.number,
                    "shown": Event.PLANNED.value,
                    "applied": Event.SWEEPING.value,
                    "since": microseconds(self._retention.shown_since(entry.at)),
                    "plans": max(1, self._retention.plans),
                }
                database.execute(sql.EXPIRE_SHOWN, kept)
        return numbered

    def read(self, workspace: str, **wanted: Unpack[EntryFilter]) -> tuple[Entry, ...]:
        """Fetch entries, newest first."""
        limit = wanted.get("limit")
        clauses: list[str] = []
        values: list[Value] = []
        if events := wanted.get("events"):
            clauses.append(sql.ENTRY_FILTERS["event"].format(places=columns.places(len(events))))
            values += [event.value for event in events]
        if (plan_id := wanted.get("plan_id")) is not None:
            clauses.append(sql.ENTRY_FILTERS["plan_id"])
            values.append(bind(plan_id))
        statement = sql.READ_ENTRIES.format(filters=" ".join(clauses))
        most = -1 if limit is None else min(max(0, limit), sys.maxsize)
        with self._file.reading() as database:
            place = columns.find_workspace(database, workspace)
            found = database.execute(statement, (place.number, *values, most)).fetchall()
        return self._read([body for (body,) in found])

    def entries(self, workspace: str) -> Iterator[Entry]:
        """Read all entries, oldest first, in batches."""
        after = 0
        while True:
            with self._file.reading() as database:
                place = columns.find_workspace(database, workspace)
                span = (place.number, after, sql.PAGE_ROWS)
                rows = database.execute(sql.ENTRIES_FROM, span).fetchall()
            if not rows:
                return
            yield from self._read([body for _, body in rows])
            after = rows[-1][0]

    def redact(self, workspace: str, segment_ids: Collection[str]) -> int:
        """Remove the content of segments from all entries; return how many changed."""
        with self._file.writing() as database:
            place = columns.find_workspace(database, workspace)
            rows = database.execute(sql.ENTRIES_WITH_PLANS, (place.number,)).fetchall()
            entries = self._read([body for _, body in rows])
            changed = [
                (ENTRY.encode(without), row)
                for (row, _), entry in zip(rows, entries, strict=True)
                if (without := redacted(entry, segment_ids)) is not entry
            ]
            database.executemany(sql.CHANGE_ENTRY, changed)
        return len(changed)

    def size(self, workspace: str) -> JournalSize:
        """Return the size of the journal."""
        with self._file.reading() as database:
            place = columns.find_workspace(database, workspace)
            return JournalSize(*database.execute(sql.JOURNAL_SIZE, (place.number,)).fetchone())

    def _shown(self, database: sqlite3.Connection, place: Workspace, plan_id: str) -> Entry | None:
        """Find the entry that shows a plan."""
        wanted = (place.number, bind(plan_id), Event.PLANNED.value)
        found = database.execute(sql.SHOWN_PLAN, wanted).fetchone()
        if found is None:
            return None
        (entry,) = self._read(found)
        return entry if entry.plan is not None else None

    def _read(self, bodies: Sequence[bytes]) -> tuple[Entry, ...]:
        try:
            return tuple(ENTRY.decode_all(bodies))
        except ValueError as error:
            raise unreadable(self._file.path, "a journal entry", error) from error
