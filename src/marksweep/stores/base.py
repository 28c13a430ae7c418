"""The store protocol: segments, stash and journal in one location, and a lock.

    segments   live segments per workspace, with a version that increases with every write
    stash      swept segments, complete and searchable
    journal    plans shown and operations done, append-only

Each call is atomic. The collector is responsible for operations that span several calls (stash,
journal, sweep): it holds `lock` and repairs what a crash left unfinished.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Generic, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from marksweep.errors import BadInput
from marksweep.model import Entry, Event, Segment, Stashed, Step

DEFAULT_WORKSPACE = "default"
"""The workspace used when none is named; deleting from its graph requires typing its name."""


class Changes(msgspec.Struct, frozen=True, gc=False):
    """Changes in a workspace after some version."""

    version: int
    put: tuple[Segment, ...] = ()
    removed: tuple[str, ...] = ()
    complete: bool = False
    """`put` holds every live segment; anything else the reader has is gone."""


class Query(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A search. Every given filter must match; words rank."""

    words: str = ""
    """Free text: any of the words may match, more and rarer matches rank higher.

    Text without a letter or digit finds nothing; an empty string means no word search.
    """
    types: tuple[str, ...] = ()
    file_path: str | None = None
    tags: tuple[str, ...] = ()
    """All must be present."""
    task_id: str | None = None
    since: datetime | None = None
    """Created at or after."""
    until: datetime | None = None
    """Created before."""
    limit: int = 20

    def __post_init__(self) -> None:
        """Read naive times as UTC, and a limit that no engine can count to as the highest."""
        if self.limit > sys.maxsize:
            msgspec.structs.force_setattr(self, "limit", sys.maxsize)
        for name in ("since", "until"):
            given: datetime | None = getattr(self, name)
            if given is not None and given.tzinfo is None:
                msgspec.structs.force_setattr(self, name, given.replace(tzinfo=UTC))

    def matches(self, segment: Segment) -> bool:
        """Return whether a segment passes every filter. Words are ignored."""
        return (
            (not self.types or segment.type in self.types)
            and (self.file_path is None or segment.file_path == self.file_path)
            and (self.task_id is None or segment.task_id == self.task_id)
            and (self.since is None or segment.created_at >= self.since)
            and (self.until is None or segment.created_at < self.until)
            and all(tag in segment.tags for tag in self.tags)
        )

    @classmethod
    def of(cls, words: str, filters: Mapping[str, object]) -> Query:
        """Build a query from named filters; accept lists for tuples, reject unknown names."""
        known = set(cls.__struct_fields__) - {"words"}
        unknown = sorted(set(filters) - known)
        if unknown:
            raise BadInput(f"unknown filters: {', '.join(unknown)}; known are {sorted(known)}.")
        return msgspec.convert({"words": words, **filters}, cls)


Found = TypeVar("Found")


class Hit(msgspec.Struct, Generic[Found], frozen=True):
    """A match and its score: higher is better."""

    found: Found
    score: float


class PlanRetention(msgspec.Struct, frozen=True, gc=False):
    """How long a journal keeps plans that nobody applied. Applied plans are kept forever."""

    days: float = 7.0
    """Higher lets older plans still be collected by id, and takes more space."""
    plans: int = 20
    """How many of the newest are kept. A plan takes about 150 bytes per segment it sweeps."""

    def shown_since(self, now: datetime) -> datetime:
        """Return the cutoff time: plans shown since then are kept."""
        try:
            return now - timedelta(days=self.days)
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)


KEEP_PLANS = PlanRetention()
"""The default retention."""


class JournalSize(msgspec.Struct, frozen=True, gc=False):
    """How large a workspace's journal is."""

    entries: int
    bytes: int


class SegmentStore(Protocol):
    """The live segments of each workspace."""

    def changes(self, workspace: str, since: int = 0) -> Changes:
        """Return changes after version `since`, or everything if it is 0.

        In any order; cheap if nothing changed. A store that no longer knows what was removed
        since then, or never had that version, returns everything.
        """
        ...

    def write(
        self, workspace: str, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()
    ) -> int:
        """Put and remove atomically; return the new version.

        A put replaces the segment with that id. Removing an unknown id is not an error. An id
        that is both removed and put exists afterwards.
        """
        ...

    def search(self, workspace: str, query: Query) -> tuple[Hit[Segment], ...]:
        """Find live segments, best first; without words, last touched first."""
        ...

    def workspaces(self) -> tuple[str, ...]:
        """List the workspaces with live segments, sorted by name."""
        ...


class Stash(Protocol):
    """Swept segments. A segment may have one entry per plan that swept it."""

    def put(self, workspace: str, entries: Sequence[Stashed]) -> None:
        """Store entries atomically. An entry with the same plan and segment is replaced."""
        ...

    def get(self, workspace: str, segment_ids: Sequence[str]) -> tuple[Stashed, ...]:
        """Fetch the entries of these segments, newest first."""
        ...

    def of_plan(self, workspace: str, plan_id: str) -> tuple[Stashed, ...]:
        """Fetch what a plan swept, in heap order."""
        ...

    def remove(self, workspace: str, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Drop a plan's entries atomically. Unknown ids are not an error."""
        ...

    def search(self, workspace: str, query: Query) -> tuple[Hit[Stashed], ...]:
        """Find entries, best first; without words, newest first."""
        ...

    def entries(self, workspace: str) -> Iterator[Stashed]:
        """Read all entries, oldest first, in batches."""
        ...

    def expired(self, workspace: str, now: datetime) -> tuple[Stashed, ...]:
        """Fetch the entries whose deletion has become final, oldest first."""
        ...

    def count(self, workspace: str, most: int = sys.maxsize) -> int:
        """Count the entries, up to `most`."""
        ...


def remove_all(stash: Stash, workspace: str, entries: Iterable[Stashed]) -> None:
    """Remove entries from the stash, plan by plan."""
    by_plan: dict[str, list[str]] = {}
    for entry in entries:
        by_plan.setdefault(entry.plan_id, []).append(entry.segment.segment_id)
    for plan_id, names in by_plan.items():
        stash.remove(workspace, plan_id, names)


class EntryFilter(TypedDict, total=False):
    """Which journal entries to read. An omitted, empty or None field filters nothing."""

    events: Collection[Event]
    plan_id: str | None
    limit: int | None


class Journal(Protocol):
    """The record of plans and sweeps. Entries of operations never change.

    Unapplied plans expire by the store's PlanRetention, whenever a plan is shown.
    """

    def append(self, workspace: str, entry: Entry) -> Entry:
        """Append an entry, durably unless it only closes an operation; return it numbered.

        A plan shown again is stored once: its existing entry is returned.
        """
        ...

    def read(self, workspace: str, **wanted: Unpack[EntryFilter]) -> tuple[Entry, ...]:
        """Fetch entries, newest first."""
        ...

    def entries(self, workspace: str) -> Iterator[Entry]:
        """Read all entries, oldest first, in batches."""
        ...

    def redact(self, workspace: str, segment_ids: Collection[str]) -> int:
        """Apply `redacted` to all entries; return how many changed."""
        ...

    def size(self, workspace: str) -> JournalSize:
        """Return the size of the journal."""
        ...


class Store(Protocol):
    """Segments, stash and journal, for any number of workspaces and processes."""

    @property
    def segments(self) -> SegmentStore:
        """The live segments."""
        ...

    @property
    def stash(self) -> Stash:
        """The swept segments."""
        ...

    @property
    def journal(self) -> Journal:
        """The record of plans and sweeps."""
        ...

    def all_workspaces(self) -> tuple[str, ...]:
        """List the workspaces with live segments, a stash or a journal, sorted by name."""
        ...

    def lock(self, workspace: str) -> AbstractContextManager[None]:
        """Lock a workspace for one sweep, across processes; StoreBusy on timeout.

        Released if the holder dies. The same thread may take it again.
        """
        ...

    def scrub(self) -> tuple[str, ...]:
        """Erase removed content from the store's files.

        Returns messages about what could not be erased; it is retried when the store is opened.
        """
        ...

    def size(self) -> int:
        """Return the bytes of its files, or of its server's memory; StoreError on failure."""
        ...

    def close(self) -> None:
        """Release files and connections. A closed store refuses further calls."""
        ...


REDACTED = "redacted"
"""Replaces a reason that was erased."""


def redacted(entry: Entry, segment_ids: Collection[str]) -> Entry:
    """Remove the content of segments from an entry: reasons and stand-ins.

    Ids, actions and sizes stay. A plan that was only shown is removed, so nobody can apply it.
    """
    if entry.plan is None or not any(_names(step, segment_ids) for step in entry.plan.steps):
        return entry
    if entry.event is Event.PLANNED:
        return msgspec.structs.replace(entry, plan=None)
    steps = tuple(
        _without_content(step) if _names(step, segment_ids) else step for step in entry.plan.steps
    )
    return msgspec.structs.replace(entry, plan=msgspec.structs.replace(entry.plan, steps=steps))


def _names(step: Step, segment_ids: Collection[str]) -> bool:
    instead = step.replacement
    return any(each in segment_ids for each in step.segments) or (
        instead is not None and instead.segment_id in segment_ids
    )


def _without_content(step: Step) -> Step:
    instead = step.replacement and Segment(
        segment_id=step.replacement.segment_id,
        type=step.replacement.type,
        created_at=step.replacement.created_at,
    )
    return msgspec.structs.replace(step, reason=REDACTED, replacement=instead)
