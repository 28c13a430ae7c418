"""The journal in SQLite."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from marksweep.model import Entry, Event
from marksweep.stores.codec import ENTRY
from marksweep.stores.sqlite import columns
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import Value, bind
from marksweep.stores.sqlite.connection import Connection
from marksweep.stores.sqlite.errors import unreadable

CLOSING = frozenset({Event.SWEPT, Event.RESTORED, Event.UNDONE, Event.ROLLED_BACK})
"""Entries that close a deed. If a power cut takes one, the next deed works it out again."""


class SqliteJournal:
    """The record of plans and sweeps."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, workspace: str, entry: Entry) -> Entry:
        """Add an entry, durably and all that was before it unless it only closes a deed."""
        closes = entry.event in CLOSING
        writing = self._connection.writing if closes else self._connection.writing_durably
        with writing() as database:
            place = columns.make_workspace(database, workspace)
            (last,) = database.execute(sql.LAST_SEQ, (place.number,)).fetchone()
            numbered = msgspec.structs.replace(entry, seq=(last or 0) + 1)
            row = (place.number, numbered.seq, entry.event.value, bind(entry.plan_id))
            database.execute(sql.ADD_ENTRY, (*row, ENTRY.encode(numbered)))
        return numbered

    def read(
        self,
        workspace: str,
        *,
        events: Collection[Event] = (),
        plan_id: str | None = None,
        limit: int | None = None,
    ) -> tuple[Entry, ...]:
        """Fetch entries, newest first; `events` empty means every kind."""
        clauses: list[str] = []
        values: list[Value] = []
        if events:
            clauses.append(sql.ENTRY_FILTERS["event"].format(places=columns.places(len(events))))
            values += [event.value for event in events]
        if plan_id is not None:
            clauses.append(sql.ENTRY_FILTERS["plan_id"])
            values.append(bind(plan_id))
        statement = sql.READ_ENTRIES.format(filters=" ".join(clauses))
        most = -1 if limit is None else max(0, limit)
        with self._connection.asking() as database:
            place = columns.find_workspace(database, workspace)
            if place is None:
                return ()
            found = database.execute(statement, (place.number, *values, most)).fetchall()
        try:
            return tuple(ENTRY.decode_all([body for (body,) in found]))
        except ValueError as error:
            raise unreadable(self._connection.path, "a journal entry", error) from error
