"""Export and import of a graph, node by node and edge by edge."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from marksweep.stores.graph.base import Item
from marksweep.stores.graph.nouns import Alias, Chunk, Entity, Kind, Memory, Mention, Relation
from marksweep.stores.graph.rows import (
    Row,
    chunk_of,
    entity_of,
    memory_of,
    memory_row,
    plain,
    relation_of,
)
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import advance, number
from marksweep.stores.graph.sqlite.writing import (
    Placed,
    keys,
    put_chunks,
    put_entities,
    put_mentions,
    put_relations,
    settle,
)

Node = Memory | Chunk | Entity
Kept = TypeVar("Kept", bound=Item)

Mark = tuple[int, ...] | None
"""Where the next page continues; None before the first."""
Page = Callable[[sqlite3.Connection, str, Mark, int], tuple[Mark, Sequence[Item]]]
"""Returns the mark to continue from, and a page of a workspace's items after a given mark."""


def _node_page(statement: str, read: Callable[[str, Row], Node]) -> Page:
    """Page through a table of nodes by key."""

    def page(
        db: sqlite3.Connection, workspace_id: str, after: Mark, limit: int
    ) -> tuple[Mark, list[Node]]:
        (last,) = after or (-1,)
        rows = db.execute(statement, (number(db, workspace_id), last, limit)).fetchall()
        return ((rows[-1][0],) if rows else after), [read(workspace_id, row[1:]) for row in rows]

    return page


def _mention_page(
    db: sqlite3.Connection, workspace_id: str, after: Mark, limit: int
) -> tuple[Mark, list[Mention]]:
    given = (number(db, workspace_id), *(after or (-1, -1)), limit)
    rows = db.execute(sql.EXPORT_MENTIONS, given).fetchall()
    return (rows[-1][:2] if rows else after), [Mention(row[2], row[3]) for row in rows]


def _relation_page(
    db: sqlite3.Connection, workspace_id: str, after: Mark, limit: int
) -> tuple[Mark, list[Relation]]:
    (offset,) = after or (0,)
    rows = db.execute(sql.EXPORT_RELATIONS, (number(db, workspace_id), limit, offset)).fetchall()
    return (offset + len(rows),), [relation_of(row) for row in rows]


PAGES: tuple[Page, ...] = (
    _node_page(sql.EXPORT_MEMORIES, memory_of),
    _node_page(sql.EXPORT_CHUNKS, chunk_of),
    _node_page(sql.EXPORT_ENTITIES, entity_of),
    _mention_page,
    _relation_page,
)
"""Pages of a graph except its aliases, in the order they are read."""


def aliases(db: sqlite3.Connection, workspace_id: str) -> list[Alias]:
    """Fetch which entities were merged into which."""
    return [Alias(*row) for row in db.execute(sql.ALIASES, (number(db, workspace_id),))]


def load(db: sqlite3.Connection, workspace_id: str, items: Collection[Item]) -> None:
    """Write items unchanged. Existing chunks are not overwritten."""
    ws, version = advance(db, workspace_id)
    for alias in _only(Alias, items):
        names = map(plain, (alias.entity_id, alias.keep_id, alias.name, alias.kind))
        db.execute(sql.PUT_ALIAS, (ws, *names))
    memories = {memory.memory_id: memory for memory in _only(Memory, items)}
    for memory in memories.values():
        row = (ws, version, *memory_row(memory))
        (key,) = db.execute(sql.PUT_MEMORY, row).fetchone()
        db.execute(sql.ADOPT_CHUNKS, (key, ws, plain(memory.memory_id)))
    _load_chunks(db, ws, version, _only(Chunk, items), memories)
    put_entities(db, ws, version, _only(Entity, items))
    mentions, relations = _only(Mention, items), _only(Relation, items)
    ends = [each for relation in relations for each in (relation.source_id, relation.target_id)]
    entities = keys(db, ws, Kind.ENTITY, [*(m.entity_id for m in mentions), *ends])
    chunks = keys(db, ws, Kind.CHUNK, (m.chunk_id for m in mentions))
    put_mentions(db, ws, mentions, chunks, entities)
    put_relations(db, ws, relations, entities)
    settle(db, ws, version)


def _load_chunks(
    db: sqlite3.Connection,
    ws: int,
    version: int,
    chunks: Sequence[Chunk],
    memories: dict[str, Memory],
) -> None:
    each = {chunk.chunk_id: chunk for chunk in chunks}
    known = keys(db, ws, Kind.CHUNK, each)
    owners = keys(db, ws, Kind.MEMORY, (chunk.memory_id for chunk in chunks))
    put_chunks(
        db,
        ws,
        version,
        [
            Placed(chunk, owners.get(chunk.memory_id), memories.get(chunk.memory_id))
            for chunk_id, chunk in each.items()
            if chunk_id not in known
        ],
    )


def _only(kind: type[Kept], items: Collection[Item]) -> list[Kept]:
    return [item for item in items if isinstance(item, kind)]
