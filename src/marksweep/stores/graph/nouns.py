"""The nouns of the knowledge graph, and how their ids are made.

    Memory ─HAS_CHUNK→ Chunk ─MENTIONS→ Entity ─RELATED_TO→ Entity

A memory is one note or one file of a repository. Its chunks are what search finds. An entity is
shared by all chunks that mention it. Ids are hashes of what a node represents, so that indexing the
same tree twice gives the same graph.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from itertools import repeat

import msgspec

CODE_INDEXER = "code_indexer"
"""The source of memories that the indexer made; only these can become stale."""

DEFAULT_WORKSPACE = "default"
"""The workspace that is used when none is named; deleting in it needs its name typed."""

Scalar = str | int | float | bool | None
"""A value of a memory's metadata."""

ID_BYTES = 16
"""Bytes of an id's hash. 16 make a collision less likely than a disk error at a billion nodes."""


class Kind(StrEnum):
    """The three kinds of node."""

    MEMORY = "memory"
    CHUNK = "chunk"
    ENTITY = "entity"


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing remembered: a note, or a file of an indexed repository."""

    memory_id: str
    workspace_id: str
    source: str
    created_at: datetime
    text: str = ""
    """A note's text. A file's text is in its chunks."""
    repository: str = ""
    """The root that was indexed; empty for notes."""
    file_path: str = ""
    """Absolute, for people."""
    relative_path: str = ""
    """Within the repository, with forward slashes: what the id is made of."""
    language: str = ""
    lines: int = 0
    size: int = 0
    mtime_ns: int = 0
    content_hash: str = ""
    run: str = ""
    """The indexing run that saw it last."""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Scalar] = {}
    stale: bool = False
    """Set at the end of a complete run that should have seen it and did not."""
    last_seen_at: datetime | None = None
    pinned: bool = False
    pinned_by: str = ""
    read_at: datetime | None = None
    deleted_at: datetime | None = None
    """When it was soft-deleted: hidden, and restorable until the grace period is over."""
    superseded_by: str = ""
    """The id of the note that replaced it."""
    superseded_at: datetime | None = None
    """When it ceased to be valid; None: it is valid now."""
    expires_at: datetime | None = None
    """When its time to live ends; None: that of its source counts, if it has one."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a memory: a function, a class, a block, a paragraph."""

    chunk_id: str
    workspace_id: str
    memory_id: str
    """The memory that has it; a chunk whose memory is gone is an orphan."""
    text: str
    kind: str = "text"
    """function, class, block or text."""
    symbol: str = ""
    start_line: int = 0
    end_line: int = 0
    position: int = 0
    """Order within the memory, from 0."""
    deleted_at: datetime | None = None


class Entity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thing that chunks talk about: a symbol, a module, a path, a name, a tag."""

    entity_id: str
    workspace_id: str
    name: str
    kind: str
    """function, class, module, identifier, path, url, name, tag, …"""
    deleted_at: datetime | None = None

    @property
    def normalised(self) -> str:
        """The normalised name, by which duplicates are found."""
        return normalised(self.kind, self.name)


class Mention(msgspec.Struct, frozen=True, gc=False):
    """Chunk ─MENTIONS→ entity: strong, it keeps the entity."""

    chunk_id: str
    entity_id: str


class Relation(msgspec.Struct, frozen=True, gc=False):
    """Entity ─RELATED_TO→ entity: weak, it keeps nothing.

    `memory_id` is the memory that says so: the relation goes when that memory does.
    """

    source_id: str
    target_id: str
    relation: str
    """calls, imports or inherits."""
    memory_id: str
    lines: tuple[int, ...] = ()
    """Where in the file, counted from 1."""


class Alias(msgspec.Struct, frozen=True, gc=False):
    """The id of an entity that was merged into another: whatever names it means the other."""

    entity_id: str
    keep_id: str
    name: str
    """The name of the entity that was kept."""
    kind: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One memory with its chunks, entities and edges: the unit of writing.

    Every entity that a mention or relation names is in `entities`; both ends of a relation are
    mentioned by one of the chunks.
    """

    memory: Memory
    chunks: tuple[Chunk, ...] = ()
    entities: tuple[Entity, ...] = ()
    mentions: tuple[Mention, ...] = ()
    relations: tuple[Relation, ...] = ()
    words: tuple[str, ...] = ()
    """What each chunk's text is found by, if that is known: the stems with a space between."""
    moved_from: str = ""
    """The id of a memory that this one continues under a new path. It is removed in the same step;
    its pin, tags, creation and reading times are carried over."""

    def found_by(self) -> Iterator[tuple[Chunk, str]]:
        """Return the chunks, each with its words, empty where they are not known."""
        return zip(self.chunks, self.words or repeat(""), strict=bool(self.words))


CASE_MATTERS = frozenset({"function", "class", "method", "module", "variable", "path", "url"})
"""Entity kinds whose names differ by case: two functions `run` and `Run` are not one."""


def normalised(kind: str, name: str) -> str:
    """Bring a name to the form in which duplicates are equal."""
    clean = " ".join(unicodedata.normalize("NFKC", name).split())
    return clean if kind in CASE_MATTERS else clean.casefold().replace("_", " ").replace("-", " ")


def duplicates(entities: Iterable[Entity]) -> list[tuple[Entity, ...]]:
    """Group entities of one kind whose normalised names are equal; the one to keep is first.

    Kept is the spelling that sorts first, which prefers capitals.
    """
    groups: defaultdict[tuple[str, str], list[Entity]] = defaultdict(list)
    for entity in entities:
        groups[entity.kind, entity.normalised].append(entity)
    return [
        tuple(sorted(group, key=lambda entity: (entity.name, entity.entity_id)))
        for _, group in sorted(groups.items())
        if len(group) > 1
    ]


def _hashed(*parts: str) -> str:
    """Hash parts so that no two different lists give the same text to hash."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    length_prefixed = b"".join([len(part).to_bytes(8, "big") + part for part in encoded])
    return hashlib.blake2b(length_prefixed, digest_size=ID_BYTES).hexdigest()


def file_memory_id(workspace_id: str, repository: str, relative_path: str) -> str:
    """Name the memory of a file: the same for the same place."""
    return "m" + _hashed("file", workspace_id, repository, relative_path)


def note_memory_id(workspace_id: str, source: str, text: str) -> str:
    """Name the memory of a note: the same for the same words from the same source."""
    return "m" + _hashed("note", workspace_id, source, text)


def chunk_id(
    memory_id: str, start_line: int, end_line: int, symbol: str = "", occurrence: int = 0
) -> str:
    """Name a chunk by its range and symbol.

    `occurrence` counts chunks of one memory that share both, as two functions on one line do.
    """
    return "c" + _hashed(memory_id, str(start_line), str(end_line), symbol, str(occurrence))


def chunk_ids(memory_id: str, places: Iterable[tuple[int, int, str]]) -> Iterator[str]:
    """Name the chunks of a memory by first line, last line and symbol, in their order."""
    seen: Counter[tuple[int, int, str]] = Counter()
    for place in places:
        yield chunk_id(memory_id, *place, seen[place])
        seen[place] += 1


def entity_id(workspace_id: str, kind: str, name: str) -> str:
    """Name an entity by its kind and its name as written."""
    return "e" + _hashed(workspace_id, kind, unicodedata.normalize("NFC", name))


def hash_content(content: bytes) -> str:
    """Fingerprint a file's bytes."""
    return hashlib.blake2b(content, digest_size=ID_BYTES).hexdigest()
