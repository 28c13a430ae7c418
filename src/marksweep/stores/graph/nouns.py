"""The nouns of the knowledge graph, and how their ids are computed.

    Memory ─HAS_CHUNK→ Chunk ─MENTIONS→ Entity ─RELATED_TO→ Entity

A memory is one note or one file of a repository. Its chunks are what search finds. An entity is
shared by all chunks that mention it. Ids are hashes of what a node represents, so that indexing the
same tree twice gives the same graph.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import repeat

import msgspec

CODE_INDEXER = "code_indexer"
"""The source of memories created by the indexer; only these can become stale."""

Scalar = str | int | float | bool | None
"""A metadata value."""

ID_BYTES = 16
"""Bytes in an id's hash. With 16, a collision in a billion nodes is rarer than a disk error."""


class Kind(StrEnum):
    """The three kinds of node."""

    MEMORY = "memory"
    CHUNK = "chunk"
    ENTITY = "entity"


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A note, or a file of an indexed repository."""

    memory_id: str
    workspace_id: str
    source: str
    created_at: datetime
    text: str = ""
    """A note's text. A file's text is in its chunks."""
    repository: str = ""
    """The indexed root; empty for notes."""
    file_path: str = ""
    """Absolute, for display."""
    relative_path: str = ""
    """Within the repository, with forward slashes; the id is computed from it."""
    language: str = ""
    lines: int = 0
    size: int = 0
    mtime_ns: int = 0
    content_hash: str = ""
    run: str = ""
    """The last indexing run that saw it."""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Scalar] = {}
    stale: bool = False
    """Set at the end of a complete run that should have seen it but did not."""
    last_seen_at: datetime | None = None
    pinned: bool = False
    pinned_by: str = ""
    read_at: datetime | None = None
    deleted_at: datetime | None = None
    """When it was soft-deleted: hidden, and restorable until the grace period ends."""
    superseded_by: str = ""
    """The id of the note that replaced it."""
    superseded_at: datetime | None = None
    """When it stopped being valid; None if it is valid now."""
    expires_at: datetime | None = None
    """When it expires; None: its source's time to live applies, if any."""

    @property
    def valid_until(self) -> datetime | None:
        """When it was replaced or expires, whichever is first; None if neither is known."""
        return min(filter(None, (self.superseded_at, self.expires_at)), default=None)


class Piece(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A range of lines of a text, counted from 1, that becomes a chunk."""

    kind: str
    """function, class, block or text."""
    symbol: str
    start_line: int
    end_line: int
    text: str


class Chunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a memory: a function, a class, a block, a paragraph."""

    chunk_id: str
    workspace_id: str
    memory_id: str
    """The memory it belongs to; a chunk whose memory no longer exists is an orphan."""
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
    """Something that chunks mention: a symbol, a module, a path, a name, a tag."""

    entity_id: str
    workspace_id: str
    name: str
    kind: str
    """function, class, module, identifier, path, url, name, tag, …"""
    deleted_at: datetime | None = None

    @property
    def normalised(self) -> str:
        """The normalised name, used to find duplicates."""
        return normalised(self.kind, self.name)


class Mention(msgspec.Struct, frozen=True, gc=False):
    """Chunk ─MENTIONS→ entity: strong, it keeps the entity alive."""

    chunk_id: str
    entity_id: str


class Relation(msgspec.Struct, frozen=True, gc=False):
    """Entity ─RELATED_TO→ entity: weak, it keeps nothing alive.

    `memory_id` is the memory that states it: the relation is deleted with that memory.
    """

    source_id: str
    target_id: str
    relation: str
    """calls, imports or inherits."""
    memory_id: str
    lines: tuple[int, ...] = ()
    """Line numbers in the file, from 1."""


class Alias(msgspec.Struct, frozen=True, gc=False):
    """The id of an entity merged into another: references to it mean the other."""

    entity_id: str
    keep_id: str
    name: str
    """The name of the entity that was kept."""
    kind: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One memory with its chunks, entities and edges: the unit of writing.

    Every entity that a mention or relation refers to is in `entities`; both ends of a relation are
    mentioned by one of the chunks.
    """

    memory: Memory
    chunks: tuple[Chunk, ...] = ()
    entities: tuple[Entity, ...] = ()
    mentions: tuple[Mention, ...] = ()
    relations: tuple[Relation, ...] = ()
    words: tuple[str, ...] = ()
    """Search words of each chunk's text, if known: its stems, separated by spaces."""
    moved_from: str = ""
    """The id of the memory that this one replaces under a new path. It is removed in the same step;
    its pin, tags, creation and read times are carried over."""
    replaces: tuple[str, ...] = ()
    """Ids of the notes that this one replaces: in the same step, those that are valid stop being so
    when it is created."""

    def found_by(self) -> Iterator[tuple[Chunk, str]]:
        """Return each chunk with its words, '' if unknown."""
        return zip(self.chunks, self.words or repeat(""), strict=bool(self.words))


CASE_MATTERS = frozenset({"function", "class", "method", "module", "variable", "path", "url"})
"""Entity kinds with case-sensitive names: functions `run` and `Run` are different."""


def normalised(kind: str, name: str) -> str:
    """Normalise a name so that duplicates are equal."""
    clean = " ".join(unicodedata.normalize("NFKC", name).split())
    return clean if kind in CASE_MATTERS else clean.casefold().replace("_", " ").replace("-", " ")


def duplicates(entities: Iterable[Entity]) -> list[tuple[Entity, ...]]:
    """Group entities of one kind whose normalised names are equal; the one to keep is first.

    The spelling that sorts first is kept, which prefers capitals.
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
    """Hash parts, encoded so that different lists never give the same hash input."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    length_prefixed = b"".join([len(part).to_bytes(8, "big") + part for part in encoded])
    return hashlib.blake2b(length_prefixed, digest_size=ID_BYTES).hexdigest()


def file_memory_id(workspace_id: str, repository: str, relative_path: str) -> str:
    """Compute the id of a file's memory: the same for the same location."""
    return "m" + _hashed("file", workspace_id, repository, relative_path)


def note_memory_id(workspace_id: str, source: str, text: str, after: str = "") -> str:
    """Compute the id of a note's memory: the same for the same text and source.

    `after` is the memory of the same text that is no longer valid, if there is one.
    """
    return "m" + _hashed("note", workspace_id, source, text, *filter(None, [after]))


def chunk_id(
    memory_id: str, start_line: int, end_line: int, symbol: str = "", occurrence: int = 0
) -> str:
    """Compute a chunk's id from its range and symbol.

    `occurrence` counts chunks of one memory that share both, such as two functions on one line.
    """
    return "c" + _hashed(memory_id, str(start_line), str(end_line), symbol, str(occurrence))


def chunk_ids(memory_id: str, places: Iterable[tuple[int, int, str]]) -> Iterator[str]:
    """Compute the ids of a memory's chunks from first line, last line and symbol, in order."""
    seen: Counter[tuple[int, int, str]] = Counter()
    for place in places:
        yield chunk_id(memory_id, *place, seen[place])
        seen[place] += 1


def chunks_of(workspace_id: str, memory_id: str, pieces: Sequence[Piece]) -> tuple[Chunk, ...]:
    """Make the chunks of a memory from its pieces, in order."""
    places = ((piece.start_line, piece.end_line, piece.symbol) for piece in pieces)
    named = zip(pieces, chunk_ids(memory_id, places), strict=True)
    return tuple(
        Chunk(
            chunk_id=name,
            workspace_id=workspace_id,
            memory_id=memory_id,
            text=piece.text,
            kind=piece.kind,
            symbol=piece.symbol,
            start_line=piece.start_line,
            end_line=piece.end_line,
            position=position,
        )
        for position, (piece, name) in enumerate(named)
    )


def entity_id(workspace_id: str, kind: str, name: str) -> str:
    """Compute an entity's id from its kind and its name as written."""
    return "e" + _hashed(workspace_id, kind, unicodedata.normalize("NFC", name))


def hash_content(content: bytes) -> str:
    """Hash a file's bytes."""
    return hashlib.blake2b(content, digest_size=ID_BYTES).hexdigest()
