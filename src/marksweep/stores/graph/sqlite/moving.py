"""Taking a graph out and putting it in, node by node and edge by edge."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence

from marksweep.stores.graph.base import Item, Nodes
from marksweep.stores.graph.nouns import Chunk, Entity, Memory, Mention, Relation
from marksweep.stores.graph.rows import (
    Row,
    chunk_of,
    entity_of,
    memory_of,
    memory_row,
    plain,
    title,
)
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import advance, number, pick
from marksweep.stores.graph.sqlite.remember import put_chunk, put_entities, put_relations

Node = Memory | Chunk | Entity

NODE_PAGES: tuple[tuple[str, Callable[[str, Row], Node]], ...] = (
    (sql.EXPORT_MEMORIES, memory_of),
    (sql.EXPORT_CHUNKS, chunk_of),
    (sql.EXPORT_ENTITIES, entity_of),
)


def node_page(
    db: sqlite3.Connection, workspace_id: str, table: int, after: int, limit: int
) -> tuple[int, list[Node]]:
    """Fetch one page of nodes and the key to go on from."""
    statement, read = NODE_PAGES[table]
    rows = db.execute(statement, (number(db, workspace_id), after, limit)).fetchall()
    return (rows[-1][0] if rows else after), [read(workspace_id, row[1:]) for row in rows]


def mention_page(
    db: sqlite3.Connection, workspace_id: str, after: tuple[int, int], limit: int
) -> tuple[tuple[int, int], list[Mention]]:
    """Fetch one page of mentions and the keys to go on from."""
    rows = db.execute(sql.EXPORT_MENTIONS, (number(db, workspace_id), *after, limit)).fetchall()
    return ((rows[-1][0], rows[-1][1]) if rows else after), [Mention(r[2], r[3]) for r in rows]


def relation_page(
    db: sqlite3.Connection, workspace_id: str, offset: int, limit: int
) -> list[Relation]:
    """Fetch one page of relations."""
    rows = db.execute(sql.EXPORT_RELATIONS, (number(db, workspace_id), limit, offset))
    return [Relation(*row) for row in rows]


def nodes_with_edges(db: sqlite3.Connection, workspace_id: str, nodes: Nodes) -> list[Item]:
    """Fetch nodes, the chunks of the memories among them, and every edge that touches them."""
    ws = number(db, workspace_id)
    pick(db, map(plain, nodes.memories))
    memories = [memory_of(workspace_id, row) for row in db.execute(sql.MEMORIES, (ws,))]
    of_memories = db.execute(sql.CHUNKS_OF_MEMORIES, (ws,)).fetchall()
    relations = [Relation(*row) for row in db.execute(sql.RELATIONS_OF_MEMORIES, (ws,))]
    pick(db, map(plain, nodes.chunks))
    by_id = db.execute(sql.CHUNKS_BY_ID, (ws,)).fetchall()
    chunks = {row[0]: chunk_of(workspace_id, row) for row in (*of_memories, *by_id)}
    pick(db, chunks)
    mentions = [Mention(*row) for row in db.execute(sql.MENTIONS_OF_CHUNKS, (ws,))]
    pick(db, map(plain, nodes.entities))
    entities = [entity_of(workspace_id, row) for row in db.execute(sql.ENTITIES_BY_ID, (ws,))]
    if entities:
        mentions += [Mention(*row) for row in db.execute(sql.MENTIONS_OF_ENTITIES, (ws,))]
        relations += [Relation(*row) for row in db.execute(sql.RELATIONS_OF_ENTITIES, (ws,))]
    return [
        *memories,
        *chunks.values(),
        *entities,
        *dict.fromkeys(mentions),
        *dict.fromkeys(relations),
    ]


def load(db: sqlite3.Connection, workspace_id: str, items: Collection[Item]) -> None:
    """Write items as they are. A chunk that is there already is left as it is."""
    ws, version = advance(db, workspace_id)
    memories = {item.memory_id: item for item in items if isinstance(item, Memory)}
    for memory in memories.values():
        row = (ws, version, *memory_row(memory))
        (key,) = db.execute(sql.PUT_MEMORY, row).fetchone()
        db.execute(sql.ADOPT_CHUNKS, (key, ws, plain(memory.memory_id)))
    _load_chunks(db, ws, version, [item for item in items if isinstance(item, Chunk)], memories)
    put_entities(db, ws, version, (item for item in items if isinstance(item, Entity)))
    for item in items:
        if isinstance(item, Mention):
            found = db.execute(sql.CHUNK_KEY, (ws, plain(item.chunk_id))).fetchone()
            if found:
                db.execute(sql.PUT_MENTION, (ws, found[0], plain(item.entity_id)))
    put_relations(db, ws, (item for item in items if isinstance(item, Relation)))


def _load_chunks(
    db: sqlite3.Connection,
    ws: int,
    version: int,
    chunks: Sequence[Chunk],
    memories: dict[str, Memory],
) -> None:
    for chunk in chunks:
        if db.execute(sql.CHUNK_KEY, (ws, plain(chunk.chunk_id))).fetchone():
            continue
        owner = db.execute(sql.MEMORY_KEY, (ws, plain(chunk.memory_id))).fetchone()
        memory = memories.get(chunk.memory_id)
        heading = title(memory, chunk) if memory else plain(chunk.symbol)
        put_chunk(db, ws, version, owner[0] if owner else None, chunk=chunk, heading=heading)
