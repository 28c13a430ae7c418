"""What a graph store is: rows, runs, the survey that a collection starts from, and leases.

Each call is atomic on its own; `soft_delete`, `restore` and `purge` work in batches, each atomic,
and can be repeated after a crash. Every write gives the rows it changes the workspace's next
version; a plan remembers the version it was made at, and what changed afterwards is left alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from marksweep.errors import BadInput
from marksweep.stores.graph.nouns import (
    Alias,
    Chunk,
    Entity,
    Kind,
    Memory,
    Mention,
    Record,
    Relation,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SCHEMA_VERSION = 4
"""Layout of the stored graph. Raised when a store must be migrated on opening."""


class FileRow(msgspec.Struct, frozen=True, gc=False):
    """What the indexer must know about a file that it has seen before."""

    memory_id: str
    relative_path: str
    content_hash: str
    size: int
    mtime_ns: int
    language: str
    run: str
    stale: bool
    deleted: bool


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A file that a run found with unchanged content."""

    memory_id: str
    size: int
    mtime_ns: int


class Run(msgspec.Struct, frozen=True, gc=False):
    """One walk over a repository."""

    run_id: str
    repository: str
    filter: str
    """The options that decide which files are looked at, as text."""
    started_at: datetime
    finished_at: datetime | None = None
    """None while it runs, and forever if it was interrupted."""
    seen: int = 0
    stale: int = 0
    """Rows that became stale at its end."""

    @property
    def host(self) -> str:
        """The machine that it ran on, as `leases.this_host` names it; '' if that is not known."""
        parts = self.run_id.split("-")
        return parts[2] if len(parts) == 4 else ""


class Counts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How much a workspace holds. Soft-deleted rows count as deleted, not by kind."""

    memories: int = 0
    chunks: int = 0
    entities: int = 0
    mentions: int = 0
    relations: int = 0
    stale: int = 0
    """Memories that are stale and not yet soft-deleted."""
    pinned: int = 0
    deleted: int = 0
    """Nodes of every kind within their grace period."""


class Nodes(msgspec.Struct, frozen=True):
    """Ids by kind."""

    memories: tuple[str, ...] = ()
    chunks: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Count them all."""
        return len(self.memories) + len(self.chunks) + len(self.entities)

    def __add__(self, other: Nodes) -> Nodes:
        """Join two."""
        return Nodes(
            self.memories + other.memories,
            self.chunks + other.chunks,
            self.entities + other.entities,
        )

    def of(self, kind: Kind) -> tuple[str, ...]:
        """Pick one kind."""
        match kind:
            case Kind.MEMORY:
                return self.memories
            case Kind.CHUNK:
                return self.chunks
            case Kind.ENTITY:
                return self.entities


class MemoryRow(msgspec.Struct, frozen=True, gc=False):
    """A memory as a collection sees it: everything but its text, as the store has it.

    Times are microseconds since 1970. A hundred thousand rows are read for one plan, so nothing is
    converted before it is asked for.
    """

    key: int
    memory_id: str
    source: str
    repository: str
    file_path: str
    relative_path: str
    content_hash: str
    lines: int
    stale: int
    pinned: int
    pinned_by: str
    created_us: int
    last_seen_us: int | None
    read_us: int | None
    deleted_us: int | None
    tags_json: str
    expires_us: int | None = None

    @property
    def created_at(self) -> datetime:
        """When it was first written."""
        return EPOCH + timedelta(microseconds=self.created_us)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags."""
        if self.tags_json == "[]":
            return ()
        return msgspec.json.decode(self.tags_json, type=tuple[str, ...])


NO_KEYS: array[int] = array("q")


class Survey(msgspec.Struct, frozen=True):
    """A workspace at one version, light enough for a million nodes.

    Nodes have integer keys that mean something within this survey only; `ids` of the store turns
    them into ids. Columns of one table are parallel.
    """

    version: int
    memories: tuple[MemoryRow, ...]
    chunks: array[int] = NO_KEYS
    chunk_owners: array[int] = NO_KEYS
    """Key of the memory that has the chunk; -1 for none."""
    deleted_chunks: frozenset[int] = frozenset()
    entities: array[int] = NO_KEYS
    deleted_entities: frozenset[int] = frozenset()
    mention_chunks: array[int] = NO_KEYS
    mention_entities: array[int] = NO_KEYS


class GraphQuery(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What to look for. Every filter that is given must match; words rank."""

    words: str = ""
    """Free text: any of the words may match, more and rarer matches rank higher."""
    sources: tuple[str, ...] = ()
    repository: str | None = None
    languages: tuple[str, ...] = ()
    path: str | None = None
    """A relative path, or the folder it is in."""
    tags: tuple[str, ...] = ()
    """All of these."""
    since: datetime | None = None
    """Created at or after."""
    until: datetime | None = None
    """Created before."""
    as_of: datetime | None = None
    """What was valid at this time; None: what is valid now."""
    now: datetime | None = None
    """Hides notes that have expired by then, unless `as_of` is given; None hides none."""
    limit: int = 20


class GraphHit(msgspec.Struct, frozen=True):
    """A chunk that matches, with the memory it belongs to. High scores are better."""

    memory: Memory
    chunk: Chunk
    score: float
    entities: tuple[Entity, ...] = ()
    """What the chunk mentions: links to its neighbours."""


class LinkQuery(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Which relations to follow."""

    relation: str
    """calls, imports or inherits."""
    to_name: bool
    """True: the names are targets. False: they are sources."""
    whole_names: bool = False
    """True: a name must match whole. False: it may match the last part."""
    limit: int = 100


class Link(msgspec.Struct, frozen=True, gc=False):
    """One symbol calls, imports or inherits another, and where."""

    source: str
    target: str
    relation: str
    file: str
    """Within its repository."""
    repository: str
    lines: tuple[int, ...]


class Definition(msgspec.Struct, frozen=True, gc=False):
    """Where a symbol is defined."""

    symbol: str
    kind: str
    file: str
    repository: str
    line: int


class Copy(msgspec.Struct, frozen=True, gc=False):
    """A file with the path and content of another root's: it gets the same chunks and links."""

    source: str
    """The memory of the other one."""
    memory: Memory


class DeletedRow(msgspec.Struct, frozen=True, gc=False):
    """A node within its grace period."""

    kind: Kind
    node_id: str
    deleted_at: datetime
    plan_id: str


def checked(workspace_id: str, records: Sequence[Record]) -> Sequence[Record]:
    """Refuse inconsistent records; of two for one memory, the last counts."""
    last = {record.memory.memory_id: record for record in records}
    for record in last.values():
        memory = record.memory
        chunks = {chunk.chunk_id for chunk in record.chunks}
        entities = {entity.entity_id for entity in record.entities}
        named = {mention.entity_id for mention in record.mentions}
        named.update(end for r in record.relations for end in (r.source_id, r.target_id))
        faults = (
            (memory.workspace_id != workspace_id, f"it is of workspace {memory.workspace_id!r}"),
            (
                record.moved_from in last and record.moved_from != memory.memory_id,
                "it was moved from a memory that is written with it",
            ),
            (len(chunks) < len(record.chunks), "two chunks have one id"),
            (any(c.memory_id != memory.memory_id for c in record.chunks), "a chunk is another's"),
            (not {m.chunk_id for m in record.mentions} <= chunks, "a mention has no chunk"),
            (not named <= entities, "an edge names an entity that is not in the record"),
            (
                any(r.memory_id != memory.memory_id for r in record.relations),
                "a relation is another's",
            ),
        )
        for found, fault in faults:
            if found:
                raise BadInput(
                    f"memory {memory.memory_id!r} cannot be stored in {workspace_id!r}: {fault}. "
                    "A record contains everything that it names."
                )
    return tuple(last.values())


Item = Memory | Chunk | Entity | Mention | Relation | Alias
"""What an export consists of: nodes before the edges that join them."""


class GraphStore(Protocol):
    """Graphs, one per workspace, shared by any number of processes."""

    def put(self, workspace_id: str, records: Sequence[Record]) -> None:
        """Write memories with their chunks and entities, replacing what each had; all or nothing.

        A row that was stale or soft-deleted is live again. Of a memory that was there, its creation
        and reading times and its pin stay. Entities only the replaced chunks mentioned are deleted.
        """
        ...

    def copy(self, workspace_id: str, copies: Sequence[Copy]) -> tuple[str, ...]:
        """Write memories with the chunks, mentions and relations of others; texts are shared.

        All or nothing, but for those whose source is gone, deleted or has other content: they are
        not written. Returns the ids of what was written.
        """
        ...

    def remove(self, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
        """Erase memories at once with their chunks and the entities only they mention.

        For erasure on request: no grace period, no check. Returns what was erased.
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

    def links(self, workspace_id: str, names: Sequence[str], query: LinkQuery) -> tuple[Link, ...]:
        """Fetch relations that lead to, or from, entities of these names, sorted by place.

        A name is a whole one, or the last part of one. What only stale and soft-deleted memories
        say is left out.
        """
        ...

    def definitions(
        self, workspace_id: str, names: Sequence[str], limit: int
    ) -> tuple[Definition, ...]:
        """Fetch where live chunks define symbols of these names, whole or last parts."""
        ...

    def supersede(self, workspace_id: str, memory_ids: Sequence[str], by: str, at: datetime) -> int:
        """Mark memories as no longer valid and say which one replaced them; count them.

        One that was superseded before is left as it is.
        """
        ...

    def entities(self, workspace_id: str) -> tuple[Entity, ...]:
        """Fetch every live entity, sorted by id."""
        ...

    def merge(self, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
        """Move all edges of `gone` to the entity `keep` and drop the emptied nodes; count them.

        Permanent: each becomes an alias, so what is put later under its id goes to `keep`. A
        relation between two that are merged is dropped.
        """
        ...

    def pin(self, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
        """Pin memories, saying who and why. Count those that exist."""
        ...

    def unpin(self, workspace_id: str, memory_ids: Sequence[str]) -> int:
        """Remove pins. Count the memories that exist."""
        ...

    def touch(self, workspace_id: str, memory_ids: Sequence[str], at: datetime) -> int:
        """Note that memories were read. Count those that exist."""
        ...

    def files(self, workspace_id: str, repository: str) -> tuple[FileRow, ...]:
        """Fetch what is known of a repository's files, sorted by path."""
        ...

    def file_at(self, workspace_id: str, file_path: str) -> str | None:
        """Name the code memory of a file that is not soft-deleted, the one seen last; or None."""
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
        """Read all ids, edges and small columns at one version."""
        ...

    def survey_memories(self, workspace_id: str) -> Survey:
        """Make a survey without chunks and entities: far less to read."""
        ...

    def ids(self, workspace_id: str, kind: Kind, keys: Sequence[int]) -> tuple[str, ...]:
        """Turn a survey's keys into ids, in the same order; a node that is gone gives ''."""
        ...

    def soft_delete(
        self, workspace_id: str, nodes: Nodes, *, version: int, plan_id: str, at: datetime
    ) -> Nodes:
        """Hide nodes that have not changed since `version` and are not pinned; return those.

        Repeated with the same plan: the same nodes, less those that were restored. Chunks of a
        memory that is left alone are left alone too.
        """
        ...

    def restore(self, workspace_id: str, nodes: Nodes) -> Nodes:
        """Restore soft-deleted nodes with the chunks and entities they hold; return them."""
        ...

    def deleted(
        self, workspace_id: str, *, before: datetime | None = None, plan_id: str | None = None
    ) -> tuple[DeletedRow, ...]:
        """Fetch soft-deleted nodes: those deleted before a time, those of one plan, or all."""
        ...

    def purge(self, workspace_id: str, nodes: Nodes, *, before: datetime) -> Nodes:
        """Erase nodes that were soft-deleted before a time; return those erased.

        Works in short transactions, so that readers are answered meanwhile. A memory's chunks are
        erased with it. A node that was restored, or an entity that a memory's chunk mentions
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
        """Return the workspace's version; it grows with every write."""
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
        """Acquire the lease for a purpose if it is free; return '' or the holder."""
        ...

    def renew(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> bool:
        """Renew a lease; False if it was lost."""
        ...

    def release(self, workspace_id: str, purpose: str, holder: str) -> None:
        """Release a lease. Not holding it is not an error."""
        ...

    def scrub(self) -> tuple[str, ...]:
        """Make what was erased unreadable in the store's files, too.

        Returns what could not be done now, as text; it is tried again when the store is opened.
        """
        ...

    def close(self) -> None:
        """Release files and connections. A closed store refuses further calls."""
        ...
