"""The graph store protocol: rows, runs, the survey that a collection starts from, and leases.

Each call is atomic; `soft_delete`, `restore` and `purge` work in atomic batches and can be repeated
after a crash. Every write gives the rows it changes the workspace's next version; a plan records
the version it was made at, and rows changed since then are left alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from marksweep.errors import BadInput
from marksweep.stores.graph import nouns
from marksweep.stores.graph.nouns import Kind, Memory, Record
from marksweep.stores.leases import Leases

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A file that a run found with unchanged content."""

    memory_id: str
    size: int
    mtime_ns: int
    file_path: str = ""
    """Where it is; '' where it was."""


class Run(msgspec.Struct, frozen=True, gc=False):
    """One indexing run over a repository."""

    run_id: str
    repository: str
    filter: str
    """The options that select files, as text."""
    started_at: datetime
    finished_at: datetime | None = None
    """None while it runs, or if it was interrupted."""
    seen: int = 0
    stale: int = 0
    """Rows that became stale when it finished."""

    @property
    def host(self) -> str:
        """The machine it ran on, as named by `leases.this_host`; '' if unknown."""
        parts = self.run_id.split("-")
        return parts[2] if len(parts) == 4 else ""


class Counts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Counts of a workspace's contents. Soft-deleted rows count as deleted, not by kind."""

    memories: int = 0
    chunks: int = 0
    entities: int = 0
    mentions: int = 0
    relations: int = 0
    stale: int = 0
    """Memories that are stale and not yet soft-deleted."""
    pinned: int = 0
    deleted: int = 0
    """Nodes of all kinds within their grace period."""


class Nodes(msgspec.Struct, frozen=True):
    """Node ids by kind."""

    memories: tuple[str, ...] = ()
    chunks: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Count all ids."""
        return len(self.memories) + len(self.chunks) + len(self.entities)

    def __add__(self, other: Nodes) -> Nodes:
        """Concatenate the ids of both."""
        return Nodes(
            self.memories + other.memories,
            self.chunks + other.chunks,
            self.entities + other.entities,
        )

    def of(self, kind: Kind) -> tuple[str, ...]:
        """Return the ids of one kind."""
        match kind:
            case Kind.MEMORY:
                return self.memories
            case Kind.CHUNK:
                return self.chunks
            case Kind.ENTITY:
                return self.entities


class MemoryRow(msgspec.Struct, frozen=True, gc=False):
    """A memory as a collection or the indexer sees it: all that is small, in stored form.

    Times are microseconds since 1970. A plan may read a hundred thousand rows, so values are
    converted only on access.
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
    size: int = 0
    mtime_ns: int = 0
    superseded_us: int | None = None

    @property
    def deleted(self) -> bool:
        """Whether it is soft-deleted."""
        return self.deleted_us is not None

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
    """A workspace at one version, compact enough for a million nodes.

    Nodes have integer keys that are valid only within this survey; the store's `ids` converts them
    to ids. Columns of one table are parallel.
    """

    version: int
    memories: tuple[MemoryRow, ...]
    chunks: array[int] = NO_KEYS
    chunk_owners: array[int] = NO_KEYS
    """Key of the chunk's memory; -1 if none."""
    deleted_chunks: frozenset[int] = frozenset()
    entities: array[int] = NO_KEYS
    deleted_entities: frozenset[int] = frozenset()
    mention_chunks: array[int] = NO_KEYS
    mention_entities: array[int] = NO_KEYS


MAX_LIMIT = 2**31 - 1
"""Results of a search. FalkorDB adds to the number, and finds nothing if that overflows."""


class GraphQuery(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A search query. All given filters must match; words rank."""

    words: str = ""
    """Free text: any word may match; more and rarer matches rank higher."""
    sources: tuple[str, ...] = ()
    repository: str | None = None
    languages: tuple[str, ...] = ()
    path: str | None = None
    """Relative path of a file, or of a folder that contains it."""
    tags: tuple[str, ...] = ()
    """All must be present."""
    since: datetime | None = None
    """Created at or after."""
    until: datetime | None = None
    """Created before."""
    as_of: datetime | None = None
    """Find what was valid at this time; None: what is valid now."""
    now: datetime | None = None
    """Hide notes expired by this time, unless `as_of` is given; None hides none."""
    limit: int = 20

    def __post_init__(self) -> None:
        """Read a limit that no server can count to as the highest."""
        if self.limit > MAX_LIMIT:
            msgspec.structs.force_setattr(self, "limit", MAX_LIMIT)


class GraphHit(msgspec.Struct, frozen=True):
    """A matching chunk with its memory. Higher scores are better."""

    memory: Memory
    chunk: nouns.Chunk
    score: float
    entities: tuple[nouns.Entity, ...] = ()
    """Entities that the chunk mentions: links to its neighbours."""


class LinkQuery(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Which relations to follow."""

    relation: str
    """calls, imports or inherits."""
    to_name: bool
    """True: the names are targets. False: they are sources."""
    whole_names: bool = False
    """True: the whole name must match. False: the last part is enough."""
    limit: int = 100


class Link(msgspec.Struct, frozen=True, gc=False):
    """A call, import or inheritance between two symbols, with its location."""

    source: str
    target: str
    relation: str
    file: str
    """Path within its repository."""
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
    """A file with the path and content of one in another root; it gets its chunks and links."""

    source: str
    """The id of the other file's memory."""
    memory: Memory


class DeletedRow(msgspec.Struct, frozen=True, gc=False):
    """A node within its grace period."""

    kind: Kind
    node_id: str
    deleted_at: datetime
    plan_id: str


def checked(workspace_id: str, records: Sequence[Record]) -> Sequence[Record]:
    """Reject inconsistent records; if a memory has several, keep the last."""
    last = {record.memory.memory_id: record for record in records}
    for record in last.values():
        memory = record.memory
        chunks = {chunk.chunk_id for chunk in record.chunks}
        entities = {entity.entity_id for entity in record.entities}
        named = {mention.entity_id for mention in record.mentions}
        named.update(end for r in record.relations for end in (r.source_id, r.target_id))
        faults = (
            (memory.workspace_id != workspace_id, f"it is in workspace {memory.workspace_id!r}"),
            (
                record.moved_from in last and record.moved_from != memory.memory_id,
                "it was moved from a memory that is written with it",
            ),
            (len(chunks) < len(record.chunks), "two chunks share an id"),
            (any(c.memory_id != memory.memory_id for c in record.chunks), "a chunk is not its own"),
            (not {m.chunk_id for m in record.mentions} <= chunks, "a mention has no chunk"),
            (not named <= entities, "an edge names an entity that is not in the record"),
            (
                any(r.memory_id != memory.memory_id for r in record.relations),
                "a relation is not its own",
            ),
        )
        for found, fault in faults:
            if found:
                raise BadInput(
                    f"memory {memory.memory_id!r} cannot be stored in {workspace_id!r}: {fault}. "
                    "A record must contain everything it refers to."
                )
    return tuple(last.values())


Item = Memory | nouns.Chunk | nouns.Entity | nouns.Mention | nouns.Relation | nouns.Alias
"""An exported item; nodes come before the edges that join them."""


class GraphStore(Leases, Protocol):
    """Graphs, one per workspace, shared by any number of processes."""

    def put(self, workspace_id: str, records: Sequence[Record]) -> None:
        """Write memories with their chunks and entities, replacing what each had; all or nothing.

        Stale and soft-deleted rows become live again. An existing memory keeps its creation and
        read times and its pin. Entities that only the replaced chunks mentioned are deleted. Notes
        that a record replaces are superseded by its memory, unless they already were.
        """
        ...

    def copy(self, workspace_id: str, copies: Sequence[Copy]) -> tuple[str, ...]:
        """Write memories with the chunks, mentions and relations of others; texts are shared.

        All or nothing, except that copies whose source is missing, deleted or has different content
        are skipped. Returns the ids of the memories written.
        """
        ...

    def remove(self, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
        """Erase memories immediately, with their chunks and the entities only they mention.

        For erasure on request: no grace period, no check. Returns what was erased.
        """
        ...

    def fetch(self, workspace_id: str, memory_ids: Sequence[str]) -> tuple[Record, ...]:
        """Fetch whole memories in the requested order; unknown ids are omitted."""
        ...

    def find(
        self, workspace_id: str, nodes: Nodes
    ) -> tuple[Memory | nouns.Chunk | nouns.Entity, ...]:
        """Fetch nodes by id in any state; unknown ids are omitted."""
        ...

    def notes(self, workspace_id: str, source: str, content_hash: str) -> tuple[Memory, ...]:
        """Fetch a source's notes with this content hash in any state, oldest first."""
        ...

    def search(self, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
        """Find chunks of live memories, best first; without words, newest memory first.

        Stale and soft-deleted rows are never returned.
        """
        ...

    def links(self, workspace_id: str, names: Sequence[str], query: LinkQuery) -> tuple[Link, ...]:
        """Fetch relations to, or from, entities with these names, sorted by location.

        A name may be a whole name or its last part. Relations stated only by stale or soft-deleted
        memories are omitted.
        """
        ...

    def definitions(
        self, workspace_id: str, names: Sequence[str], limit: int
    ) -> tuple[Definition, ...]:
        """Fetch where live chunks define symbols with these names, whole or last part."""
        ...

    def entities(self, workspace_id: str) -> tuple[nouns.Entity, ...]:
        """Fetch every live entity, sorted by id."""
        ...

    def merge(self, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
        """Move all edges of `gone` to the entity `keep`; drop and count the emptied nodes.

        Permanent: each becomes an alias, so later writes under its id go to `keep`. Relations
        between two merged entities are dropped.
        """
        ...

    def pin(self, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
        """Pin memories, recording who and why; return how many exist."""
        ...

    def unpin(self, workspace_id: str, memory_ids: Sequence[str]) -> int:
        """Remove pins; return how many of the memories exist."""
        ...

    def touch(self, workspace_id: str, memory_ids: Sequence[str], at: datetime) -> int:
        """Record that memories were read; return how many exist."""
        ...

    def files(self, workspace_id: str, repository: str) -> tuple[MemoryRow, ...]:
        """Fetch the known files of a repository, sorted by path."""
        ...

    def file_at(self, workspace_id: str, file_path: str) -> str | None:
        """Return the id of a file's last seen code memory that is not soft-deleted, or None."""
        ...

    def begin_run(self, workspace_id: str, run: Run) -> None:
        """Record that a run has begun."""
        ...

    def stamp(self, workspace_id: str, run_id: str, seen: Sequence[Seen], at: datetime) -> None:
        """Mark unchanged files as seen by a run; stale and soft-deleted ones become live again."""
        ...

    def finish_run(self, workspace_id: str, run_id: str, scope: Sequence[str], at: datetime) -> Run:
        """Close a complete run: rows in `scope` that it did not see become stale, in one step.

        `scope` holds the memory ids that the run's filter covers: those it would have seen if
        their files existed. Rows of other repositories are never changed.
        """
        ...

    def mark_stale(self, workspace_id: str, memory_ids: Sequence[str]) -> int:
        """Mark live code memories stale immediately; return how many. Other sources stay live."""
        ...

    def runs(self, workspace_id: str, repository: str | None = None) -> tuple[Run, ...]:
        """Fetch runs, newest first."""
        ...

    def survey(self, workspace_id: str) -> Survey:
        """Read all ids, edges and small columns at one version."""
        ...

    def survey_memories(self, workspace_id: str) -> Survey:
        """Make a survey without chunks and entities, which reads far less."""
        ...

    def ids(self, workspace_id: str, kind: Kind, keys: Sequence[int]) -> tuple[str, ...]:
        """Convert a survey's keys to ids, in the same order; '' for nodes that no longer exist."""
        ...

    def soft_delete(
        self, workspace_id: str, nodes: Nodes, *, version: int, plan_id: str, at: datetime
    ) -> Nodes:
        """Hide nodes that have not changed since `version` and are not pinned; return them.

        Repeating a plan returns the same nodes, except those restored since. If a memory is left
        alone, so are its chunks.
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

        Works in short transactions, so that readers can run in between. A memory's chunks are
        erased with it. Restored nodes, and entities that a memory's chunk mentions again, are
        kept.
        """
        ...

    def counts(self, workspace_id: str) -> Counts:
        """Count the workspace's contents."""
        ...

    def workspaces(self) -> tuple[str, ...]:
        """List the workspaces that are not empty, sorted."""
        ...

    def version(self, workspace_id: str) -> int:
        """Return the workspace's version, which increases with every write."""
        ...

    def export(self, workspace_id: str, nodes: Nodes | None = None) -> Iterator[Item]:
        """Stream nodes, then the edges that touch them; the whole workspace if `nodes` is None."""
        ...

    def load(self, workspace_id: str, items: Collection[Item]) -> None:
        """Write exported items unchanged, orphans included; all or nothing."""
        ...

    def scrub(self) -> tuple[str, ...]:
        """Remove erased content from the store's files too.

        Returns descriptions of what could not be done now; the next opening retries it.
        """
        ...

    def close(self) -> None:
        """Release files and connections. A closed store rejects further calls."""
        ...
