"""Turn a file into its part of the graph: chunks, entities, mentions, relations.

A pure function of the file's path and content. The result does not depend on any other file, so
the graph of a repository is the sum of its files, in whatever order they are added and removed.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from marksweep.indexing.parse import Parsed, parse, parse_text
from marksweep.search.words import stemmed
from marksweep.stores.graph.nouns import (
    Chunk,
    Entity,
    Mention,
    Relation,
    chunks_of,
    entity_id,
    file_memory_id,
)

LAYOUT = "3"
"""Version of the parser. Raised when parsing, chunking or what is left out changes: all files are
read again."""

ID_CACHE = 65_536
"""Entity ids in the cache: names such as `append` occur in most files."""


class Source(msgspec.Struct, frozen=True, array_like=True):
    """A file and its path."""

    workspace_id: str
    repository: str
    path: str
    content: bytes


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """A file's part of the graph."""

    language: str
    lines: int
    functions: int
    classes: int
    chunks: tuple[Chunk, ...]
    entities: tuple[Entity, ...]
    mentions: tuple[Mention, ...]
    relations: tuple[Relation, ...]
    words: tuple[str, ...]
    """The search words of each chunk's text: computed here, in the worker process."""
    trouble: str = ""
    """Why the grammar failed and the file was read as text; usually empty."""


def read(source: Source) -> Reading:
    """Parse a file with its grammar, or as text if it has none."""
    return _named(source, parse(source.path, source.content))


def read_as_text(source: Source, trouble: str) -> Reading:
    """Read a file as text because its grammar failed."""
    return _named(source, parse_text(source.path, source.content), trouble)


_entity_id = lru_cache(maxsize=ID_CACHE)(entity_id)


def _named(source: Source, parsed: Parsed, trouble: str = "") -> Reading:
    """Assign the ids."""
    workspace_id = source.workspace_id
    memory_id = file_memory_id(workspace_id, source.repository, source.path)
    ids = [_entity_id(workspace_id, name.kind, name.name) for name in parsed.names]
    entities = {
        each: Entity(entity_id=each, workspace_id=workspace_id, name=name.name, kind=name.kind)
        for each, name in zip(reversed(ids), reversed(parsed.names), strict=True)
    }
    chunks = chunks_of(workspace_id, memory_id, parsed.pieces)
    mentions = dict.fromkeys(
        Mention(chunk.chunk_id, ids[name])
        for chunk, piece in zip(chunks, parsed.pieces, strict=True)
        for name in piece.names
    )
    ties = {
        (ids[tie.source], ids[tie.target], tie.relation): tie.lines for tie in reversed(parsed.ties)
    }
    return Reading(
        language=parsed.language,
        lines=parsed.lines,
        functions=parsed.functions,
        classes=parsed.classes,
        chunks=chunks,
        entities=tuple(sorted(entities.values(), key=lambda entity: entity.entity_id)),
        mentions=tuple(mentions),
        relations=tuple(Relation(*tie, memory_id, lines) for tie, lines in reversed(ties.items())),
        words=tuple(stemmed(chunk.text) for chunk in chunks),
        trouble=trouble,
    )
