"""A store in memory: for tests, for one-off runs, and the state behind the JSON store."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import msgspec

from marksweep.errors import StoreBusy, StoreError
from marksweep.model import Entry, Event, Segment, Stashed
from marksweep.stores.base import KEEP_PLANS, Changes, Hit, JournalSize, PlanRetention, Query
from marksweep.stores.codec import ENTRY
from marksweep.stores.files import LOCK_TIMEOUT
from marksweep.stores.tables import JournalTable, LiveTable, StashTable


class MemoryStore:
    """All three faces in this process's memory. Gone when the process ends."""

    def __init__(
        self, *, lock_timeout: float = LOCK_TIMEOUT, retention: PlanRetention = KEEP_PLANS
    ) -> None:
        self._timeout = lock_timeout
        self._mutex = threading.RLock()
        self._locks: dict[str, threading.RLock] = {}
        self._closed = False
        self._segments = MemorySegments(self)
        self._stash = MemoryStash(self)
        self._journal = MemoryJournal(self, retention)

    @property
    def segments(self) -> MemorySegments:
        """The live segments."""
        return self._segments

    @property
    def stash(self) -> MemoryStash:
        """The swept segments."""
        return self._stash

    @property
    def journal(self) -> MemoryJournal:
        """The record."""
        return self._journal

    @contextmanager
    def lock(self, workspace: str) -> Iterator[None]:
        """Hold a workspace for one sweep, between threads."""
        with self.at_rest():
            lock = self._locks.setdefault(workspace, threading.RLock())
        if not lock.acquire(timeout=self._timeout):
            raise StoreBusy(
                f"memory store: workspace {workspace!r} is held by another thread for more than "
                f"{self._timeout:g} s. Try again, or find the thread that hangs in a sweep."
            )
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Keep other threads out for one call; refuse if the store is closed."""
        with self._mutex:
            if self._closed:
                raise StoreError("memory store: it is closed. Make a new one.")
            yield

    def scrub(self) -> tuple[str, ...]:
        """Do nothing: there are no files."""
        return ()

    def close(self) -> None:
        """Refuse further calls."""
        with self._mutex:
            self._closed = True


class MemorySegments:
    """The live segments of each workspace, in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._at_rest = store.at_rest
        self._tables: dict[str, LiveTable] = {}

    def changes(self, workspace: str, since: int = 0) -> Changes:
        """Tell what was put or removed after version `since`; from 0, everything."""
        with self._at_rest():
            return self._tables.get(workspace, _NO_SEGMENTS).changes(since)

    def write(
        self, workspace: str, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()
    ) -> int:
        """Remove, then put, in one step; return the new version."""
        with self._at_rest():
            return self._tables.setdefault(workspace, LiveTable()).write(tuple(put), tuple(remove))

    def search(self, workspace: str, query: Query) -> tuple[Hit[Segment], ...]:
        """Find live segments, best first."""
        with self._at_rest():
            return self._tables.get(workspace, _NO_SEGMENTS).search(query)

    def workspaces(self) -> tuple[str, ...]:
        """Name the workspaces that hold live segments, sorted."""
        with self._at_rest():
            return tuple(sorted(name for name, table in self._tables.items() if len(table)))


class MemoryStash:
    """Swept segments, in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._at_rest = store.at_rest
        self._tables: dict[str, StashTable] = {}

    def put(self, workspace: str, entries: Sequence[Stashed]) -> None:
        """Keep entries. Again with the same plan and segment: replaced."""
        with self._at_rest():
            self._tables.setdefault(workspace, StashTable()).put(tuple(entries))

    def get(self, workspace: str, segment_ids: Sequence[str]) -> tuple[Stashed, ...]:
        """Fetch the entries of these segments, newest first."""
        with self._at_rest():
            return self._tables.get(workspace, _NO_STASH).get(segment_ids)

    def of_plan(self, workspace: str, plan_id: str) -> tuple[Stashed, ...]:
        """Fetch what a plan swept, in heap order."""
        with self._at_rest():
            return self._tables.get(workspace, _NO_STASH).of_plan(plan_id)

    def latest_plan(self, workspace: str) -> str | None:
        """Name the plan of the entry that was put last."""
        with self._at_rest():
            return self._tables.get(workspace, _NO_STASH).latest_plan()

    def remove(self, workspace: str, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Let go of a plan's entries. Unknown ids are no error."""
        with self._at_rest():
            self._tables.get(workspace, _NO_STASH).remove(plan_id, segment_ids)

    def search(self, workspace: str, query: Query) -> tuple[Hit[Stashed], ...]:
        """Find entries, best first; without words, newest first."""
        with self._at_rest():
            return self._tables.get(workspace, _NO_STASH).search(query)

    def expired(self, workspace: str, now: datetime) -> tuple[Stashed, ...]:
        """Fetch the entries whose deletion has become final."""
        with self._at_rest():
            return self._tables.get(workspace, _NO_STASH).expired(now)

    def count(self, workspace: str, most: int = sys.maxsize) -> int:
        """Count the entries, no further than to `most`."""
        with self._at_rest():
            return min(most, len(self._tables.get(workspace, _NO_STASH)))


class MemoryJournal:
    """The record of plans and sweeps, in memory."""

    def __init__(self, store: MemoryStore, retention: PlanRetention) -> None:
        self._at_rest = store.at_rest
        self._retention = retention
        self._tables: dict[str, JournalTable] = {}

    def append(self, workspace: str, entry: Entry) -> Entry:
        """Add an entry; return it with its number."""
        with self._at_rest():
            table = self._tables.setdefault(workspace, JournalTable())
            if shown := table.shown(entry):
                return shown
            numbered = msgspec.structs.replace(entry, seq=table.next_seq)
            table.add(numbered)
            table.expire(self._retention)
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
        with self._at_rest():
            return self._tables.get(workspace, _NO_JOURNAL).read(events, plan_id, limit)

    def redact(self, workspace: str, segment_ids: Collection[str]) -> int:
        """Take the content of segments out of all entries; say of how many."""
        with self._at_rest():
            return self._tables.get(workspace, _NO_JOURNAL).redact(segment_ids)

    def size(self, workspace: str) -> JournalSize:
        """Say how large the journal is, as if it were written."""
        with self._at_rest():
            entries = self._tables.get(workspace, _NO_JOURNAL).entries
            return JournalSize(len(entries), sum(len(ENTRY.encode(each)) for each in entries))


_NO_SEGMENTS = LiveTable()
_NO_STASH = StashTable()
_NO_JOURNAL = JournalTable()
