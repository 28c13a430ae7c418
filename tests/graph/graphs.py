"""Small graphs to test with: notes, files with functions, and hostile names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from marksweep.stores.graph.nouns import (
    CODE_INDEXER,
    Chunk,
    Entity,
    Memory,
    Mention,
    Record,
    Relation,
    chunk_id,
    entity_id,
    file_memory_id,
    hash_content,
    note_memory_id,
)

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""The initial time of the tests' clocks."""

HOSTILE = (
    'it\'s "quoted" `ticked`',
    "') DETACH DELETE n //",
    '"] SET n.stale = true WITH n MATCH (m) DELETE m //',
    "'; DROP TABLE memory; --",
    "new\nline\r\ttab",
    'NEAR("a" "b") AND OR NOT * ^ col:',
    "@words:{x} | -y ~z %fuzzy% $param",
    "back\\slash \\u0041 \\",
    "bell\x07 escape\x1b delete\x7f",
    "日本語 übergröße 🙂 \u2028 \ufeff",
    "CYPHER a=1 RETURN 1",
    "../../etc/passwd",
    "{braces} [brackets] $1 %s {0}",
)
"""Names that break a store that builds its statements from text."""


def later(*, days: float = 0, minutes: float = 0) -> datetime:
    """Return a time after START."""
    return START + timedelta(days=days, minutes=minutes)


def note(
    workspace_id: str,
    text: str,
    *,
    source: str = "user",
    mentions: Sequence[str] = (),
    tags: Sequence[str] = (),
    at: datetime = START,
) -> Record:
    """Make a note with one chunk that mentions names."""
    memory = Memory(
        memory_id=note_memory_id(workspace_id, source, text),
        workspace_id=workspace_id,
        source=source,
        created_at=at,
        text=text,
        tags=tuple(tags),
        content_hash=hash_content(text.encode("utf-8", "surrogatepass")),
    )
    chunk = Chunk(
        chunk_id=chunk_id(memory.memory_id, 1, 1),
        workspace_id=workspace_id,
        memory_id=memory.memory_id,
        text=text,
        start_line=1,
        end_line=1,
    )
    entities = tuple(entity(workspace_id, name, "name") for name in dict.fromkeys(mentions))
    return Record(
        memory=memory,
        chunks=(chunk,),
        entities=entities,
        mentions=tuple(Mention(chunk.chunk_id, each.entity_id) for each in entities),
    )


def entity(workspace_id: str, name: str, kind: str = "function") -> Entity:
    """Make an entity."""
    return Entity(
        entity_id=entity_id(workspace_id, kind, name),
        workspace_id=workspace_id,
        name=name,
        kind=kind,
    )


def file(
    workspace_id: str,
    path: str,
    functions: Mapping[str, Sequence[str]],
    *,
    repository: str = "/repo",
    run: str = "run-1",
    language: str = "python",
    at: datetime = START,
    moved_from: str = "",
) -> Record:
    """Make a file of functions, each one chunk, with the functions that it calls."""
    memory_id = file_memory_id(workspace_id, repository, path)
    content = "\n".join(f"def {name}(): {' '.join(calls)}" for name, calls in functions.items())
    chunks, mentions, relations = [], [], []
    entities: dict[str, Entity] = {}
    for position, (name, calls) in enumerate(functions.items()):
        line = position + 1
        chunk = Chunk(
            chunk_id=chunk_id(memory_id, line, line, name),
            workspace_id=workspace_id,
            memory_id=memory_id,
            text=f"def {name}(): {' '.join(calls)}",
            kind="function",
            symbol=name,
            start_line=line,
            end_line=line,
            position=position,
        )
        chunks.append(chunk)
        for each in dict.fromkeys((name, *calls)):
            entities[each] = entity(workspace_id, each)
            mentions.append(Mention(chunk.chunk_id, entities[each].entity_id))
        relations += [
            Relation(
                entities[name].entity_id, entities[each].entity_id, "calls", memory_id, (line,)
            )
            for each in dict.fromkeys(calls)
        ]
    return Record(
        memory=Memory(
            memory_id=memory_id,
            workspace_id=workspace_id,
            source=CODE_INDEXER,
            created_at=at,
            repository=repository,
            file_path=f"{repository}/{path}",
            relative_path=path,
            language=language,
            lines=len(functions),
            size=len(content.encode("utf-8", "surrogatepass")),
            mtime_ns=1,
            content_hash=hash_content(content.encode("utf-8", "surrogatepass")),
            run=run,
            last_seen_at=at,
        ),
        chunks=tuple(chunks),
        entities=tuple(sorted(entities.values(), key=lambda each: each.entity_id)),
        mentions=tuple(mentions),
        relations=tuple(relations),
        moved_from=moved_from,
    )
