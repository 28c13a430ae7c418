"""In-memory workspaces: tables of live segments, stash and journal, and a store that uses them.

Tables are not thread-safe; access through a store is. The memory store keeps only the tables, for
tests and one-off runs; the JSON store writes each change to its files first.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from heapq import nlargest
from itertools import islice, takewhile
from pathlib import Path
from typing import TypeVar, Unpack

import msgspec

from marksweep.errors import StoreBusy, StoreError
from marksweep.model import Entry, Event, Segment, Stashed
from marksweep.search.bm25 import WordIndex
from marksweep.search.words import query_words, segment_words
from marksweep.stores.base import (
    KEEP_PLANS,
    Changes,
    EntryFilter,
    Hit,
    JournalSize,
    PlanRetention,
    Query,
    Store,
    redacted,
)
from marksweep.stores.codec import ENTRY, microseconds
from marksweep.stores.files import LOCK_TIMEOUT

CHANGES_KEPT = 10_000
"""Changes remembered per workspace, so that readers can fetch only what is new.

A reader that is further behind gets everything again. A database keeps live rows with their
version and forgets only removals. Higher saves slow readers a full read; each change takes the
space of an id.
"""

Found = TypeVar("Found")
Key = TypeVar("Key", bound=Hashable)
Table = TypeVar("Table")


def best(hits: Iterable[Hit[Found]], limit: int) -> tuple[Hit[Found], ...]:
    """Pick the highest scores; earlier ones win a tie."""
    return tuple(nlargest(max(0, limit), hits, key=lambda hit: hit.score))


class LiveTable:
    """Live segments with a version that increases with every write."""

    def __init__(self, version: int = 0, segments: Iterable[Segment] = ()) -> None:
        self.version = version
        self.held = {segment.segment_id: segment for segment in segments}
        self.log: deque[tuple[int, tuple[str, ...]]] = deque()
        """The ids that each write removed or put, back to the floor."""
        self.floor = version
        self._logged = 0
        self._index: WordIndex[str] | None = None

    def write(
        self, put: Sequence[Segment], remove: Sequence[str], *, version: int | None = None
    ) -> int:
        """Remove, then put; return the new version: the given one, or the next.

        If there is nothing to do, the version stays the same.
        """
        if version is None:
            if not put and not remove:
                return self.version
            version = self.version + 1
        self.version = version
        gone = [name for name in remove if self.held.pop(name, None) is not None]
        for segment in put:
            self.held[segment.segment_id] = segment
        if self._index is not None:
            for name in gone:
                self._index.discard(name)
            for segment in put:
                self._index.add(segment.segment_id, segment_words(segment).split())
        self._note(gone, put)
        return version

    def _note(self, gone: Sequence[str], put: Sequence[Segment]) -> None:
        """Log what the latest write changed; drop the oldest changes beyond the limit."""
        changed = len(gone) + len(put)
        if changed > CHANGES_KEPT:
            self.log.clear()
            self._logged, self.floor = 0, self.version
        elif changed:
            self.log.append((self.version, (*gone, *[segment.segment_id for segment in put])))
            self._logged += changed
        while self._logged > CHANGES_KEPT:
            self.floor, names = self.log.popleft()
            self._logged -= len(names)

    def scores(self, words: str) -> dict[str, float]:
        """Score the segments that have any of the words; index them at the first search."""
        if self._index is None:
            self._index = _indexed(self.held.items())
        return self._index.scores(query_words(words))


class StashTable:
    """Swept segments, numbered in the order they were put."""

    def __init__(self, version: int = 0, entries: Iterable[Stashed] = ()) -> None:
        self.version = version
        """Increases with every change."""
        self.held: dict[int, Stashed] = {}
        self.of_segment: dict[str, tuple[int, ...]] = {}
        """The numbers of each segment's entries."""
        self.of_plan: dict[str, list[int]] = {}
        """The numbers of each plan's entries; some may no longer exist."""
        self._next = 0
        self._index: WordIndex[int] | None = None
        self._add(entries)

    def put(self, entries: Sequence[Stashed]) -> None:
        """Store entries; one with the same plan and segment is replaced and counts as put last."""
        self._add(entries)
        self.version += bool(entries)

    def _add(self, entries: Iterable[Stashed]) -> None:
        for entry in entries:
            name, number = entry.segment.segment_id, self._next
            if name in self.of_segment:
                self._drop(entry.plan_id, name)
            self.held[number] = entry
            self.of_segment[name] = (*self.of_segment.get(name, ()), number)
            self.of_plan.setdefault(entry.plan_id, []).append(number)
            self._next = number + 1
            if self._index is not None:
                self._index.add(number, segment_words(entry.segment).split())

    def remove(self, plan_id: str, segment_ids: Iterable[str]) -> None:
        """Drop a plan's entries. Unknown ids are not an error."""
        before = len(self.held)
        for segment_id in segment_ids:
            self._drop(plan_id, segment_id)
        self.version += len(self.held) != before

    def _drop(self, plan_id: str, segment_id: str) -> None:
        numbers = self.of_segment.get(segment_id, ())
        left = tuple(n for n in numbers if self.held[n].plan_id != plan_id)
        for number in set(numbers).difference(left):
            del self.held[number]
            if self._index is not None:
                self._index.discard(number)
        if left:
            self.of_segment[segment_id] = left
        else:
            self.of_segment.pop(segment_id, None)

    def scores(self, words: str) -> dict[int, float]:
        """Score the entries that have any of the words; index them at the first search."""
        if self._index is None:
            self._index = _indexed((n, entry.segment) for n, entry in self.held.items())
        return self._index.scores(query_words(words))


def _indexed(segments: Iterable[tuple[Key, Segment]]) -> WordIndex[Key]:
    index: WordIndex[Key] = WordIndex()
    for key, segment in segments:
        index.add(key, segment_words(segment).split())
    return index


def heap_order(entry: Stashed) -> tuple[int, str]:
    """Sort entries in heap order."""
    return entry.segment.position, entry.segment.segment_id


def matching(entries: Iterable[Entry], **wanted: Unpack[EntryFilter]) -> tuple[Entry, ...]:
    """Filter entries."""
    events, plan_id, limit = wanted.get("events"), wanted.get("plan_id"), wanted.get("limit")
    found = (
        entry
        for entry in entries
        if (not events or entry.event in events) and plan_id in (None, entry.plan_id)
    )
    return tuple(islice(found, None if limit is None else min(max(0, limit), sys.maxsize)))


class JournalTable:
    """Entries in the order they were added."""

    def __init__(self, retention: PlanRetention = KEEP_PLANS) -> None:
        self.entries: list[Entry] = []
        self._retention = retention

    def append(self, entry: Entry) -> Entry:
        """Append an entry and return it numbered; a plan shown again is stored once."""
        if shown := self._shown(entry):
            return shown
        seq = self.entries[-1].seq + 1 if self.entries else 1
        numbered = msgspec.structs.replace(entry, seq=seq)
        self.entries.append(numbered)
        if entry.event is Event.PLANNED:
            self._expire()
        return numbered

    def _shown(self, entry: Entry) -> Entry | None:
        """Find an existing entry with the same plan."""
        if entry.event is not Event.PLANNED or entry.plan is None:
            return None
        found = matching(reversed(self.entries), events=(Event.PLANNED,), plan_id=entry.plan_id)
        return next((each for each in found if each.plan is not None), None)

    def _expire(self) -> None:
        """Drop the plans that expire when one is shown."""
        applied = {each.plan_id for each in self.entries if each.event is Event.SWEEPING}
        shown = matching(reversed(self.entries), events=(Event.PLANNED,))
        since = self._retention.shown_since(self.entries[-1].at)
        waiting = [each for each in shown if each.plan_id not in applied]
        expired = {each.seq for each in waiting[self._retention.plans :]}
        expired |= {each.seq for each in waiting if each.at < since}
        self.entries = [each for each in self.entries if each.seq not in expired]

    def redact(self, segment_ids: Collection[str]) -> int:
        """Remove the content of segments from all entries; return how many changed."""
        before, self.entries = self.entries, [redacted(e, segment_ids) for e in self.entries]
        return sum(old is not new for old, new in zip(before, self.entries, strict=True))


Access = Callable[[str], AbstractContextManager[Table]]
"""Gives access to a workspace's table, for one thread or process at a time.

Access for writing stores what the block has changed.
"""


class TableSegments:
    """Live segments in tables, however those are stored."""

    def __init__(
        self,
        reading: Access[LiveTable],
        writing: Access[LiveTable],
        workspaces: Callable[[], Iterable[str]],
    ) -> None:
        self._reading = reading
        self._writing = writing
        self._workspaces = workspaces

    def changes(self, workspace: str, since: int = 0) -> Changes:
        """Return changes after version `since`, or everything if it is 0."""
        with self._reading(workspace) as table:
            live, version = table.held, table.version
            if since == version:
                return Changes(version, complete=since == 0)
            if since <= 0 or since < table.floor or since > version:
                return Changes(version, tuple(live.values()), complete=True)
            later = takewhile(lambda write: write[0] > since, reversed(table.log))
            newest_first = dict.fromkeys(name for _, names in later for name in reversed(names))
            names = list(reversed(newest_first))
            put = tuple([live[name] for name in names if name in live])
            return Changes(version, put, tuple([name for name in names if name not in live]))

    def write(
        self, workspace: str, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()
    ) -> int:
        """Remove, then put, atomically; return the new version."""
        with self._writing(workspace) as table:
            return table.write(tuple(put), tuple(remove))

    def search(self, workspace: str, query: Query) -> tuple[Hit[Segment], ...]:
        """Find live segments, best first; without words, last touched first."""
        with self._reading(workspace) as table:
            live = table.held
            if query.words:
                hits = (Hit(live[key], score) for key, score in table.scores(query.words).items())
            else:
                hits = (Hit(each, each.last_touched_at.timestamp()) for each in live.values())
            return best((hit for hit in hits if query.matches(hit.found)), query.limit)

    def workspaces(self) -> tuple[str, ...]:
        """List the workspaces with live segments, sorted by name."""
        return tuple(sorted(self._workspaces()))


class TableStash:
    """Swept segments in tables, however those are stored."""

    def __init__(self, reading: Access[StashTable], writing: Access[StashTable]) -> None:
        self._reading = reading
        self._writing = writing

    def put(self, workspace: str, entries: Sequence[Stashed]) -> None:
        """Store entries atomically. An entry with the same plan and segment is replaced."""
        with self._writing(workspace) as table:
            table.put(tuple(entries))

    def get(self, workspace: str, segment_ids: Sequence[str]) -> tuple[Stashed, ...]:
        """Fetch the entries of these segments, newest first."""
        with self._reading(workspace) as table:
            numbers = {n for each in segment_ids for n in table.of_segment.get(each, ())}
            return tuple(table.held[number] for number in sorted(numbers, reverse=True))

    def of_plan(self, workspace: str, plan_id: str) -> tuple[Stashed, ...]:
        """Fetch what a plan swept, in heap order."""
        with self._reading(workspace) as table:
            numbers = table.of_plan.get(plan_id, ())
            found = [table.held[number] for number in numbers if number in table.held]
        return tuple(sorted(found, key=heap_order))

    def remove(self, workspace: str, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Drop a plan's entries atomically. Unknown ids are not an error."""
        with self._writing(workspace) as table:
            table.remove(plan_id, tuple(segment_ids))

    def search(self, workspace: str, query: Query) -> tuple[Hit[Stashed], ...]:
        """Find entries, best first; without words, newest first."""
        with self._reading(workspace) as table:
            if not query.words:
                newest = reversed(table.held.values())
                found = (Hit(each, 0.0) for each in newest if query.matches(each.segment))
                return tuple(islice(found, max(0, query.limit)))
            scores = table.scores(query.words)
            passing = (n for n in scores if query.matches(table.held[n].segment))
            ranked = sorted(passing, key=lambda number: (-scores[number], -number))
            chosen = ranked[: max(0, query.limit)]
            return tuple(Hit(table.held[number], scores[number]) for number in chosen)

    def entries(self, workspace: str) -> Iterator[Stashed]:
        """Read all entries, oldest first."""
        with self._reading(workspace) as table:
            found = tuple(table.held.values())
        yield from found

    def expired(self, workspace: str, now: datetime) -> tuple[Stashed, ...]:
        """Fetch the entries whose deletion has become final, oldest first."""
        moment = microseconds(now)
        with self._reading(workspace) as table:
            return tuple(
                entry
                for entry in table.held.values()
                if entry.expires_at is not None and microseconds(entry.expires_at) <= moment
            )

    def count(self, workspace: str, most: int = sys.maxsize) -> int:
        """Count the entries, up to `most`."""
        with self._reading(workspace) as table:
            return min(most, len(table.held))


class TableJournal:
    """The record of plans and sweeps in tables, however those are stored."""

    def __init__(self, reading: Access[JournalTable], writing: Access[JournalTable]) -> None:
        self._reading = reading
        self._writing = writing

    def append(self, workspace: str, entry: Entry) -> Entry:
        """Append an entry; return it numbered."""
        with self._writing(workspace) as table:
            return table.append(entry)

    def read(self, workspace: str, **wanted: Unpack[EntryFilter]) -> tuple[Entry, ...]:
        """Fetch entries, newest first."""
        with self._reading(workspace) as table:
            return matching(reversed(table.entries), **wanted)

    def entries(self, workspace: str) -> Iterator[Entry]:
        """Read all entries, oldest first."""
        with self._reading(workspace) as table:
            found = tuple(table.entries)
        yield from found

    def redact(self, workspace: str, segment_ids: Collection[str]) -> int:
        """Remove the content of segments from all entries; return how many changed."""
        with self._writing(workspace) as table:
            return table.redact(segment_ids)

    def size(self, workspace: str) -> JournalSize:
        """Return the size of the journal."""
        with self._reading(workspace) as table:
            encoded = [len(ENTRY.encode(entry)) + 1 for entry in table.entries]
        return JournalSize(len(encoded), sum(encoded))


class TableStore:
    """A store backed by tables: one call at a time, until it is closed."""

    closed_advice = "memory store: the store is closed. Create a new one."

    def __init__(self, lock_timeout: float) -> None:
        self._timeout = lock_timeout
        self._mutex = threading.RLock()
        self._closed = False

    def scrub(self) -> tuple[str, ...]:
        """Do nothing: there are no files, or the removal rewrote them."""
        return ()

    def size(self) -> int:
        """Return the size of its files; there are none in memory."""
        with self._alone():
            return 0

    def close(self) -> None:
        """Refuse further calls. Files are not kept open between calls."""
        with self._mutex:
            self._closed = True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock out other threads for one call; refuse if the store is closed."""
        with self._mutex:
            if self._closed:
                raise StoreError(self.closed_advice)
            yield


class MemoryStore(TableStore):
    """A store in this process's memory. Lost when the process ends."""

    def __init__(
        self, *, lock_timeout: float = LOCK_TIMEOUT, retention: PlanRetention = KEEP_PLANS
    ) -> None:
        super().__init__(lock_timeout)
        self._locks: dict[str, threading.RLock] = {}
        self._live: dict[str, LiveTable] = {}
        self._stash: dict[str, StashTable] = {}
        self._journal: dict[str, JournalTable] = {}
        live = self._access(self._live, LiveTable)
        stash = self._access(self._stash, StashTable)
        journal = self._access(self._journal, lambda: JournalTable(retention))
        self.segments = TableSegments(live, live, self._workspaces)
        self.stash = TableStash(stash, stash)
        self.journal = TableJournal(journal, journal)

    def all_workspaces(self) -> tuple[str, ...]:
        """List the non-empty workspaces, sorted by name."""
        with self._alone():
            names = {name for name, table in self._live.items() if table.held}
            names |= {name for name, table in self._stash.items() if table.held}
            names |= {name for name, table in self._journal.items() if table.entries}
            return tuple(sorted(names))

    @contextmanager
    def lock(self, workspace: str) -> Iterator[None]:
        """Lock a workspace for one sweep, across threads."""
        with self._alone():
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

    def drop(self, workspace: str) -> None:
        """Delete a workspace with its journal: nothing of it takes memory any more."""
        with self.lock(workspace), self._alone():
            for tables in (self._live, self._stash, self._journal, self._locks):
                tables.pop(workspace, None)

    def _access(self, tables: dict[str, Table], make: Callable[[], Table]) -> Access[Table]:
        @contextmanager
        def access(workspace: str) -> Iterator[Table]:
            with self._alone():
                if workspace not in tables:
                    tables[workspace] = make()
                yield tables[workspace]

        return access

    def _workspaces(self) -> list[str]:
        with self._alone():
            return [name for name, table in self._live.items() if table.held]


def store_of(where: Store | str | Path | None) -> Store:
    """Return the given store, or open the one at a location; None creates one in memory."""
    if isinstance(where, str | Path):
        from marksweep.stores.open import open_store

        return open_store(where)
    return MemoryStore() if where is None else where
