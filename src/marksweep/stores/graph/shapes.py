"""What goes in and out of a graph store beside the nouns: rows, runs, queries, surveys."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

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

SCHEMA_VERSION = 2
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
    """The options that decide which files are looked at, in words."""
    started_at: datetime
    finished_at: datetime | None = None
    """None while it runs, and for ever if it was interrupted."""
    seen: int = 0
    stale: int = 0
    """Rows that became stale at its end."""


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
    """Nodes of every kind that wait for the end of their grace."""


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
    """A relative path, or the folder it lies in."""
    tags: tuple[str, ...] = ()
    """All of these."""
    since: datetime | None = None
    """Created at or after."""
    until: datetime | None = None
    """Created before."""
    limit: int = 20


class GraphHit(msgspec.Struct, frozen=True):
    """A chunk that matches, with the memory it belongs to. High scores are better."""

    memory: Memory
    chunk: Chunk
    score: float
    entities: tuple[Entity, ...] = ()
    """What the chunk mentions: the way to its neighbours."""


class DeletedRow(msgspec.Struct, frozen=True, gc=False):
    """A node that waits for the end of its grace."""

    kind: Kind
    node_id: str
    deleted_at: datetime
    plan_id: str


def checked(workspace_id: str, records: Sequence[Record]) -> Sequence[Record]:
    """Refuse records that do not hold together; of two for one memory, the last counts."""
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
                    "A record brings everything that it names."
                )
    return tuple(last.values())


Item = Memory | Chunk | Entity | Mention | Relation | Alias
"""What an export consists of: nodes before the edges that join them."""
