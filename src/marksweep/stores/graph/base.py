"""What a graph store is: rows, runs, the survey a collection starts from, and leases.

Each call is atomic on its own; `soft_delete`, `restore` and `purge` work in batches, each atomic,
and can be repeated after a crash. Every write gives the rows it changes the workspace's next
version; a plan remembers the version it was made at, and what changed afterwards is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from marksweep.stores.graph.nouns import Chunk, Entity, Kind, Memory, Record
from marksweep.stores.graph.shapes import (
    EPOCH,
    SCHEMA_VERSION,
    Counts,
    DeletedRow,
    FileRow,
    GraphHit,
    GraphQuery,
    Item,
    MemoryRow,
    Nodes,
    Run,
    Seen,
    Survey,
    checked,
)

__all__ = [
    "EPOCH",
    "SCHEMA_VERSION",
    "Counts",
    "DeletedRow",
    "FileRow",
    "GraphHit",
    "GraphQuery",
    "GraphStore",
    "Item",
    "MemoryRow",
    "Nodes",
    "Run",
    "Seen",
    "Survey",
    "checked",
]


class GraphStore(Protocol):
    """Graphs, one per workspace, shared by any number of processes."""

    def put(self, workspace_id: str, records: Sequence[Record]) -> None:
        """Write memories with all they bring, replacing what each had; all or nothing.

        A row that was stale or soft-deleted is live again. Of a memory that was there, its creation
        and reading times and its pin stay. Entities that only the replaced chunks mentioned go.
        """
        ...

    def remove(self, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
        """Erase memories at once with their chunks and the entities only they mention.

        For erasure on request: no grace, no re-check. Returns what went.
        """
        ...

    def fetch(self, workspace_id: str, memory_ids: Sequence[str]) -> tuple[Record, ...]:
        """Fetch memories whole, in the order asked for; unknown ids are left out."""
        ...

    def find(self, workspace_id: str, nodes: Nodes) -> tuple[Memory | Chunk | Entity, ...]:
        """Fetch nodes by id, whatever their state; unknown ids are left out."""
        ...

    def search(self, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
        """Find chunks of live memories, best first; without words, newest memory first.

        Stale and soft-deleted rows never show.
        """
        ...

    def neighbours(
        self, workspace_id: str, entity_ids: Sequence[str], limit: int = 20
    ) -> tuple[Entity, ...]:
        """Fetch live entities one RELATED_TO step away, in either direction, sorted by name.

        A relation that only stale and soft-deleted memories hold is no step.
        """
        ...

    def entities(self, workspace_id: str) -> tuple[Entity, ...]:
        """Fetch every live entity, sorted by id."""
        ...

    def merge(self, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
        """Move all edges of `gone` to the entity `keep` and drop the emptied nodes; count them.

        For good: each becomes an alias, so what is put later under its id goes to `keep`. A
        relation between two that are merged goes.
        """
        ...

    def pin(self, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
        """Pin memories, saying who and why. Count those that exist."""
        ...

    def unpin(self, workspace_id: str, memory_ids: Sequence[str]) -> int:
        """Take pins off. Count the memories that exist."""
        ...

    def touch(self, workspace_id: str, memory_ids: Sequence[str], at: datetime) -> int:
        """Note that memories were read. Count those that exist."""
        ...

    def files(self, workspace_id: str, repository: str) -> tuple[FileRow, ...]:
        """Fetch what is known of a repository's files, sorted by path."""
        ...

    def begin_run(self, workspace_id: str, run: Run) -> None:
        """Note that a run has begun."""
        ...

    def stamp(self, workspace_id: str, run_id: str, seen: Sequence[Seen], at: datetime) -> None:
        """Mark unchanged files as seen by a run: live again if they were stale or soft-deleted."""
        ...

    def finish_run(self, workspace_id: str, run_id: str, scope: Sequence[str], at: datetime) -> Run:
        """Close a complete run: rows in `scope` that it did not see become stale, in one step.

        `scope` holds the memory ids that the run's filter covers: those it would have seen had
        their files been there. Rows of another repository are never touched.
        """
        ...

    def mark_stale(self, workspace_id: str, memory_ids: Sequence[str]) -> int:
        """Make code memories stale at once; count those that were not. Other sources stay live."""
        ...

    def runs(self, workspace_id: str, repository: str | None = None) -> tuple[Run, ...]:
        """Fetch runs, newest first."""
        ...

    def survey(self, workspace_id: str) -> Survey:
        """Take all ids, edges and light columns at one version."""
        ...

    def survey_memories(self, workspace_id: str) -> Survey:
        """Take a survey without chunks and entities: far less to read."""
        ...

    def ids(self, workspace_id: str, kind: Kind, keys: Sequence[int]) -> tuple[str, ...]:
        """Turn a survey's keys into ids, in the same order; a node that is gone gives ''."""
        ...

    def soft_delete(
        self, workspace_id: str, nodes: Nodes, *, version: int, plan_id: str, at: datetime
    ) -> Nodes:
        """Hide nodes that have not changed since `version` and are not pinned; return those.

        Again with the same plan: the same nodes, less those that came back. The chunks of a memory
        that is left alone are left alone too.
        """
        ...

    def restore(self, workspace_id: str, nodes: Nodes) -> Nodes:
        """Take soft-deleted nodes back, with the chunks and entities they hold; return them."""
        ...

    def deleted(
        self, workspace_id: str, *, before: datetime | None = None, plan_id: str | None = None
    ) -> tuple[DeletedRow, ...]:
        """Fetch soft-deleted nodes: those deleted before a time, those of one plan, or all."""
        ...

    def purge(self, workspace_id: str, nodes: Nodes, *, before: datetime) -> Nodes:
        """Erase nodes that were soft-deleted before a time; return those that went.

        Works in short transactions, so that readers are answered meanwhile. A memory takes its
        chunks along. A node that came back to life, or an entity that a memory's chunk mentions
        again, stays.
        """
        ...

    def counts(self, workspace_id: str) -> Counts:
        """Count what the workspace holds."""
        ...

    def workspaces(self) -> tuple[str, ...]:
        """Name the workspaces that hold anything, sorted."""
        ...

    def version(self, workspace_id: str) -> int:
        """Tell the workspace's version; it grows with every write."""
        ...

    def export(
        self, workspace_id: str, nodes: Nodes | None = None, *, batch: int = 1000
    ) -> Iterator[Item]:
        """Stream nodes, then the edges that touch them; all of the workspace if None is given."""
        ...

    def load(self, workspace_id: str, items: Collection[Item]) -> None:
        """Write exported items as they are, orphans included; all or nothing."""
        ...

    def acquire(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> str:
        """Take the lease on a purpose if it is free; return '' or who has it."""
        ...

    def renew(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> bool:
        """Prolong a lease; False if it was lost."""
        ...

    def release(self, workspace_id: str, purpose: str, holder: str) -> None:
        """Give a lease back. Not holding it is no error."""
        ...

    def scrub(self) -> tuple[str, ...]:
        """Make what was erased unreadable in the store's files, too.

        Gives what could not be done now, in words; it is tried again when the store is opened.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections. A closed store refuses further calls."""
        ...
