"""Turn a file into the part of the graph it brings: chunks, entities, mentions, relations.

A pure function of the file's place and content. What it brings does not depend on any other file,
so the graph of a repository is the sum of its files, in whatever order they come and go.
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
    chunk_ids,
    entity_id,
    file_memory_id,
)

LAYOUT = "3"
"""How files are read. Raised when parsing, chunking or what is left out changes: all files are read
again."""

ID_CACHE = 65_536
"""Entity ids kept at hand: names such as `append` come up in most files."""


class Source(msgspec.Struct, frozen=True, array_like=True):
    """A file and its place."""

    workspace_id: str
    repository: str
    path: str
    content: bytes


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """What a file brings to the graph."""

    language: str
    lines: int
    functions: int
    classes: int
    chunks: tuple[Chunk, ...]
    entities: tuple[Entity, ...]
    mentions: tuple[Mention, ...]
    relations: tuple[Relation, ...]
    words: tuple[str, ...]
    """What each chunk's text is found by: worked out here, where there are processes for it."""
    trouble: str = ""
    """Why its grammar could not be used and it was read as text; mostly empty."""


def read(source: Source) -> Reading:
    """Read a file by its grammar, or as text if it has none."""
    return _named(source, parse(source.path, source.content))


def read_as_text(source: Source, trouble: str) -> Reading:
    """Read a file as text because its grammar failed."""
    return _named(source, parse_text(source.path, source.content), trouble)


_entity_id = lru_cache(maxsize=ID_CACHE)(entity_id)


def _named(source: Source, parsed: Parsed, trouble: str = "") -> Reading:
    """Give everything its id."""
    workspace_id = source.workspace_id
    memory_id = file_memory_id(workspace_id, source.repository, source.path)
    ids = [_entity_id(workspace_id, name.kind, name.name) for name in parsed.names]
    entities = {
        each: Entity(entity_id=each, workspace_id=workspace_id, name=name.name, kind=name.kind)
        for each, name in zip(reversed(ids), reversed(parsed.names), strict=True)
    }
    chunks: list[Chunk] = []
    mentions: dict[Mention, None] = {}
    places = ((piece.start_line, piece.end_line, piece.symbol) for piece in parsed.pieces)
    named = zip(parsed.pieces, chunk_ids(memory_id, places), strict=True)
    for position, (piece, each) in enumerate(named):
        chunks.append(
            Chunk(
                chunk_id=each,
                workspace_id=workspace_id,
                memory_id=memory_id,
                text=piece.text,
                kind=piece.kind,
                symbol=piece.symbol,
                start_line=piece.start_line,
                end_line=piece.end_line,
                position=position,
            )
        )
        mentions.update((Mention(each, ids[name]), None) for name in piece.names)
    ties = {
        (ids[tie.source], ids[tie.target], tie.relation): tie.lines for tie in reversed(parsed.ties)
    }
    return Reading(
        language=parsed.language,
        lines=parsed.lines,
        functions=parsed.functions,
        classes=parsed.classes,
        chunks=tuple(chunks),
        entities=tuple(sorted(entities.values(), key=lambda entity: entity.entity_id)),
        mentions=tuple(mentions),
        relations=tuple(Relation(*tie, memory_id, lines) for tie, lines in reversed(ties.items())),
        words=tuple(stemmed(chunk.text) for chunk in chunks),
        trouble=trouble,
    )
