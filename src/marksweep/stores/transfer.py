"""Export workspaces of a store to one file, and import them into any store.

The whole file is checked before anything is written. The target workspace must be empty, or hold
part of the file's content, as after a killed import: then the rest is added. Live segments are
written last, in one write, so the workspace appears complete. Finally, the store is read back and
compared with the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import msgspec

from marksweep.errors import NotFound, Refused, StoreCorrupt
from marksweep.model import Entry, Segment, Stashed
from marksweep.stores.base import Store
from marksweep.stores.checked_lines import ItemFormat, LineWriter, refuse_existing

FORMAT_VERSION = 1
"""Format of the file. Incremented when an older marksweep could not read a newer one."""

BATCH = 500
"""Stash entries written at a time. Higher is faster and takes more memory."""

Noun = Stashed | Entry | Segment


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The format and creation time of a file."""

    format: int = msgspec.field(name="marksweep_store")
    made_at: datetime


class WorkspaceCounts(msgspec.Struct, frozen=True):
    """How much of one workspace is in a file, or in a store."""

    workspace: str
    segments: int = 0
    stashed: int = 0
    entries: int = 0
    """Journal entries."""


ORDER = ("workspace", "stashed", "entry", "segment")
"""The kinds of lines, in the order in which a workspace's lines come."""

FORMAT = ItemFormat[Header, Any](
    FORMAT_VERSION, Header, workspace=str, stashed=Stashed, entry=Entry, segment=Segment
)


def export_store(
    store: Store, path: Path, now: datetime, workspaces: Collection[str] = ()
) -> tuple[WorkspaceCounts, ...]:
    """Export workspaces to a new file, all if none are named; lock each while it is read."""
    refuse_existing(path)
    known = store.all_workspaces()
    if missing := sorted(set(workspaces) - set(known)):
        raise NotFound(
            f"there is no workspace {', '.join(map(repr, missing))}; there are "
            f"{', '.join(map(repr, known)) or 'none'}."
        )
    moved = []
    with FORMAT.writing(path, Header(format=FORMAT_VERSION, made_at=now)) as writer:
        for name in workspaces or known:
            with store.lock(name):
                writer.add(name)
                moved.append(_counted(name, _written(writer, _kept(store, name))))
    check_export(path)
    return tuple(moved)


def check_export(path: Path) -> None:
    """Check a whole file; StoreCorrupt if it is damaged or not an export of a store."""
    FORMAT.header(path)
    order = -1

    def follow(kind: str) -> None:
        nonlocal order
        at = ORDER.index(kind)
        if order < 0 < at or (at and at < order):
            raise ValueError("its lines are out of order")
        order = at

    FORMAT.check(path, follow)


def import_store(
    store: Store, path: Path, workspaces: Collection[str] = ()
) -> tuple[WorkspaceCounts, ...]:
    """Import workspaces from a file, all if none are named; verify the result."""
    check_export(path)
    _require(path, workspaces)
    for name, nouns in _sections(path, workspaces):
        _compare(store, path, name, nouns)
    for name, nouns in _sections(path, workspaces):
        with store.lock(name):
            _fill(store, path, name, nouns)
    return _verified(store, path, workspaces)


def verify_store(
    store: Store, path: Path, workspaces: Collection[str] = ()
) -> tuple[WorkspaceCounts, ...]:
    """Compare a store with a file; StoreCorrupt if something is missing, Refused if it differs."""
    check_export(path)
    _require(path, workspaces)
    return _verified(store, path, workspaces)


def _verified(store: Store, path: Path, workspaces: Collection[str]) -> tuple[WorkspaceCounts, ...]:
    moved = []
    for name, nouns in _sections(path, workspaces):
        count, missing = _compare(store, path, name, nouns)
        if missing:
            raise StoreCorrupt(
                f"{missing} items of workspace {name!r} are in {path} and not in the store. "
                "Import it again."
            )
        moved.append(count)
    return tuple(moved)


def _require(path: Path, workspaces: Collection[str]) -> None:
    there = {name for name, _ in _sections(path)}
    if missing := sorted(set(workspaces) - there):
        raise NotFound(
            f"{path} has no workspace {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(repr, sorted(there))) or 'none'}."
        )


def _fill(store: Store, path: Path, workspace: str, nouns: Iterable[Noun]) -> None:
    """Write what is missing, live segments last."""
    there = _There(store, path, workspace)
    live: list[Segment] = []
    pending: list[Stashed] = []
    missing = (noun for noun in nouns if not there.has(noun))
    for noun in chain(missing, (None,)):
        if isinstance(noun, Stashed):
            pending.append(noun)
        if pending and (len(pending) == BATCH or not isinstance(noun, Stashed)):
            store.stash.put(workspace, pending)
            pending = []
        if isinstance(noun, Entry):
            store.journal.append(workspace, noun)
        elif isinstance(noun, Segment):
            live.append(noun)
    there.check_end()
    if live:
        store.segments.write(workspace, put=live)


def _compare(
    store: Store, path: Path, workspace: str, nouns: Iterable[Noun]
) -> tuple[WorkspaceCounts, int]:
    """Count a workspace's items in a file and those the store lacks; Refused if any differ."""
    there = _There(store, path, workspace)
    missing = 0

    def looked_up() -> Iterator[Noun]:
        nonlocal missing
        for noun in nouns:
            missing += not there.has(noun)
            yield noun

    counted = _counted(workspace, looked_up())
    there.check_end()
    return counted, missing


class _There:
    """A store's copy of a workspace, to compare with a file. Both are read in the same order."""

    def __init__(self, store: Store, path: Path, workspace: str) -> None:
        self._path = path
        self._workspace = workspace
        self._stashed = store.stash.entries(workspace)
        self._entries = store.journal.entries(workspace)
        self._live = {each.segment_id: each for each in store.segments.changes(workspace).put}

    def has(self, noun: Noun) -> bool:
        """Return whether the store has the item; Refused if it differs."""
        found: Noun | None
        if isinstance(noun, Segment):
            found = self._live.pop(noun.segment_id, None)
        elif isinstance(noun, Stashed):
            found = next(self._stashed, None)
        else:
            found = next((_unnumbered(each) for each in self._entries), None)
        if found is not None and found != noun:
            raise self._differs()
        return found is not None

    def check_end(self) -> None:
        """Refuse if the store has more than the file."""
        more = (next(self._stashed, None), next(self._entries, None))
        if self._live or more != (None, None):
            raise self._differs()

    def _differs(self) -> Refused:
        return Refused(
            f"workspace {self._workspace!r} holds something else than {self._path} does. Nothing "
            "of it was changed. Import into a store where it is empty."
        )


def _kept(store: Store, workspace: str) -> Iterator[Noun]:
    """Read a whole workspace; all but the live segments in batches."""
    yield from store.stash.entries(workspace)
    yield from map(_unnumbered, store.journal.entries(workspace))
    yield from sorted(store.segments.changes(workspace).put, key=lambda each: each.segment_id)


def _unnumbered(entry: Entry) -> Entry:
    """Return an entry without its number: each journal numbers its own entries."""
    return msgspec.structs.replace(entry, seq=0)


def _written(writer: LineWriter[Any], nouns: Iterable[Noun]) -> Iterator[Noun]:
    for noun in nouns:
        writer.add(noun)
        yield noun


def _counted(workspace: str, nouns: Iterable[Noun]) -> WorkspaceCounts:
    counts = dict.fromkeys((Stashed, Entry, Segment), 0)
    for noun in nouns:
        counts[type(noun)] += 1
    return WorkspaceCounts(workspace, counts[Segment], counts[Stashed], counts[Entry])


def _sections(path: Path, workspaces: Collection[str] = ()) -> Iterator[tuple[str, Iterator[Noun]]]:
    """Read a checked file workspace by workspace: those named, or all."""
    name = ""

    def named() -> Iterator[tuple[str, Noun | None]]:
        nonlocal name
        for kind, found in FORMAT.items(path):
            if kind == "workspace":
                name = found
            yield name, None if kind == "workspace" else found

    for workspace, pairs in groupby(named(), key=lambda pair: pair[0]):
        if not workspaces or workspace in workspaces:
            yield workspace, (noun for _, noun in pairs if noun is not None)
