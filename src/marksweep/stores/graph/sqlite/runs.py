"""Indexing runs: what each saw and what became stale at its end; and leases."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from datetime import datetime

from marksweep.errors import NotFound
from marksweep.stores.codec import microseconds
from marksweep.stores.graph.base import Nodes, Run, Seen
from marksweep.stores.graph.nouns import CODE_INDEXER
from marksweep.stores.graph.rows import plain, run_of
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import Change
from marksweep.stores.graph.sqlite.sweep import revive
from marksweep.stores.leases import is_dead


def begin_run(db: sqlite3.Connection, workspace_id: str, run: Run) -> None:
    """Record that a run has begun."""
    Change(db, workspace_id).run(
        sql.BEGIN_RUN,
        run=run.run_id,
        repository=plain(run.repository),
        filter=plain(run.filter),
        at=microseconds(run.started_at),
    )


def stamp(
    db: sqlite3.Connection, workspace_id: str, run_id: str, seen: Sequence[Seen], at: datetime
) -> None:
    """Mark unchanged files as seen."""
    change = Change(db, workspace_id)
    deleted = []
    for each in seen:
        row = change.run(
            sql.STAMP,
            run=run_id,
            at=microseconds(at),
            id=plain(each.memory_id),
            size=each.size,
            mtime_ns=each.mtime_ns,
            file_path=plain(each.file_path),
        ).fetchone()
        if row is not None and row[0]:
            deleted.append(each.memory_id)
    if deleted:
        revive(change, Nodes(memories=tuple(deleted)))


def finish_run(
    db: sqlite3.Connection, workspace_id: str, run_id: str, scope: Sequence[str], at: datetime
) -> Run:
    """Mark stale what the run should have seen but did not, and close it."""
    change = Change(db, workspace_id)
    row = change.run(sql.RUN, run=run_id).fetchone()
    if row is None:
        raise NotFound(f"no run {run_id!r} in workspace {workspace_id!r}; begin it first.")
    root = run_of(row).repository
    stale = change.run(
        sql.FINISH_STALE, ids=scope, run=run_id, repository=root, source=CODE_INDEXER
    ).rowcount
    change.run(sql.END_RUN, run=run_id, repository=root, at=microseconds(at), stale=stale)
    return run_of(change.run(sql.RUN, run=run_id).fetchone())


def mark_stale(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]) -> int:
    """Mark code memories stale."""
    change = Change(db, workspace_id)
    return change.run(sql.MARK_STALE, ids=memory_ids, source=CODE_INDEXER).rowcount


def workspaces(db: sqlite3.Connection) -> tuple[str, ...]:
    """List the workspaces that are not empty."""
    return tuple(name for (name,) in db.execute(sql.WORKSPACES))


def acquire(
    db: sqlite3.Connection, workspace_id: str, purpose: str, holder: str, seconds: float
) -> str:
    """Acquire a lease if it is free; return '' or the current holder."""
    row = db.execute(sql.LEASE, (plain(workspace_id), purpose)).fetchone()
    if row and row[0] != holder and row[1] > time.time() and not is_dead(row[0]):
        return str(row[0])
    db.execute(sql.TAKE_LEASE, (plain(workspace_id), purpose, holder, time.time() + seconds))
    return ""


def renew(
    db: sqlite3.Connection, workspace_id: str, purpose: str, holder: str, seconds: float
) -> bool:
    """Renew a lease; return False if it was lost."""
    given = (time.time() + seconds, plain(workspace_id), purpose, holder)
    return db.execute(sql.KEEP_LEASE, given).rowcount == 1


def release(db: sqlite3.Connection, workspace_id: str, purpose: str, holder: str) -> bool:
    """Release a lease; return False if it was lost."""
    return db.execute(sql.DROP_LEASE, (plain(workspace_id), purpose, holder)).rowcount == 1
