"""Writing and fetching memories. Each function is the body of one transaction."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from marksweep.stores.graph.base import Nodes
from marksweep.stores.graph.nouns import Chunk, Entity, Kind, Memory, Mention, Record, Relation
from marksweep.stores.graph.rows import (
    chunk_of,
    chunk_row,
    entity_of,
    entity_row,
    memory_of,
    memory_row,
    micros,
    plain,
    title,
)
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import advance, key, number, pick


def put(db: sqlite3.Connection, workspace_id: str, records: Sequence[Record]) -> None:
    """Write records, each in place of what its memory had."""
    ws, version = advance(db, workspace_id)
    let_go: set[int] = set()
    for record in records:
        let_go |= _put_one(db, ws, version, record)
    drop_unmentioned(db, ws, let_go)


def _put_one(db: sqlite3.Connection, ws: int, version: int, record: Record) -> set[int]:
    """Write one record; return the entities that its old chunks mentioned."""
    memory_id = plain(record.memory.memory_id)
    row = (ws, version, *memory_row(record.memory))
    (memory_key,) = db.execute(sql.PUT_MEMORY, row).fetchone()
    let_go = drop_chunks(db, ws, _chunk_keys(db, ws, memory_key, memory_id))
    db.execute(sql.DROP_RELATIONS_OF, (ws, memory_id))
    if record.moved_from and record.moved_from != record.memory.memory_id:
        db.execute(sql.CARRY_OVER, (ws, plain(record.moved_from), memory_id))
        pick(db, [plain(record.moved_from)])
        let_go |= drop_memories(db, ws, db.execute(sql.MEMORY_KEYS, (ws,)).fetchall())[1]
    keys = {
        chunk.chunk_id: put_chunk(
            db, ws, version, memory_key, chunk=chunk, heading=title(record.memory, chunk)
        )
        for chunk in record.chunks
    }
    put_entities(db, ws, version, record.entities)
    db.executemany(
        sql.PUT_MENTION, ((ws, keys[m.chunk_id], plain(m.entity_id)) for m in record.mentions)
    )
    put_relations(db, ws, record.relations)
    return let_go


def put_chunk(
    db: sqlite3.Connection,
    ws: int,
    version: int,
    memory_key: int | None,
    *,
    chunk: Chunk,
    heading: str,
) -> int:
    """Insert a chunk and its text; return its key."""
    chunk_id, memory_id, *columns, text = chunk_row(chunk)
    orphan_of = memory_id if memory_key is None else ""
    row = (ws, version, memory_key, orphan_of, chunk_id, *columns)
    (key,) = db.execute(sql.PUT_CHUNK, row).fetchone()
    db.execute(sql.PUT_CHUNK_TEXT, (key, heading, text))
    return int(key)


def put_entities(db: sqlite3.Connection, ws: int, version: int, entities: Iterable[Entity]) -> None:
    """Write entities; those that were there are live again."""
    db.executemany(sql.PUT_ENTITY, ((ws, version, *entity_row(entity)) for entity in entities))


def put_relations(db: sqlite3.Connection, ws: int, relations: Iterable[Relation]) -> None:
    """Write relations between entities that are there."""
    db.executemany(
        sql.PUT_RELATION,
        (
            (ws, plain(r.source_id), plain(r.target_id), plain(r.relation), plain(r.memory_id))
            for r in relations
        ),
    )


def _chunk_keys(db: sqlite3.Connection, ws: int, memory_key: int, memory_id: str) -> list[int]:
    key(db, [memory_key])
    own = db.execute(sql.CHUNKS_OF_KEYS, (ws,))
    orphaned = db.execute(sql.ORPHAN_KEYS_OF, (ws, memory_id))
    return [each for rows in (own, orphaned) for each, _ in rows]


def drop_chunks(db: sqlite3.Connection, ws: int, keys: Sequence[int]) -> set[int]:
    """Erase chunks; return the entities that they mentioned."""
    if not keys:
        return set()
    key(db, keys)
    mentioned = {entity for (entity,) in db.execute(sql.MENTIONED_BY, (ws,))}
    db.execute(sql.DROP_MENTIONS_OF, (ws,))
    db.execute(sql.DROP_CHUNK_TEXTS)
    db.execute(sql.DROP_CHUNKS)
    return mentioned


def drop_memories(
    db: sqlite3.Connection, ws: int, memories: Sequence[tuple[int, str]]
) -> tuple[tuple[str, ...], set[int]]:
    """Erase memories with their chunks; return these and the entities they mentioned."""
    keys = [memory_key for memory_key, _ in memories]
    key(db, keys)
    chunks = db.execute(sql.CHUNKS_OF_KEYS, (ws,)).fetchall()
    mentioned = drop_chunks(db, ws, [chunk_key for chunk_key, _ in chunks])
    db.executemany(sql.DROP_RELATIONS_OF, ((ws, memory_id) for _, memory_id in memories))
    key(db, keys)
    db.execute(sql.DROP_MEMORIES)
    return tuple(chunk_id for _, chunk_id in chunks), mentioned


def drop_unmentioned(
    db: sqlite3.Connection, ws: int, entity_keys: Iterable[int]
) -> tuple[str, ...]:
    """Erase those of the entities that no chunk mentions any more; return their ids."""
    key(db, entity_keys)
    gone = db.execute(sql.UNMENTIONED).fetchall()
    drop_entities(db, ws, [entity_key for entity_key, _ in gone])
    return tuple(sorted(entity_id for _, entity_id in gone))


def drop_entities(db: sqlite3.Connection, ws: int, keys: Sequence[int]) -> None:
    """Erase entities and every edge that touches them."""
    if not keys:
        return
    key(db, keys)
    db.execute(sql.DROP_RELATIONS_FROM, (ws,))
    db.execute(sql.DROP_RELATIONS_TO)
    db.execute(sql.DROP_MENTIONS_TO)
    db.execute(sql.DROP_ENTITIES)


def remove(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
    """Erase memories at once with what only they hold."""
    ws, _ = advance(db, workspace_id)
    pick(db, map(plain, memory_ids))
    memories = db.execute(sql.MEMORY_KEYS, (ws,)).fetchall()
    chunks, mentioned = drop_memories(db, ws, memories)
    return Nodes(
        tuple(memory_id for _, memory_id in memories),
        chunks,
        drop_unmentioned(db, ws, mentioned),
    )


def fetch(
    db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]
) -> tuple[Record, ...]:
    """Put whole records together."""
    ws = number(db, workspace_id)
    pick(db, map(plain, memory_ids))
    memories = {row[0]: memory_of(workspace_id, row) for row in db.execute(sql.MEMORIES, (ws,))}
    chunks: defaultdict[str, list[Chunk]] = defaultdict(list)
    for row in db.execute(sql.CHUNKS_OF_MEMORIES, (ws,)):
        chunk = chunk_of(workspace_id, row)
        chunks[chunk.memory_id].append(chunk)
    relations: defaultdict[str, list[Relation]] = defaultdict(list)
    for row in db.execute(sql.RELATIONS_OF_MEMORIES, (ws,)):
        relations[row[3]].append(Relation(*row))
    mentioned = entities_of(
        db, workspace_id, [chunk.chunk_id for group in chunks.values() for chunk in group]
    )
    ordered = (plain(each) for each in dict.fromkeys(memory_ids))
    return tuple(
        _record(memories[each], chunks[each], relations[each], mentioned)
        for each in ordered
        if each in memories
    )


def _record(
    memory: Memory,
    chunks: Sequence[Chunk],
    relations: Sequence[Relation],
    mentioned: dict[str, list[Entity]],
) -> Record:
    mentions = [(c.chunk_id, entity) for c in chunks for entity in mentioned.get(c.chunk_id, ())]
    return Record(
        memory=memory,
        chunks=tuple(chunks),
        entities=tuple(
            sorted({e.entity_id: e for _, e in mentions}.values(), key=lambda e: e.entity_id)
        ),
        mentions=tuple(Mention(chunk_id, entity.entity_id) for chunk_id, entity in mentions),
        relations=tuple(relations),
    )


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
    db: sqlite3.Connection, workspace_id: str, entity_ids: Sequence[str], limit: int
) -> tuple[Entity, ...]:
    """Fetch live entities one step away."""
    pick(db, map(plain, entity_ids))
    rows = db.execute(sql.NEIGHBOURS, (number(db, workspace_id), limit))
    return tuple(entity_of(workspace_id, row) for row in rows)


def entities(db: sqlite3.Connection, workspace_id: str) -> tuple[Entity, ...]:
    """Fetch every live entity."""
    rows = db.execute(sql.LIVE_ENTITIES, (number(db, workspace_id),))
    return tuple(entity_of(workspace_id, row) for row in rows)


def merge(db: sqlite3.Connection, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
    """Move the edges of some entities to one."""
    ws, version = advance(db, workspace_id)
    kept = db.execute(sql.ENTITY_KEY, (ws, plain(keep))).fetchone()
    if kept is None:
        return 0
    merged = 0
    for entity_id in map(plain, gone):
        row = db.execute(sql.ENTITY_KEY, (ws, entity_id)).fetchone()
        if row is not None and row != kept:
            db.execute(sql.MOVE_MENTIONS, (kept[0], row[0]))
            db.execute(sql.MOVE_RELATIONS, (kept[0], row[0], ws))
            drop_entities(db, ws, [row[0]])
            merged += 1
    db.execute(sql.DROP_SELF_RELATIONS, (ws, kept[0]))
    db.execute(sql.RAISE_ENTITY, (version, kept[0]))
    return merged


def pin(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
    """Pin memories."""
    ws, version = advance(db, workspace_id)
    pick(db, map(plain, memory_ids))
    return db.execute(sql.PIN, {"ws": ws, "version": version, "by": plain(by)}).rowcount


def unpin(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]) -> int:
    """Take pins off."""
    ws, version = advance(db, workspace_id)
    pick(db, map(plain, memory_ids))
    return db.execute(sql.UNPIN, {"ws": ws, "version": version}).rowcount


def touch(
    db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str], at: datetime
) -> int:
    """Note that memories were read."""
    ws, version = advance(db, workspace_id)
    pick(db, map(plain, memory_ids))
    return db.execute(sql.TOUCH, {"ws": ws, "version": version, "at": micros(at)}).rowcount
