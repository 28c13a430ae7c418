"""The audit: is everything that was ever added still there, once, and does the journal say why?

It uses only the logs of the processes that added segments, the parts of the store, and the journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from pathlib import Path

from marksweep.model import Action, Entry, Event
from marksweep.segments import Segments
from marksweep.stores.base import Store
from tests.faults.workload import (
    KINDS,
    WORKSPACE,
    Added,
    Note,
    clock_of,
    essence,
    open_heap,
    read_note,
)


class Place(Enum):
    """Where a segment is, according to the journal."""

    LIVE = auto()
    STASH = auto()
    PURGED = auto()


def audit(kind: str, path: Path, *notes: Path, run: int = 1_000) -> int:
    """Open a store after a fault and check it; return how many segments it holds."""
    store = KINDS[kind](path)
    try:
        heap = open_heap(store, clock_of(run))
        entries = heap.history()
        journaled = places(reversed(entries))
        added = [read_note(note) for note in notes]
        held = 0
        for note, each in zip(notes, added, strict=True):
            held += check(store, each, journaled)
            settle(note, each, heap, journaled)
        operations = [entry.event for entry in entries if entry.event not in {Event.PURGED}]
        assert not operations or operations[0] not in {Event.SWEEPING, Event.RESTORING}, (
            "left half done"
        )
        names = {name for each in added for name in (*each.certain, *each.open)}
        for segment in heap.list():
            assert segment.segment_id in names or "~" in segment.segment_id, segment.segment_id
        open_heap(store, clock_of(run))
        assert heap.history() == entries, "opening twice must change nothing more"
        return held
    finally:
        store.close()


def check(store: Store, added: Added, journaled: dict[str, Place]) -> int:
    """Check the segments of one log; return how many the store holds."""
    live = {s.segment_id: essence(s) for s in store.segments.changes(WORKSPACE).put}
    stashed: dict[str, list[str]] = {}
    for entry in store.stash.get(WORKSPACE, [*added.certain, *added.open]):
        stashed.setdefault(entry.segment.segment_id, []).append(essence(entry.segment))

    def copies(name: str) -> list[str]:
        return [*([live[name]] if name in live else []), *stashed.get(name, [])]

    for name, text in added.certain.items():
        place = journaled.get(name, Place.LIVE)
        found = copies(name)
        if place is Place.PURGED:
            assert found in ([], [text]), f"{name} was purged, and is there: {found}"
        else:
            assert found == [text], f"{name} should exist once, exists {len(found)} times"
            assert (name in live) == (place is Place.LIVE), f"{name}: the journal says {place}"
    held = [name for name in added.open if copies(name) or name in journaled]
    assert held in ([], list(added.open)), "a batch is added whole or not at all"
    for name in held:
        assert copies(name) == [added.open[name]] or journaled.get(name) is Place.PURGED
    return len(added.certain) + len(held)


def settle(path: Path, added: Added, heap: Segments, journaled: dict[str, Place]) -> None:
    """Record whether an interrupted addition has happened; from now on that is certain."""
    if added.open:
        name = next(iter(added.open))
        happened = heap.get(name) is not None or name in journaled
        Note(path).done() if happened else Note(path).adding([])


def places(entries: Iterable[Entry]) -> dict[str, Place]:
    """Read from the journal alone, oldest entry first, where each segment is that ever moved."""
    where: dict[str, Place] = {}
    moves: dict[str, dict[str, Place]] = {}
    for entry in entries:
        if entry.event is Event.SWEEPING and entry.plan:
            moves[entry.plan_id] = {
                name: Place.STASH for step in entry.plan.steps for name in step.segments
            }
            assert all(step.action is not Action.MASK for step in entry.plan.steps)
        elif entry.event is Event.SWEPT:
            where |= moves[entry.plan_id]
        elif entry.event in {Event.RESTORED, Event.UNDONE}:
            where |= dict.fromkeys(entry.segments, Place.LIVE)
        elif entry.event is Event.PURGED:
            where |= dict.fromkeys(entry.segments, Place.PURGED)
    return where
