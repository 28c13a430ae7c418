"""The graph in FalkorDB: one graph per workspace, on a server by URL or embedded."""

from __future__ import annotations

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
from marksweep.stores.graph.falkor import fetching, runs, search, sweep, transfer, writing
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import PREFIX, RECONNECT_SECONDS, Connection, Params
from marksweep.stores.graph.falkor.server import EmbeddedServer
from marksweep.stores.graph.leases import is_dead
from marksweep.stores.graph.nouns import Chunk, Entity, Kind, Memory, Record
from marksweep.stores.graph.rows import Row, entity_of

TAKE_LEASE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''"""
"""Take a lease that is free, ours, or held by one known to be dead."""
KEEP_LEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])"""
DROP_LEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 0"""


REWRITE_POLL_SECONDS = 0.05
"""How often to look whether the server has rewritten its files."""


class FalkorGraphStore:
    """Graphs of any number of workspaces on one server."""

    def __init__(
        self, url: str, *, prefix: str = PREFIX, patience_seconds: float = RECONNECT_SECONDS
    ) -> None:
        """Take a server's URL. A call tries for so long to reach a server that is away."""
        self._db = Connection(url, prefix, patience_seconds)
        self._server: EmbeddedServer | None = None

    @classmethod
    def embedded(cls, directory: str | Path, *, prefix: str = PREFIX) -> FalkorGraphStore:
        """Open a store on a directory, with a server that starts and stops with its users."""
        server = EmbeddedServer(directory)
        server.open()
        store = cls(server.url, prefix=prefix)
        store._server = server
        return store

    def put(self, workspace_id: str, records: Sequence[Record]) -> None:
        """Write memories with all they bring, replacing what each had."""
        writing.put(self._db, workspace_id, checked(workspace_id, records))

    def remove(self, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
        """Erase memories at once with what only they hold."""
        return writing.remove(self._db, workspace_id, memory_ids)

    def fetch(self, workspace_id: str, memory_ids: Sequence[str]) -> tuple[Record, ...]:
        """Fetch memories whole."""
        return fetching.fetch(self._db, workspace_id, memory_ids)

    def find(self, workspace_id: str, nodes: Nodes) -> tuple[Memory | Chunk | Entity, ...]:
        """Fetch nodes by id."""
        return fetching.find(self._db, workspace_id, nodes)

    def search(self, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
        """Find chunks of live memories, best first."""
        return search.search(self._db, workspace_id, query)

    def neighbours(
        self, workspace_id: str, entity_ids: Sequence[str], limit: int = 20
    ) -> tuple[Entity, ...]:
        """Fetch live entities one step away."""
        return fetching.neighbours(self._db, workspace_id, entity_ids, limit)

    def entities(self, workspace_id: str) -> tuple[Entity, ...]:
        """Fetch every live entity."""
        rows = self._db.read(workspace_id, cypher.LIVE_ENTITIES)
        return tuple(entity_of(workspace_id, row) for row in rows)

    def merge(self, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
        """Move the edges of some entities to one."""
        return writing.merge(self._db, workspace_id, keep, gone)

    def pin(self, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
        """Pin memories."""
        return writing.pin(self._db, workspace_id, memory_ids, by)

    def unpin(self, workspace_id: str, memory_ids: Sequence[str]) -> int:
        """Take pins off."""
        return writing.unpin(self._db, workspace_id, memory_ids)

    def touch(self, workspace_id: str, memory_ids: Sequence[str], at: datetime) -> int:
        """Note that memories were read."""
        return writing.touch(self._db, workspace_id, memory_ids, at)

    def files(self, workspace_id: str, repository: str) -> tuple[FileRow, ...]:
        """Fetch what is known of a repository's files."""
        return runs.files(self._db, workspace_id, repository)

    def begin_run(self, workspace_id: str, run: Run) -> None:
        """Note that a run has begun."""
        runs.begin_run(self._db, workspace_id, run)

    def stamp(self, workspace_id: str, run_id: str, seen: Sequence[Seen], at: datetime) -> None:
        """Mark unchanged files as seen by a run."""
        runs.stamp(self._db, workspace_id, run_id, seen, at)

    def finish_run(self, workspace_id: str, run_id: str, scope: Sequence[str], at: datetime) -> Run:
        """Close a complete run; what it should have seen and did not becomes stale."""
        return runs.finish_run(self._db, workspace_id, run_id, scope, at)

    def mark_stale(self, workspace_id: str, memory_ids: Sequence[str]) -> int:
        """Make code memories stale at once."""
        return runs.mark_stale(self._db, workspace_id, memory_ids)

    def runs(self, workspace_id: str, repository: str | None = None) -> tuple[Run, ...]:
        """Fetch runs, newest first."""
        return runs.runs(self._db, workspace_id, repository)

    def survey(self, workspace_id: str) -> Survey:
        """Take ids, edges and light columns at one version."""
        return sweep.survey(self._db, workspace_id)

    def survey_memories(self, workspace_id: str) -> Survey:
        """Take a survey without chunks and entities."""
        return sweep.survey_memories(self._db, workspace_id)

    def ids(self, workspace_id: str, kind: Kind, keys: Sequence[int]) -> tuple[str, ...]:
        """Turn a survey's keys into ids."""
        return sweep.ids(self._db, workspace_id, kind, keys)

    def soft_delete(
        self, workspace_id: str, nodes: Nodes, *, version: int, plan_id: str, at: datetime
    ) -> Nodes:
        """Hide nodes that have not changed since a version and are not pinned."""
        return sweep.soft_delete(
            self._db, workspace_id, nodes, seen=version, plan_id=plan_id, at=at
        )

    def restore(self, workspace_id: str, nodes: Nodes) -> Nodes:
        """Take soft-deleted nodes back, with the chunks and entities they hold."""
        return sweep.restore(self._db, workspace_id, nodes)

    def deleted(
        self, workspace_id: str, *, before: datetime | None = None, plan_id: str | None = None
    ) -> tuple[DeletedRow, ...]:
        """Fetch soft-deleted nodes."""
        return sweep.deleted(self._db, workspace_id, before, plan_id)

    def purge(self, workspace_id: str, nodes: Nodes, *, before: datetime) -> Nodes:
        """Erase nodes that were soft-deleted before a time, in short transactions."""
        return sweep.purge(self._db, workspace_id, nodes, before)

    def counts(self, workspace_id: str) -> Counts:
        """Count what the workspace holds."""
        return sweep.counts(self._db, workspace_id)

    def workspaces(self) -> tuple[str, ...]:
        """Name the workspaces that hold anything."""
        names = self._db.graphs()
        return tuple([name for name in names if self._db.read(name, cypher.ANY_NODE)])

    def version(self, workspace_id: str) -> int:
        """Return the workspace's version."""
        rows = self._db.read(workspace_id, cypher.VERSION)
        return int(rows[0][0] or 0) if rows else 0

    def export(
        self, workspace_id: str, nodes: Nodes | None = None, *, batch: int = 1000
    ) -> Iterator[Item]:
        """Stream nodes, then the edges that touch them."""
        if nodes is None:
            return transfer.everything(self._db, workspace_id, batch)
        return iter(transfer.nodes_with_edges(self._db, workspace_id, nodes))

    def load(self, workspace_id: str, items: Collection[Item]) -> None:
        """Write exported items as they are, orphans included."""
        transfer.load(self._db, workspace_id, items)

    def acquire(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> str:
        """Take a lease if it is free; return '' or who has it."""
        key = self._lease(workspace_id, purpose)
        life = int(seconds * 1000)
        other = str(self._db.command("EVAL", TAKE_LEASE, 1, key, holder, life, ""))
        if other and is_dead(other):
            other = str(self._db.command("EVAL", TAKE_LEASE, 1, key, holder, life, other))
        return other

    def renew(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> bool:
        """Prolong a lease; False if it was lost."""
        key = self._lease(workspace_id, purpose)
        return self._db.command("EVAL", KEEP_LEASE, 1, key, holder, int(seconds * 1000)) == 1

    def release(self, workspace_id: str, purpose: str, holder: str) -> None:
        """Give a lease back."""
        self._db.command("EVAL", DROP_LEASE, 1, self._lease(workspace_id, purpose), holder)

    def query(self, workspace_id: str, statement: str, params: Params) -> list[Row]:
        """Run a statement of one's own that changes nothing."""
        return self._db.read(workspace_id, statement, params)

    def scrub(self) -> tuple[str, ...]:
        """Have the server rewrite its files, without what was erased.

        The queries that the server noted go, too: texts are among their parameters.
        """
        left = []
        for workspace_id in self._db.graphs():
            self._db.command("DEL", f"telemetry{{{self._db.prefix}{workspace_id}}}")
        if self._db.command("GRAPH.CONFIG", "GET", "CMD_INFO") == ["CMD_INFO", True]:
            left.append(
                f"queries that {self._db.url} notes for its telemetry; switch that off with "
                "GRAPH.CONFIG SET CMD_INFO no, and forget again"
            )
        if int(self._persistence("aof_enabled")):
            self._db.command("BGREWRITEAOF")
            self._await_end("aof_rewrite_in_progress", "aof_rewrite_scheduled")
            if self._persistence("aof_last_bgrewrite_status") != "ok":
                left.append(f"the append-only file of {self._db.url}: its server cannot rewrite it")
        if self._db.command("CONFIG", "GET", "save") not in ({"save": ""}, ["save", ""]):
            self._db.command("BGSAVE", "SCHEDULE")
            self._await_end("rdb_bgsave_in_progress")
            if self._persistence("rdb_last_bgsave_status") != "ok":
                left.append(f"the snapshot of {self._db.url}: its server cannot write a new one")
        return tuple(left)

    def _persistence(self, field: str) -> str:
        found = self._db.command("INFO", "persistence")
        return str(found[field]) if isinstance(found, dict) else ""

    def _await_end(self, *fields: str) -> None:
        while any(self._persistence(field) == "1" for field in fields):
            time.sleep(REWRITE_POLL_SECONDS)

    def processor_seconds(self) -> float:
        """Return how much processor time the server has used since it started."""
        used = self._db.command("INFO", "cpu")
        if not isinstance(used, dict):
            return 0.0
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def close(self) -> None:
        """Release the connections, and an embedded server."""
        self._db.close()
        if self._server is not None:
            self._server.close()

    def _lease(self, workspace_id: str, purpose: str) -> str:
        return f"{self._db.prefix}lease:{purpose}:{workspace_id}"
