"""Export and import of a graph, node by node and edge by edge."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from typing import TypeVar

from marksweep.stores.graph import reading
from marksweep.stores.graph.base import Item
from marksweep.stores.graph.nouns import Alias, Chunk, Entity, Kind, Memory, Mention, Relation
from marksweep.stores.graph.rows import (
    chunk_of,
    entity_of,
    memory_of,
    micros_or_none,
    plain,
    relation_of,
)
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import Change, Reader, number
from marksweep.stores.graph.sqlite.writing import (
    Placed,
    put_aliases,
    put_chunks,
    put_entities,
    put_memories,
    put_mentions,
    put_relations,
    settle,
)

Kept = TypeVar("Kept", bound=Item)


def everything(db: sqlite3.Connection, workspace_id: str) -> Iterator[Item]:
    """Stream a whole graph: nodes, the edges between them, and aliases."""
    ws = (number(db, workspace_id),)
    for row in db.execute(sql.EXPORT_MEMORIES, ws):
        yield memory_of(workspace_id, row)
    for row in db.execute(sql.EXPORT_CHUNKS, ws):
        yield chunk_of(workspace_id, row)
    for row in db.execute(sql.EXPORT_ENTITIES, ws):
        yield entity_of(workspace_id, row)
    for row in db.execute(sql.EXPORT_MENTIONS, ws):
        yield Mention(*row)
    for row in db.execute(sql.EXPORT_RELATIONS, ws):
        yield relation_of(row)
    for row in db.execute(sql.ALIASES, ws):
        yield Alias(*row)


def load(db: sqlite3.Connection, workspace_id: str, items: Collection[Item]) -> None:
    """Write items unchanged. Existing chunks keep their texts."""
    change = Change(db, workspace_id)
    put_aliases(change, _only(Alias, items))
    for name, key in put_memories(change, _only(Memory, items)).items():
        change.run(sql.ADOPT_CHUNKS, memory=key, id=plain(name))
    chunks = {chunk.chunk_id: chunk for chunk in _only(Chunk, items)}
    known = change.keys(Kind.CHUNK, chunks)
    keys = change.keys(Kind.MEMORY, (chunk.memory_id for chunk in chunks.values()))
    memories = reading.owners(Reader(db), workspace_id, items)
    for name, key in known.items():
        chunk = chunks[name]
        memory, deleted = keys.get(chunk.memory_id), micros_or_none(chunk.deleted_at)
        change.run(sql.LOAD_KNOWN_CHUNK, key=key, memory=memory, deleted_at=deleted)
    new = (chunk for chunk_id, chunk in chunks.items() if chunk_id not in known)
    put_chunks(change, [Placed(c, keys.get(c.memory_id), memories.get(c.memory_id)) for c in new])
    put_entities(change, _only(Entity, items))
    mentions, relations = _only(Mention, items), _only(Relation, items)
    ends = [each for relation in relations for each in (relation.source_id, relation.target_id)]
    entities = change.keys(Kind.ENTITY, [*(m.entity_id for m in mentions), *ends])
    put_mentions(
        change, mentions, change.keys(Kind.CHUNK, (m.chunk_id for m in mentions)), entities
    )
    put_relations(change, relations, entities)
    settle(change)


def _only(kind: type[Kept], items: Collection[Item]) -> list[Kept]:
    return [item for item in items if isinstance(item, kind)]
