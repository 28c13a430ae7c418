"""Fetch memories. Each function is the body of one transaction."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

from marksweep.stores.graph.base import Definition, Link, LinkQuery, Nodes
from marksweep.stores.graph.nouns import Chunk, Entity, Kind, Memory, Record
from marksweep.stores.graph.rows import (
    chunk_of,
    defined,
    entity_of,
    is_asked,
    last_parts,
    links_of,
    memory_of,
    plain,
    records,
    relation_of,
)
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import key, number, pick


def fetch(
    db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]
) -> tuple[Record, ...]:
    """Assemble whole records."""
    ws = number(db, workspace_id)
    ids = [plain(each) for each in dict.fromkeys(memory_ids)]
    pick(db, ids)
    memories = {row[0]: memory_of(workspace_id, row) for row in db.execute(sql.MEMORIES, (ws,))}
    chunks = [chunk_of(workspace_id, row) for row in db.execute(sql.CHUNKS_OF_MEMORIES, (ws,))]
    relations = [relation_of(row) for row in db.execute(sql.RELATIONS_OF_MEMORIES, (ws,))]
    mentioned = entities_of(db, workspace_id, [chunk.chunk_id for chunk in chunks])
    return records(ids, memories, chunks, relations, mentioned)


def entities_of(
    db: sqlite3.Connection, workspace_id: str, chunk_ids: Sequence[str]
) -> dict[str, list[Entity]]:
    """Fetch the entities that chunks mention, by chunk id."""
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


def links(
    db: sqlite3.Connection, workspace_id: str, names: Sequence[str], query: LinkQuery
) -> tuple[Link, ...]:
    """Fetch relations to, or from, entities with these names."""
    ws = number(db, workspace_id)
    asked = {plain(each) for each in names}
    pick(db, last_parts(asked))
    found = db.execute(sql.ENTITIES_BY_LAST_PART, (ws,)).fetchall()
    key(db, [each for each, name, last in found if is_asked(name, last, asked, query)])
    given = {"ws": ws, "relation": plain(query.relation), "limit": query.limit}
    rows = db.execute(sql.LINKS_TO if query.to_name else sql.LINKS_FROM, given)
    return links_of(rows)


def definitions(
    db: sqlite3.Connection, workspace_id: str, names: Sequence[str], limit: int
) -> tuple[Definition, ...]:
    """Fetch where symbols with these names are defined."""
    asked = {plain(each) for each in names}
    pick(db, last_parts(asked))
    rows = db.execute(sql.DEFINITIONS, {"ws": number(db, workspace_id)})
    return defined((Definition(*row) for row in rows), asked, limit)


def entities(db: sqlite3.Connection, workspace_id: str) -> tuple[Entity, ...]:
    """Fetch every live entity."""
    rows = db.execute(sql.LIVE_ENTITIES, (number(db, workspace_id),))
    return tuple(entity_of(workspace_id, row) for row in rows)
