"""Indexed roots: from where, when, how large, and whether the folder still exists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from marksweep.collector import Collector
from marksweep.errors import NotFound
from marksweep.heaps.graph import ROOT, ref
from marksweep.model import Entry, Event
from marksweep.paths import is_gone
from marksweep.stores.graph.base import EPOCH, MemoryRow, Run
from marksweep.stores.graph.nouns import CODE_INDEXER
from marksweep.stores.leases import this_host


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that was indexed."""

    repository: str
    """The name it was indexed under; by default its path."""
    path: str
    files: int
    lines: int
    stale: int
    """Files that no longer exist."""
    pinned: int
    first_indexed_at: datetime
    last_seen_at: datetime
    there: bool
    """Whether the folder exists."""
    gone_since: datetime | None = None
    """When it was first found missing: its grace period starts then."""


def code_of(rows: Iterable[MemoryRow]) -> Iterator[MemoryRow]:
    """Return the live memories of files."""
    return (row for row in rows if row.source == CODE_INDEXER and row.deleted_us is None)


def roots_of(rows: Iterable[MemoryRow], gone: Mapping[str, datetime]) -> tuple[Root, ...]:
    """List the roots that memories come from, by name."""
    by_name = _by_name(rows)
    return tuple(
        Root(
            repository=name,
            path=_path(rows),
            files=len(rows),
            lines=sum(row.lines for row in rows),
            stale=sum(bool(row.stale) for row in rows),
            pinned=sum(bool(row.pinned) for row in rows),
            first_indexed_at=min(row.created_at for row in rows),
            last_seen_at=_last_seen(rows),
            there=not is_gone(_path(rows)),
            gone_since=gone.get(name),
        )
        for name, rows in sorted(by_name.items())
    )


def named_root(rows: Iterable[MemoryRow], root: str | Path) -> str:
    """Resolve a name or path to the name of a root; NotFound lists the known ones."""
    by_name = _by_name(rows)
    wanted = Path(root).absolute()
    folders = {wanted}
    with suppress(ValueError):  # a NUL byte, which no path has
        folders.add(wanted.resolve())
    for name, found in by_name.items():
        if name == str(root) or Path(_path(found)) in folders:
            return name
    known = ", ".join(sorted(by_name)) or "none"
    raise NotFound(f"nothing was indexed from {str(root)!r}; the roots are: {known}.")


def gone_since(
    collector: Collector,
    history: Iterable[Entry],
    runs: Iterable[Run],
    rows: Iterable[MemoryRow],
    now: datetime,
) -> dict[str, datetime]:
    """Return when each missing root was first found missing, and note those found missing now.

    `history` is what the journal says about roots, newest first. Only roots that this machine
    indexed are checked: it cannot see the folders of another machine.
    """
    here = {run.repository for run in runs if run.host == this_host()}
    noted: dict[str, Entry] = {}
    for entry in history:
        noted.setdefault(entry.segments[0], entry)
    gone = {}
    for root, found in _by_name(rows).items():
        if root not in here:
            continue
        name = ref(ROOT, root)
        last = noted.get(name)
        is_noted = last and last.event is Event.VANISHED and last.at >= _last_seen(found)
        since = last.at if last and is_noted else now
        vanished = is_gone(_path(found))
        if vanished != bool(is_noted):
            event = Event.VANISHED if vanished else Event.RETURNED
            collector.record(event, now=now, segments=(name,))
        if vanished:
            gone[root] = since
    return gone


def lost_roots(
    gone: Mapping[str, datetime], rows: Iterable[MemoryRow], now: datetime, grace: timedelta
) -> dict[str, str]:
    """Name the repositories whose folder was missing for longer than the grace period, and why."""
    by_name = _by_name(rows) if gone else {}
    return {
        name: f"its root {_path(by_name[name])} is gone since {since:%Y-%m-%d} or longer"
        for name, since in gone.items()
        if now - since > grace
    }


def _by_name(rows: Iterable[MemoryRow]) -> dict[str, list[MemoryRow]]:
    found: defaultdict[str, list[MemoryRow]] = defaultdict(list)
    for row in code_of(rows):
        found[row.repository].append(row)
    return dict(found)


def _path(rows: Sequence[MemoryRow]) -> str:
    """Derive the folder of a root from the file seen last: a name may have moved to another one."""
    row = max(rows, key=_seen_us)
    return row.file_path.removesuffix(row.relative_path).rstrip("/") or "/"


def _last_seen(rows: Iterable[MemoryRow]) -> datetime:
    return EPOCH + timedelta(microseconds=max(map(_seen_us, rows)))


def _seen_us(row: MemoryRow) -> int:
    return row.last_seen_us or row.created_us
