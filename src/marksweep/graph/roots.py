"""Roots with a life: what was indexed, from where, when, how large, and what is no longer there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from marksweep.errors import NotFound
from marksweep.stores.graph.base import EPOCH, GraphStore, MemoryRow, Run
from marksweep.stores.graph.leases import this_host
from marksweep.stores.graph.nouns import CODE_INDEXER


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that was indexed."""

    repository: str
    """The name it was indexed under; by default its path."""
    path: str
    files: int
    lines: int
    stale: int
    """Files that are no longer there."""
    pinned: int
    first_indexed_at: datetime
    last_seen_at: datetime
    there: bool
    """Whether the folder exists."""


def code_of(rows: Iterable[MemoryRow]) -> Iterator[MemoryRow]:
    """Give the live memories of files."""
    return (row for row in rows if row.source == CODE_INDEXER and row.deleted_us is None)


def roots_of(graph: GraphStore, workspace_id: str) -> tuple[Root, ...]:
    """List the roots of a workspace, by name."""
    by_name = _by_name(graph.survey_memories(workspace_id).memories)
    return tuple(
        Root(
            repository=name,
            path=_path(rows[0]),
            files=len(rows),
            lines=sum(row.lines for row in rows),
            stale=sum(bool(row.stale) for row in rows),
            pinned=sum(bool(row.pinned) for row in rows),
            first_indexed_at=min(row.created_at for row in rows),
            last_seen_at=_last_seen(rows),
            there=Path(_path(rows[0])).is_dir(),
        )
        for name, rows in sorted(by_name.items())
    )


def named_root(rows: Iterable[MemoryRow], root: str | Path) -> str:
    """Find the name of the root that is meant; NotFound says which there are."""
    by_name = _by_name(rows)
    wanted = Path(root).absolute()
    for name, found in by_name.items():
        if name == str(root) or Path(_path(found[0])) in (wanted, wanted.resolve()):
            return name
    known = ", ".join(sorted(by_name)) or "none"
    raise NotFound(f"nothing was indexed from {str(root)!r}; the roots are: {known}.")


def lost_roots(
    rows: Iterable[MemoryRow], runs: Iterable[Run], now: datetime, grace: timedelta
) -> dict[str, str]:
    """Name the repositories whose folder is gone and was not seen for the grace period.

    Only those that this machine indexed: a folder of another one cannot be looked for here.
    """
    here = {run.repository for run in runs if run.host == this_host()}
    lost = {}
    for name, found in _by_name(rows).items():
        seen, path = _last_seen(found), _path(found[0])
        if name in here and now - seen > grace and not Path(path).is_dir():
            lost[name] = f"its root {path} is gone; it was indexed last on {seen:%Y-%m-%d}"
    return lost


def _by_name(rows: Iterable[MemoryRow]) -> dict[str, list[MemoryRow]]:
    found: defaultdict[str, list[MemoryRow]] = defaultdict(list)
    for row in code_of(rows):
        found[row.repository].append(row)
    return dict(found)


def _path(row: MemoryRow) -> str:
    """Tell the folder of a root from one of its files."""
    return row.file_path.removesuffix(row.relative_path).rstrip("/") or "/"


def _last_seen(rows: Iterable[MemoryRow]) -> datetime:
    return EPOCH + timedelta(microseconds=max(row.last_seen_us or row.created_us for row in rows))
