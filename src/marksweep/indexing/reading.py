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
    Entity,
    Memory,
    Mention,
    Record,
    Relation,
    chunks_of,
    entity_id,
)

LAYOUT = "3"
"""Version of the parser. Raised when parsing, chunking or what is left out changes: all files are
read again."""

ID_CACHE = 65_536
"""Entity ids in the cache: names such as `append` occur in most files."""


class Source(msgspec.Struct, frozen=True, array_like=True):
    """A file: its memory without what parsing finds out, and its content."""

    memory: Memory
    content: bytes


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """A file's part of the graph, with the search words of its chunks."""

    record: Record
    trouble: str = ""
    """Why the grammar failed and the file was read as text; usually empty."""


def read(source: Source) -> Reading:
    """Parse a file with its grammar, or as text if it has none."""
    return Reading(_named(source.memory, parse(source.memory.relative_path, source.content)))


def read_as_text(source: Source, trouble: str) -> Reading:
    """Read a file as text because its grammar failed."""
    parsed = parse_text(source.memory.relative_path, source.content)
    return Reading(_named(source.memory, parsed), trouble)


_entity_id = lru_cache(maxsize=ID_CACHE)(entity_id)


def _named(memory: Memory, parsed: Parsed) -> Record:
    """Assign the ids."""
    workspace_id = memory.workspace_id
    ids = [_entity_id(workspace_id, name.kind, name.name) for name in parsed.names]
    entities = {
        each: Entity(entity_id=each, workspace_id=workspace_id, name=name.name, kind=name.kind)
        for each, name in zip(reversed(ids), reversed(parsed.names), strict=True)
    }
    chunks = chunks_of(workspace_id, memory.memory_id, parsed.pieces)
    mentions = dict.fromkeys(
        Mention(chunk.chunk_id, ids[name])
        for chunk, piece in zip(chunks, parsed.pieces, strict=True)
        for name in piece.names
    )
    ties = {
        (ids[tie.source], ids[tie.target], tie.relation): tie.lines for tie in reversed(parsed.ties)
    }
    return Record(
        memory=msgspec.structs.replace(
            memory,
            language=parsed.language,
            lines=parsed.lines,
            metadata={"functions": parsed.functions, "classes": parsed.classes},
        ),
        chunks=chunks,
        entities=tuple(sorted(entities.values(), key=lambda entity: entity.entity_id)),
        mentions=tuple(mentions),
        relations=tuple(
            Relation(*tie, memory.memory_id, lines) for tie, lines in reversed(ties.items())
        ),
        words=tuple(stemmed(chunk.text) for chunk in chunks),
    )
