"""Fetching what is remembered. Each function is the body of one transaction."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

from marksweep.stores.graph.base import Nodes
from marksweep.stores.graph.nouns import Chunk, Entity, Kind, Memory, Record, Relation
from marksweep.stores.graph.rows import chunk_of, entity_of, memory_of, plain, records
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import number, pick


def fetch(
    db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]
) -> tuple[Record, ...]:
    """Put whole records together."""
    ws = number(db, workspace_id)
    ids = [plain(each) for each in dict.fromkeys(memory_ids)]
    pick(db, ids)
    memories = {row[0]: memory_of(workspace_id, row) for row in db.execute(sql.MEMORIES, (ws,))}
    chunks = [chunk_of(workspace_id, row) for row in db.execute(sql.CHUNKS_OF_MEMORIES, (ws,))]
    relations = [Relation(*row) for row in db.execute(sql.RELATIONS_OF_MEMORIES, (ws,))]
    mentioned = entities_of(db, workspace_id, [chunk.chunk_id for chunk in chunks])
    return records(ids, memories, chunks, relations, mentioned)


def entities_of(
    db: sqlite3.Connection, workspace_id: str, chunk_ids: Sequence[str]
) -> dict[str, list[Entity]]:
    """Fetch what chunks mention, by chunk."""
    pick(db, chunk_ids)
    found: defaultdict[str, list[Entity]] = defaultdict(list)
    for chunk_id, *row in db.execute(sql.ENTITIES_OF_CHUNKS, (number(db, workspace_id),)):
        found[chunk_id].append(entity_of(workspace_id, tuple(row)))
    return dict(found)


def find(
    db: sqlite3.Connection, workspace_id: str, nodes: Nodes
) -> tuple[Memory | Chunk | Entity, ...]:
    """Fetch nodes by id."""
    ws = number(db, workspace_id)
    found: list[Memory | Chunk | Entity] = []
    for kind, statement, read in (
        (Kind.MEMORY, sql.MEMORIES, memory_of),
        (Kind.CHUNK, sql.CHUNKS_BY_ID, chunk_of),
        (Kind.ENTITY, sql.ENTITIES_BY_ID, entity_of),
    ):
        pick(db, map(plain, nodes.of(kind)))
        by_id = {row[0]: read(workspace_id, row) for row in db.execute(statement, (ws,))}
        found += [by_id[each] for each in map(plain, nodes.of(kind)) if each in by_id]
    return tuple(found)


def neighbours(
    db: sqlite3.Connection, workspace_id: str, entity_ids: Sequence[str], limit: int = 20
) -> tuple[Entity, ...]:
    """Fetch live entities one step away."""
    pick(db, map(plain, entity_ids))
    rows = db.execute(sql.NEIGHBOURS, (number(db, workspace_id), limit))
    return tuple(entity_of(workspace_id, row) for row in rows)


def entities(db: sqlite3.Connection, workspace_id: str) -> tuple[Entity, ...]:
    """Fetch every live entity."""
    rows = db.execute(sql.LIVE_ENTITIES, (number(db, workspace_id),))
    return tuple(entity_of(workspace_id, row) for row in rows)
