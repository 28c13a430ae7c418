"""Indexing runs: what each saw, and what became stale at its end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from marksweep.errors import NotFound
from marksweep.stores.graph.base import Run, Seen
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.nouns import CODE_INDEXER
from marksweep.stores.graph.rows import micros, plain, run_of


def begin_run(db: Connection, workspace_id: str, run: Run) -> None:
    """Record that a run has begun."""
    given = {
        "id": run.run_id,
        "repository": plain(run.repository),
        "filter": plain(run.filter),
        "started_at": micros(run.started_at),
    }
    db.write(workspace_id, (cypher.BEGIN_RUN, given))


def stamp(
    db: Connection, workspace_id: str, run_id: str, seen: Sequence[Seen], at: datetime
) -> None:
    """Mark unchanged files as seen; restore soft-deleted ones with what they hold."""
    ids = [plain(each.memory_id) for each in seen]
    rows = [[plain(each.memory_id), each.size, each.mtime_ns] for each in seen]
    db.write(
        workspace_id,
        (cypher.SHOW_ENTITIES_OF_MEMORIES, {"ids": ids}),
        (cypher.SHOW_CHUNKS_OF_MEMORIES, {"ids": ids}),
        (cypher.STAMP, {"rows": rows, "run": run_id, "at": micros(at)}),
    )


def finish_run(
    db: Connection, workspace_id: str, run_id: str, scope: Sequence[str], at: datetime
) -> Run:
    """Mark stale what the run should have seen but did not, and close it."""
    run = _run(db, workspace_id, run_id)
    ids = [plain(each) for each in scope]
    given = {"ids": ids, "repository": run.repository, "source": CODE_INDEXER, "run": run_id}
    stale, _ = db.write(
        workspace_id,
        (cypher.FINISH_STALE, given),
        (cypher.END_RUN, {"id": run_id, "at": micros(at)}),
    )
    count = int(stale[0][0] or 0) if stale else 0
    db.write(workspace_id, (cypher.COUNT_STALE, {"id": run_id, "stale": count}))
    return _run(db, workspace_id, run_id)


def _run(db: Connection, workspace_id: str, run_id: str) -> Run:
    rows = db.read(workspace_id, cypher.RUN, id=run_id)
    if not rows:
        raise NotFound(f"no run {run_id!r} in workspace {workspace_id!r}; begin it first.")
    return run_of(rows[0])


def mark_stale(db: Connection, workspace_id: str, memory_ids: Sequence[str]) -> int:
    """Mark code memories stale."""
    given = {"ids": sorted({plain(each) for each in memory_ids}), "source": CODE_INDEXER}
    (rows,) = db.write(workspace_id, (cypher.MARK_STALE, given))
    return len(rows)
