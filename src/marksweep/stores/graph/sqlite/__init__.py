"""The graph in one SQLite file: WAL, full-text search, any number of processes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from marksweep.stores.graph.base import (
    Counts,
    DeletedRow,
    FileRow,
    GraphHit,
    GraphQuery,
    Item,
    Nodes,
    Run,
    Seen,
    Survey,
    checked,
)
from marksweep.stores.graph.leases import is_dead
from marksweep.stores.graph.nouns import Chunk, Entity, Kind, Memory, Record
from marksweep.stores.graph.sqlite import fetching, runs, search, sweep, transfer, writing
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import Database

PURGE_BATCH = {Kind.MEMORY: 1000, Kind.CHUNK: 5000, Kind.ENTITY: 5000}
"""Nodes erased per transaction: other writers wait for no longer than one, readers do not wait.

Larger purges faster: the index of words is written once per transaction. A thousand memories with
five chunks each take about a quarter of a second.
"""


class SqliteGraphStore:
    """Graphs of any number of workspaces in one file."""

    def __init__(self, path: str | Path) -> None:
        self._db = Database(Path(path))

    def put(self, workspace_id: str, records: Sequence[Record]) -> None:
        """Write memories with all they bring, replacing what each had."""
        self._db.write(writing.put, workspace_id, checked(workspace_id, records))

    def remove(self, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
        """Erase memories at once with what only they hold."""
        return self._db.write(writing.remove, workspace_id, memory_ids)

    def fetch(self, workspace_id: str, memory_ids: Sequence[str]) -> tuple[Record, ...]:
        """Fetch memories whole."""
        return self._db.read(fetching.fetch, workspace_id, memory_ids)

    def find(self, workspace_id: str, nodes: Nodes) -> tuple[Memory | Chunk | Entity, ...]:
        """Fetch nodes by id."""
        return self._db.read(fetching.find, workspace_id, nodes)

    def search(self, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
        """Find chunks of live memories, best first."""
        return self._db.read(search.search, workspace_id, query)

    def neighbours(
        self, workspace_id: str, entity_ids: Sequence[str], limit: int = 20
    ) -> tuple[Entity, ...]:
        """Fetch live entities one step away."""
        return self._db.read(fetching.neighbours, workspace_id, entity_ids, limit)

    def entities(self, workspace_id: str) -> tuple[Entity, ...]:
        """Fetch every live entity."""
        return self._db.read(fetching.entities, workspace_id)

    def merge(self, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
        """Move the edges of some entities to one."""
        return self._db.write(writing.merge, workspace_id, keep, gone)

    def pin(self, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
        """Pin memories."""
        return self._db.write(writing.pin, workspace_id, memory_ids, by)

    def unpin(self, workspace_id: str, memory_ids: Sequence[str]) -> int:
        """Take pins off."""
        return self._db.write(writing.unpin, workspace_id, memory_ids)

    def touch(self, workspace_id: str, memory_ids: Sequence[str], at: datetime) -> int:
        """Note that memories were read."""
        return self._db.write(writing.touch, workspace_id, memory_ids, at)

    def files(self, workspace_id: str, repository: str) -> tuple[FileRow, ...]:
        """Fetch what is known of a repository's files."""
        return self._db.read(runs.files, workspace_id, repository)

    def begin_run(self, workspace_id: str, run: Run) -> None:
        """Note that a run has begun."""
        self._db.write(runs.begin_run, workspace_id, run)

    def stamp(self, workspace_id: str, run_id: str, seen: Sequence[Seen], at: datetime) -> None:
        """Mark unchanged files as seen by a run."""
        self._db.write(runs.stamp, workspace_id, run_id, seen, at)

    def finish_run(self, workspace_id: str, run_id: str, scope: Sequence[str], at: datetime) -> Run:
        """Close a complete run; what it should have seen and did not becomes stale."""
        return self._db.write(runs.finish_run, workspace_id, run_id, scope, at)

    def mark_stale(self, workspace_id: str, memory_ids: Sequence[str]) -> int:
        """Make code memories stale at once."""
        return self._db.write(runs.mark_stale, workspace_id, memory_ids)

    def runs(self, workspace_id: str, repository: str | None = None) -> tuple[Run, ...]:
        """Fetch runs, newest first."""
        return self._db.read(runs.runs, workspace_id, repository)

    def survey(self, workspace_id: str) -> Survey:
        """Take ids, edges and light columns at one version."""
        return self._db.read(sweep.survey, workspace_id)

    def survey_memories(self, workspace_id: str) -> Survey:
        """Take a survey without chunks and entities."""
        return self._db.read(sweep.survey_memories, workspace_id)

    def ids(self, workspace_id: str, kind: Kind, keys: Sequence[int]) -> tuple[str, ...]:
        """Turn a survey's keys into ids."""
        return self._db.read(sweep.ids, workspace_id, kind, keys)

    def soft_delete(
        self, workspace_id: str, nodes: Nodes, *, version: int, plan_id: str, at: datetime
    ) -> Nodes:
        """Hide nodes that have not changed since a version and are not pinned."""
        return self._db.write(
            sweep.soft_delete, workspace_id, nodes, seen=version, plan_id=plan_id, at=at
        )

    def restore(self, workspace_id: str, nodes: Nodes) -> Nodes:
        """Take soft-deleted nodes back, with the chunks and entities they hold."""
        return self._db.write(sweep.restore, workspace_id, nodes)

    def deleted(
        self, workspace_id: str, *, before: datetime | None = None, plan_id: str | None = None
    ) -> tuple[DeletedRow, ...]:
        """Fetch soft-deleted nodes."""
        return self._db.read(sweep.deleted, workspace_id, before, plan_id)

    def purge(self, workspace_id: str, nodes: Nodes, *, before: datetime) -> Nodes:
        """Erase nodes that were soft-deleted before a time, in short transactions."""
        gone = Nodes()
        for kind, work in (
            (Kind.MEMORY, sweep.purge_memories),
            (Kind.CHUNK, sweep.purge_chunks),
            (Kind.ENTITY, sweep.purge_entities),
        ):
            of_kind = nodes.of(kind)
            for start in range(0, len(of_kind), PURGE_BATCH[kind]):
                batch = of_kind[start : start + PURGE_BATCH[kind]]
                gone += self._db.write(work, workspace_id, batch, before)
        return gone

    def counts(self, workspace_id: str) -> Counts:
        """Count what the workspace holds."""
        return self._db.read(sweep.counts, workspace_id)

    def workspaces(self) -> tuple[str, ...]:
        """Name the workspaces that hold anything."""
        return self._db.read(lambda db: tuple(name for (name,) in db.execute(sql.WORKSPACES)))

    def version(self, workspace_id: str) -> int:
        """Return the workspace's version."""

        def read(db: sqlite3.Connection) -> int:
            row = db.execute(sql.WORKSPACE, (workspace_id,)).fetchone()
            return int(row[1]) if row else 0

        return self._db.read(read)

    def export(
        self, workspace_id: str, nodes: Nodes | None = None, *, batch: int = 1000
    ) -> Iterator[Item]:
        """Stream nodes, then the edges that touch them."""
        if nodes is not None:
            yield from self._db.read(transfer.nodes_with_edges, workspace_id, nodes)
            return
        for table in range(len(transfer.NODE_PAGES)):
            after, page = self._db.read(transfer.node_page, workspace_id, table, -1, batch)
            while page:
                yield from page
                after, page = self._db.read(transfer.node_page, workspace_id, table, after, batch)
        keys, mentions = self._db.read(transfer.mention_page, workspace_id, (-1, -1), batch)
        while mentions:
            yield from mentions
            keys, mentions = self._db.read(transfer.mention_page, workspace_id, keys, batch)
        offset = 0
        while relations := self._db.read(transfer.relation_page, workspace_id, offset, batch):
            yield from relations
            offset += len(relations)
        yield from self._db.read(transfer.aliases, workspace_id)

    def load(self, workspace_id: str, items: Collection[Item]) -> None:
        """Write exported items as they are, orphans included."""
        self._db.write(transfer.load, workspace_id, items)

    def acquire(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> str:
        """Take a lease if it is free; return '' or who has it."""

        def take(db: sqlite3.Connection) -> str:
            row = db.execute(sql.LEASE, (workspace_id, purpose)).fetchone()
            if row and row[0] != holder and row[1] > time.time() and not is_dead(row[0]):
                return str(row[0])
            db.execute(sql.TAKE_LEASE, (workspace_id, purpose, holder, time.time() + seconds))
            return ""

        return self._db.write(take)

    def renew(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> bool:
        """Prolong a lease; False if it was lost."""
        given = (time.time() + seconds, workspace_id, purpose, holder)
        return self._db.write(lambda db: db.execute(sql.KEEP_LEASE, given).rowcount == 1)

    def release(self, workspace_id: str, purpose: str, holder: str) -> None:
        """Give a lease back."""
        self._db.write(
            lambda db: db.execute(sql.DROP_LEASE, (workspace_id, purpose, holder)).rowcount
        )

    def scrub(self) -> tuple[str, ...]:
        """Take what was erased out of the file and its log."""
        return self._db.scrub()

    def close(self) -> None:
        """Release the file."""
        self._db.close()
