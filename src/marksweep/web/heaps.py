"""The heaps of one store by name, and what the page shows of each: computed once per change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from enum import StrEnum
from itertools import islice
from threading import Lock, RLock

import msgspec

from marksweep.core.budget import Budget
from marksweep.errors import NotFound
from marksweep.fit import PREFIX
from marksweep.graph.roots import Root
from marksweep.heaps.staying import MESSAGE
from marksweep.messages import turn_number
from marksweep.model import Entry, Event, Plan, Segment, Unit, utc_now
from marksweep.stores.base import SegmentStore
from marksweep.web.sources import Look, Source
from marksweep.web.tiles import By, Share, State, Tile, in_short, label, shares

MAX_LOOKS = 8
"""Heaps whose tiles are cached. More takes memory; fewer recomputes them when pages switch."""

MAX_HEAPS = 200
"""How many working sets and conversations are listed. Each is read once for its title."""

MAX_COLLECTIONS = 40
"""How many of the newest collections the timeline shows."""

MAX_SHARES = 60
"""How many of the largest groups and reasons are listed; the rest is one line."""

MAX_PINS = 200
"""How many pins are listed."""

OTHERS = "others"
"""Name of the line that sums up the groups not shown."""

HOOKS = f"{PREFIX}hook:"
"""Prefix of the workspaces of hooks: they hold texts, not messages."""

DONE = (Event.SWEEPING, Event.SWEPT, Event.UNDONE, Event.RESTORED, Event.PURGED)
"""The events of the timeline. An intent holds the plan; the outcome records that it was done."""


class HeapKind(StrEnum):
    """Which of the three heaps."""

    SEGMENTS = "segments"
    CONVERSATION = "conversation"
    MEMORY = "memory"


class HeapName(msgspec.Struct, frozen=True):
    """One heap, by name."""

    heap: str
    """Kind and workspace: the heap's name in requests."""
    kind: HeapKind
    workspace: str
    title: str
    """For people: the workspace, or what a conversation is about."""


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the timeline: a collection, a restore or a purge."""

    event: Event
    at: datetime
    plan_id: str = ""
    actor: str = ""
    strategy: str = ""
    tiles: int = 0
    """How many were swept, restored or purged."""
    size_before: int | None = None
    size_after: int | None = None
    can_undo: bool = False


class HeapView(msgspec.Struct, frozen=True, kw_only=True):
    """A heap as the page shows it, without the individual tiles."""

    heap: HeapName
    version: str
    """Changes with the heap, its journal, and every minute, because age also makes garbage."""
    unit: Unit
    size: int
    tiles: int
    budget: Budget | None
    states: tuple[Share, ...]
    groups: dict[By, tuple[Share, ...]]
    garbage: tuple[Share, ...]
    """By reason."""
    staying: tuple[Share, ...]
    """What must stay, by reason."""
    pins: tuple[Tile, ...]
    swept: int
    """How much can be restored."""
    timeline: tuple[TimelineEntry, ...]
    """Newest first."""
    roots: tuple[Root, ...]


class _Cached(msgspec.Struct):
    """What was computed for one heap, and from which version."""

    version: str
    view: HeapView
    look: Look


Opener = Callable[[str], AbstractContextManager[Source]]
"""Opens the heap of a workspace."""


class Heaps:
    """The heaps that a caller may see."""

    def __init__(
        self,
        segments: SegmentStore,
        openers: Mapping[HeapKind, Opener],
        *,
        workspaces: Callable[[], Iterable[str]],
        memories: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """Take the openers of each kind of heap; kinds without one are not shown.

        `workspaces` names those with segments or messages, `memories` those with a memory.
        """
        self._segments = segments
        self._openers = openers
        self._workspaces = workspaces
        self._memories = memories
        self._lock = Lock()
        self._guards: dict[str, RLock] = {}
        self._names: dict[str, HeapName] = {}
        self._versions: dict[str, int] = {}
        self._seen: OrderedDict[str, _Cached] = OrderedDict()

    def list(self) -> tuple[HeapName, ...]:
        """Name the heaps."""
        found = [self._named(name) for name in islice(self._workspaces(), MAX_HEAPS)]
        found += [_named(HeapKind.MEMORY, name, name) for name in self._memories()]
        return tuple(each for each in found if each.kind in self._openers)

    def _named(self, workspace: str) -> HeapName:
        """Distinguish a conversation from a working set, and find its title; both are cached."""
        known = self._names.get(workspace)
        if known is None:
            live = self._segments.changes(workspace).put
            known = _described(workspace, live)
            if live:
                self._names[workspace] = known
        return known

    @contextmanager
    def open(self, heap: str) -> Iterator[Source]:
        """Lock a heap. Raise NotFound if there is none with that name."""
        found = self._find(heap)
        with self._lock:
            guard = self._guards.setdefault(heap, RLock())
        with guard, self._openers[found.kind](found.workspace) as source:
            yield source

    def _find(self, heap: str) -> HeapName:
        for each in self.list():
            if each.heap == heap:
                return each
        raise NotFound(f"there is no heap {heap!r} here. Reload the page, and choose another.")

    def version(self, heap: str) -> str:
        """Return the version of a view without computing the view."""
        with self.open(heap) as source:
            return self._version(heap, source)

    def _version(self, heap: str, source: Source) -> str:
        at = self._versions[heap] = source.version(self._versions.get(heap, 0))
        newest = source.journal((), 1)
        return f"{at}.{newest[0].seq if newest else 0}.{utc_now():%H%M}"

    def view(self, heap: str) -> HeapView:
        """Return what the page shows of a heap."""
        return self._look(heap).view

    def look(self, heap: str) -> Look:
        """Return everything in a heap."""
        return self._look(heap).look

    def _look(self, heap: str) -> _Cached:
        with self.open(heap) as source:
            version = self._version(heap, source)
            seen = self._seen.get(heap)
            if seen is None or seen.version != version:
                look = source.look()
                seen = _Cached(version, view_of(self._find(heap), version, look, source), look)
            with self._lock:
                self._seen[heap] = seen
                self._seen.move_to_end(heap)
                while len(self._seen) > MAX_LOOKS:
                    self._seen.popitem(last=False)
            return seen


def _named(kind: HeapKind, workspace: str, title: str) -> HeapName:
    return HeapName(f"{kind}:{workspace}", kind, workspace, title)


def _described(workspace: str, live: Iterable[Segment]) -> HeapName:
    """Name the heap that holds these segments; only messages have a raw form."""
    said = [each for each in live if each.type == MESSAGE and each.raw]
    is_talk = said or (workspace.startswith(PREFIX) and not workspace.startswith(HOOKS))
    if not is_talk:
        return _named(HeapKind.SEGMENTS, workspace, workspace)
    first = sorted(said, key=lambda each: (turn_number(each.topic_id) < 0, each.position))
    title = label(first[0].text) if first else workspace
    return _named(HeapKind.CONVERSATION, workspace, title or workspace)


def view_of(name: HeapName, version: str, look: Look, source: Source) -> HeapView:
    """Summarize a heap."""
    tiles = look.tiles
    garbage = [tile for tile in tiles if tile.state is State.GARBAGE]
    staying = [tile for tile in tiles if tile.state is State.ROOT]
    groups = {by: most(shares(tiles, lambda tile, by=by: tile.group(by))) for by in By}  # type: ignore[misc]
    return HeapView(
        heap=name,
        version=version,
        unit=look.unit,
        size=sum(tile.size for tile in tiles),
        tiles=len(tiles),
        budget=look.budget,
        states=shares(tiles, lambda tile: tile.state),
        groups={by: found for by, found in groups.items() if any(each.name for each in found)},
        garbage=most(shares(garbage, lambda tile: in_short(tile.reason))),
        staying=most(shares(staying, lambda tile: in_short(tile.reason))),
        pins=tuple(tile for tile in tiles if tile.pinned)[:MAX_PINS],
        swept=source.swept_count(),
        timeline=tuple(timeline(source.journal(DONE, 2 * MAX_COLLECTIONS))),
        roots=look.roots,
    )


def most(found: tuple[Share, ...]) -> tuple[Share, ...]:
    """Keep the largest, and sum up the rest."""
    if len(found) <= MAX_SHARES:
        return found
    first, rest = found[: MAX_SHARES - 1], found[MAX_SHARES - 1 :]
    sums = (sum(getattr(each, key) for each in rest) for key in ("tiles", "size", "garbage"))
    return (*first, Share(OTHERS, *sums))


def timeline(entries: Iterable[Entry]) -> Iterator[TimelineEntry]:
    """List what was done, newest first: a sweep with its strategy, and whether undo can reverse it.

    The same plan may be swept, undone and swept again.
    """
    entries = tuple(entries)
    plans: dict[str, Plan] = {e.plan_id: e.plan for e in entries if e.plan is not None}
    settled: set[str] = set()
    for entry in entries:
        if entry.event is Event.SWEEPING:
            continue
        plan, report = plans.get(entry.plan_id), entry.report
        yield TimelineEntry(
            event=entry.event,
            at=entry.at,
            plan_id=entry.plan_id,
            actor=entry.actor,
            strategy=plan.strategy if plan else "",
            tiles=len(report.swept) if report else len(entry.segments),
            size_before=report.size_before if report else None,
            size_after=report.size_after if report else None,
            can_undo=entry.event is Event.SWEPT and entry.plan_id not in settled,
        )
        if entry.event in {Event.SWEPT, Event.UNDONE}:
            settled.add(entry.plan_id)
