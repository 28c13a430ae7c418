"""In-memory workspaces: tables of live segments, stash and journal, and a store that uses them.

Tables are not thread-safe; access through a store is. The memory store keeps only the tables, for
tests and one-off runs; the JSON store writes each change to its files first.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from heapq import nlargest
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Protocol, TypeVar, Unpack

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


def best(hits: Iterable[Hit[Found]], limit: int) -> tuple[Hit[Found], ...]:
    """Pick the highest scores; earlier ones win a tie."""
    return tuple(nlargest(max(0, limit), hits, key=lambda hit: hit.score))


class LiveTable:
    """Live segments with a version that increases with every write."""

    def __init__(self, version: int = 0, segments: Iterable[Segment] = ()) -> None:
        self.version = version
        self._live = {segment.segment_id: segment for segment in segments}
        self._log: deque[tuple[int, tuple[str, ...]]] = deque()
        """The ids that each write removed or put, back to the floor."""
        self._logged = 0
        self._floor = version
        self._index: WordIndex[str] | None = None

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self._live)

    def segments(self) -> tuple[Segment, ...]:
        """List what is live, in heap order."""
        return tuple(sorted(self._live.values(), key=lambda s: (s.position, s.segment_id)))

    def get(self, segment_id: str) -> Segment | None:
        """Fetch one segment, if it is live."""
        return self._live.get(segment_id)

    def changes(self, since: int) -> Changes:
        """Return changes after a version, or everything if it is too old."""
        live = self._live
        if since == self.version:
            return Changes(self.version, complete=since == 0)
        if since <= 0 or since < self._floor or since > self.version:
            return Changes(self.version, tuple(live.values()), complete=True)
        later = takewhile(lambda write: write[0] > since, reversed(self._log))
        newest_first = dict.fromkeys(name for _, names in later for name in reversed(names))
        names = list(reversed(newest_first))
        put = tuple([live[name] for name in names if name in live])
        return Changes(self.version, put, tuple([name for name in names if name not in live]))

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
        gone = [name for name in remove if self._live.pop(name, None) is not None]
        for segment in put:
            self._live[segment.segment_id] = segment
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
            self._log.clear()
            self._logged, self._floor = 0, self.version
        elif changed:
            self._log.append((self.version, (*gone, *[segment.segment_id for segment in put])))
            self._logged += changed
        while self._logged > CHANGES_KEPT:
            self._floor, names = self._log.popleft()
            self._logged -= len(names)

    def search(self, query: Query) -> tuple[Hit[Segment], ...]:
        """Find segments, best first; without words, last touched first."""
        if not query.words:
            passing = (s for s in self._live.values() if query.matches(s))
            return best(
                (Hit(segment, segment.last_touched_at.timestamp()) for segment in passing),
                query.limit,
            )
        if self._index is None:
            self._index = WordIndex()
            for segment in self._live.values():
                self._index.add(segment.segment_id, segment_words(segment).split())
        scores = self._index.scores(query_words(query.words))
        found = ((self._live[key], score) for key, score in scores.items())
        return best((Hit(s, score) for s, score in found if query.matches(s)), query.limit)


class StashTable:
    """Swept segments, numbered in the order they were put."""

    def __init__(self) -> None:
        self._entries: dict[int, Stashed] = {}
        self._runs: dict[str, list[range]] = {}
        """The numbers of each plan's entries; some may no longer exist."""
        self._newest: dict[str, int] = {}
        """The number of the last entry of each segment."""
        self._earlier: dict[int, int] = {}
        """Maps an entry to the previous one of the same segment; most have none."""
        self._next = 0
        self._index: WordIndex[int] | None = None

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def entries(self) -> tuple[Stashed, ...]:
        """List the entries in the order they were put."""
        return tuple(self._entries.values())

    def put(self, entries: Iterable[Stashed]) -> None:
        """Store entries; one with the same plan and segment is replaced and counts as put last."""
        newest, index = self._newest, self._index
        plan_id, start = "", self._next
        for entry in entries:
            name, number = entry.segment.segment_id, self._next
            if entry.plan_id != plan_id:
                self._note_run(plan_id, start)
                plan_id, start = entry.plan_id, number
            # Nearly all segments have no earlier entry, so one lookup must be enough.
            if newest.setdefault(name, number) != number:
                self.remove(plan_id, [name])
                if name in newest:
                    self._earlier[number] = newest[name]
                newest[name] = number
            self._entries[number] = entry
            self._next = number + 1
            if index is not None:
                index.add(number, segment_words(entry.segment).split())
        self._note_run(plan_id, start)

    def _note_run(self, plan_id: str, start: int) -> None:
        """Record that the numbers from `start` on belong to entries of a plan."""
        if start < self._next:
            self._runs.setdefault(plan_id, []).append(range(start, self._next))

    def get(self, segment_ids: Sequence[str]) -> tuple[Stashed, ...]:
        """Fetch the entries of these segments, newest first."""
        numbers = {number for each in segment_ids for number in self._numbers(each)}
        return tuple(self._entries[number] for number in sorted(numbers, reverse=True))

    def of_plan(self, plan_id: str) -> tuple[Stashed, ...]:
        """Fetch what a plan swept, in heap order."""
        numbers = chain.from_iterable(self._runs.get(plan_id, ()))
        found = [self._entries[number] for number in numbers if number in self._entries]
        return tuple(sorted(found, key=heap_order))

    def remove(self, plan_id: str, segment_ids: Iterable[str]) -> None:
        """Drop a plan's entries. Unknown ids are not an error."""
        for segment_id in segment_ids:
            later: int | None = None
            for number in self._numbers(segment_id):
                if self._entries[number].plan_id == plan_id:
                    self._unchain(number, segment_id, later)
                    self._let_go(number)
                    break
                later = number

    def _numbers(self, segment_id: str) -> Iterator[int]:
        """Yield the numbers of a segment's entries, newest first."""
        number = self._newest.get(segment_id)
        while number is not None:
            yield number
            number = self._earlier.get(number)

    def _unchain(self, number: int, segment_id: str, later: int | None) -> None:
        """Unlink an entry from the list of its segment's entries."""
        earlier = self._earlier.pop(number, None)
        if later is None:
            del self._newest[segment_id]
        else:
            del self._earlier[later]
        if earlier is None:
            return
        if later is None:
            self._newest[segment_id] = earlier
        else:
            self._earlier[later] = earlier

    def _let_go(self, number: int) -> None:
        del self._entries[number]
        if self._index is not None:
            self._index.discard(number)

    def search(self, query: Query) -> tuple[Hit[Stashed], ...]:
        """Find entries, best first; without words, newest first."""
        if not query.words:
            newest = reversed(self._entries.values())
            found = (Hit(each, 0.0) for each in newest if query.matches(each.segment))
            return tuple(islice(found, max(0, query.limit)))
        if self._index is None:
            self._index = WordIndex()
            for number, entry in self._entries.items():
                self._index.add(number, segment_words(entry.segment).split())
        scores = self._index.scores(query_words(query.words))
        passing = (n for n in scores if query.matches(self._entries[n].segment))
        ranked = sorted(passing, key=lambda number: (-scores[number], -number))
        return tuple(Hit(self._entries[n], scores[n]) for n in ranked[: max(0, query.limit)])

    def expired(self, now: datetime) -> tuple[Stashed, ...]:
        """Fetch the entries whose deletion has become final, oldest first."""
        moment = microseconds(now)
        return tuple(
            entry
            for entry in self._entries.values()
            if entry.expires_at is not None and microseconds(entry.expires_at) <= moment
        )


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
    return tuple(islice(found, None if limit is None else max(0, limit)))


class JournalTable:
    """Entries in the order they were added."""

    def __init__(self, retention: PlanRetention = KEEP_PLANS) -> None:
        self.entries: list[Entry] = []
        self._retention = retention

    def append(self, entry: Entry) -> Entry:
        """Append an entry and return it numbered; a plan shown again is stored once."""
        if shown := self.shown(entry):
            return shown
        numbered = msgspec.structs.replace(entry, seq=self.next_seq)
        self.entries.append(numbered)
        self.expire()
        return numbered

    @property
    def next_seq(self) -> int:
        """The number of the next entry."""
        return self.entries[-1].seq + 1 if self.entries else 1

    def shown(self, entry: Entry) -> Entry | None:
        """Find an existing entry with the same plan."""
        if entry.event is not Event.PLANNED or entry.plan is None:
            return None
        found = matching(reversed(self.entries), events=(Event.PLANNED,), plan_id=entry.plan_id)
        return next((each for each in found if each.plan is not None), None)

    def expire(self) -> bool:
        """Drop expired plans; return whether there were any."""
        if not self.entries or self.entries[-1].event is not Event.PLANNED:
            return False
        applied = {each.plan_id for each in self.entries if each.event is Event.SWEEPING}
        shown = matching(reversed(self.entries), events=(Event.PLANNED,))
        since = self._retention.shown_since(self.entries[-1].at)
        waiting = [each for each in shown if each.plan_id not in applied]
        expired = {each.seq for each in waiting[self._retention.plans :]}
        expired |= {each.seq for each in waiting if each.at < since}
        self.entries = [each for each in self.entries if each.seq not in expired]
        return bool(expired)

    def redact(self, segment_ids: Collection[str]) -> int:
        """Remove the content of segments from all entries; return how many changed."""
        before, self.entries = self.entries, [redacted(e, segment_ids) for e in self.entries]
        return sum(old is not new for old, new in zip(before, self.entries, strict=True))

    def size(self) -> JournalSize:
        """Return the size of the encoded entries."""
        return JournalSize(len(self.entries), sum(len(ENTRY.encode(e)) + 1 for e in self.entries))


Table = TypeVar("Table")

Access = Callable[[str], AbstractContextManager[Table]]
"""Gives access to a workspace's table, for one thread or process at a time."""


class LiveWriter(Protocol):
    """Receives writes to live segments."""

    def write(self, put: Sequence[Segment], remove: Sequence[str]) -> int:
        """Remove, then put; return the new version."""
        ...


class StashWriter(Protocol):
    """Receives writes to a stash."""

    def put(self, entries: Sequence[Stashed]) -> None:
        """Store entries."""
        ...

    def remove(self, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Drop a plan's entries."""
        ...


class JournalWriter(Protocol):
    """Receives writes to a journal."""

    def append(self, entry: Entry) -> Entry:
        """Append an entry; return it numbered."""
        ...

    def redact(self, segment_ids: Collection[str]) -> int:
        """Remove the content of segments from all entries."""
        ...


class TableSegments:
    """Live segments in tables, however those are stored."""

    def __init__(
        self,
        reading: Access[LiveTable],
        writing: Access[LiveWriter],
        workspaces: Callable[[], Iterable[str]],
    ) -> None:
        self._reading = reading
        self._writing = writing
        self._workspaces = workspaces

    def changes(self, workspace: str, since: int = 0) -> Changes:
        """Return changes after version `since`, or everything if it is 0."""
        with self._reading(workspace) as table:
            return table.changes(since)

    def write(
        self, workspace: str, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()
    ) -> int:
        """Remove, then put, atomically; return the new version."""
        with self._writing(workspace) as table:
            return table.write(tuple(put), tuple(remove))

    def search(self, workspace: str, query: Query) -> tuple[Hit[Segment], ...]:
        """Find live segments, best first; without words, last touched first."""
        with self._reading(workspace) as table:
            return table.search(query)

    def workspaces(self) -> tuple[str, ...]:
        """List the workspaces with live segments, sorted by name."""
        return tuple(sorted(self._workspaces()))


class TableStash:
    """Swept segments in tables, however those are stored."""

    def __init__(self, reading: Access[StashTable], writing: Access[StashWriter]) -> None:
        self._reading = reading
        self._writing = writing

    def put(self, workspace: str, entries: Sequence[Stashed]) -> None:
        """Store entries atomically. An entry with the same plan and segment is replaced."""
        with self._writing(workspace) as table:
            table.put(tuple(entries))

    def get(self, workspace: str, segment_ids: Sequence[str]) -> tuple[Stashed, ...]:
        """Fetch the entries of these segments, newest first."""
        with self._reading(workspace) as table:
            return table.get(segment_ids)

    def of_plan(self, workspace: str, plan_id: str) -> tuple[Stashed, ...]:
        """Fetch what a plan swept, in heap order."""
        with self._reading(workspace) as table:
            return table.of_plan(plan_id)

    def remove(self, workspace: str, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Drop a plan's entries atomically. Unknown ids are not an error."""
        with self._writing(workspace) as table:
            table.remove(plan_id, tuple(segment_ids))

    def search(self, workspace: str, query: Query) -> tuple[Hit[Stashed], ...]:
        """Find entries, best first; without words, newest first."""
        with self._reading(workspace) as table:
            return table.search(query)

    def entries(self, workspace: str) -> Iterator[Stashed]:
        """Read all entries, oldest first."""
        with self._reading(workspace) as table:
            found = table.entries()
        yield from found

    def expired(self, workspace: str, now: datetime) -> tuple[Stashed, ...]:
        """Fetch the entries whose deletion has become final, oldest first."""
        with self._reading(workspace) as table:
            return table.expired(now)

    def count(self, workspace: str, most: int = sys.maxsize) -> int:
        """Count the entries, up to `most`."""
        with self._reading(workspace) as table:
            return min(most, len(table))


class TableJournal:
    """The record of plans and sweeps in tables, however those are stored."""

    def __init__(self, reading: Access[JournalTable], writing: Access[JournalWriter]) -> None:
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
            return table.size()


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
            names = {name for name, table in self._live.items() if len(table)}
            names |= {name for name, table in self._stash.items() if len(table)}
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
            return [name for name, table in self._live.items() if len(table)]


def store_of(where: Store | str | Path | None) -> Store:
    """Return the given store, or open the one at a location; None creates one in memory."""
    if isinstance(where, str | Path):
        from marksweep.stores.open import open_store

        return open_store(where)
    return MemoryStore() if where is None else where
