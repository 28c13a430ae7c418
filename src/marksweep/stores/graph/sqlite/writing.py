"""Write and erase memories. Each function is all or part of one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from marksweep.stores.graph.base import Copy, Nodes, checked
from marksweep.stores.graph.nouns import (
    Chunk,
    Entity,
    Kind,
    Memory,
    Mention,
    Record,
    Relation,
    chunk_ids,
)
from marksweep.stores.graph.rows import (
    Cell,
    bare,
    chunk_row,
    entity_row,
    fields_of,
    memory_row,
    micros,
    plain,
    relation_row,
)
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import advance, key, mark, pick

Keys = dict[str, int]
"""Row keys by node id."""


class Placed(msgspec.Struct, frozen=True):
    """A chunk, its memory's key, and that memory if known."""

    chunk: Chunk
    memory_key: int | None
    memory: Memory | None
    words: str = ""


def put(db: sqlite3.Connection, workspace_id: str, records: Sequence[Record]) -> None:
    """Write records, each replacing what its memory had."""
    records = checked(workspace_id, records)
    ws, version = advance(db, workspace_id)
    memories: Keys = {}
    for record in records:
        row = (ws, version, *memory_row(record.memory))
        (memories[record.memory.memory_id],) = db.execute(sql.PUT_MEMORY, row).fetchone()
    let_go = _replace(db, ws, memories) | _move(db, ws, records)
    chunks = put_chunks(
        db,
        ws,
        version,
        [
            Placed(chunk, memories[record.memory.memory_id], record.memory, words)
            for record in records
            for chunk, words in record.found_by()
        ],
    )
    entities = put_entities(db, ws, version, (e for record in records for e in record.entities))
    put_mentions(db, ws, (m for record in records for m in record.mentions), chunks, entities)
    put_relations(db, ws, (r for record in records for r in record.relations), entities)
    settle(db, ws, version)
    drop_unmentioned(db, ws, let_go)


def _replace(db: sqlite3.Connection, ws: int, memories: Keys) -> set[int]:
    """Drop the chunks and relations that memories had; return the entities they mentioned."""
    key(db, memories.values())
    own = db.execute(sql.CHUNKS_OF_KEYS, (ws,)).fetchall()
    pick(db, map(plain, memories))
    orphans = db.execute(sql.ORPHANS_OF, (ws,)).fetchall()
    db.execute(sql.DROP_RELATIONS_OF, (ws,))
    return drop_chunks(db, ws, [chunk_key for chunk_key, _ in (*own, *orphans)])


def _move(db: sqlite3.Connection, ws: int, records: Sequence[Record]) -> set[int]:
    """Drop memories that moved to another path; return the entities they mentioned."""
    moved = [
        (plain(record.moved_from), plain(record.memory.memory_id))
        for record in records
        if record.moved_from and record.moved_from != record.memory.memory_id
    ]
    db.executemany(sql.CARRY_OVER, ((ws, old, new) for old, new in moved))
    return drop_memories(db, ws, keys(db, ws, Kind.MEMORY, (old for old, _ in moved)))[1]


def copy(db: sqlite3.Connection, workspace_id: str, copies: Sequence[Copy]) -> tuple[str, ...]:
    """Write memories with the chunks of others; the texts are shared."""
    ws, version = advance(db, workspace_id)
    pick(db, (plain(each.source) for each in copies))
    sources = {name: found for name, *found in db.execute(sql.COPYABLE, (ws,))}
    wanted = [
        (each.memory, plain(each.source))
        for each in copies
        if sources.get(plain(each.source), [0, ""])[1] == each.memory.content_hash
    ]
    memories: Keys = {}
    for memory, _ in wanted:
        row = (ws, version, *memory_row(memory))
        (memories[memory.memory_id],) = db.execute(sql.PUT_MEMORY, row).fetchone()
    let_go = _replace(db, ws, memories)
    (before,) = (last,) = db.execute(sql.LAST_CHUNK).fetchone()
    for memory, source in wanted:
        chunks = db.execute(sql.CHUNK_PLACES, (ws, sources[source][0])).fetchall()
        names = chunk_ids(memory.memory_id, (tuple(place) for _, *place in chunks))
        for (chunk, *_), name in zip(chunks, names, strict=True):
            last += 1
            db.execute(sql.COPY_CHUNK, (last, version, memories[memory.memory_id], name, chunk))
            db.execute(sql.COPY_MENTIONS, (ws, last, chunk))
        db.execute(sql.COPY_RELATIONS, (ws, plain(memory.memory_id), source))
    db.execute(sql.REVIVE_MENTIONED, (ws, version, before))
    drop_unmentioned(db, ws, let_go)
    return tuple(memories)


def put_chunks(db: sqlite3.Connection, ws: int, version: int, chunks: Sequence[Placed]) -> Keys:
    """Insert chunks with their texts and words."""
    (last,) = db.execute(sql.LAST_CHUNK).fetchone()
    own = mark(ws)
    rows, texts, lengths = [], [], []
    for number, placed in enumerate(chunks, last + 1):
        chunk_id, memory_id, *columns, text = chunk_row(placed.chunk)
        orphan_of = memory_id if placed.memory_key is None else ""
        last_part = bare(placed.chunk.symbol)
        rows.append(
            (number, ws, version, placed.memory_key, orphan_of, chunk_id, *columns, last_part)
        )
        found = fields_of(placed.memory, placed.chunk, own, placed.words)
        texts.append((number, text, *found))
        lengths.append((number, found.length))
    db.executemany(sql.PUT_CHUNK, rows)
    db.executemany(sql.PUT_CHUNK_TEXT, texts)
    db.execute(sql.PUT_CHUNK_WORDS, (last,))
    db.executemany(sql.PUT_LENGTH, lengths)
    db.execute(sql.COUNT_CHUNKS, (len(chunks), ws))
    return {placed.chunk.chunk_id: number for number, placed in enumerate(chunks, last + 1)}


def put_entities(db: sqlite3.Connection, ws: int, version: int, entities: Iterable[Entity]) -> Keys:
    """Write entities; existing ones become live again."""
    each = {entity.entity_id: entity for entity in entities}
    db.executemany(
        sql.PUT_ENTITY, ((ws, version, *entity_row(e), bare(e.name, e.kind)) for e in each.values())
    )
    return keys(db, ws, Kind.ENTITY, each)


def put_mentions(
    db: sqlite3.Connection, ws: int, mentions: Iterable[Mention], chunks: Keys, entities: Keys
) -> None:
    """Write mentions between existing nodes."""
    db.executemany(
        sql.PUT_MENTION,
        (
            (ws, chunks[m.chunk_id], entities[m.entity_id])
            for m in mentions
            if m.chunk_id in chunks and m.entity_id in entities
        ),
    )


def put_relations(
    db: sqlite3.Connection, ws: int, relations: Iterable[Relation], entities: Keys
) -> None:
    """Write relations between existing entities."""
    db.executemany(
        sql.PUT_RELATION,
        (
            (
                ws,
                entities[r.source_id],
                entities[r.target_id],
                *relation_row(r)[2:],
            )
            for r in relations
            if r.source_id in entities and r.target_id in entities
        ),
    )


def keys(db: sqlite3.Connection, ws: int, kind: Kind, ids: Iterable[str]) -> Keys:
    """Look up the keys of existing nodes."""
    given = {each: plain(each) for each in ids}
    pick(db, given.values())
    found = {node_id: node_key for node_key, node_id in db.execute(sql.KEYS[kind], (ws,))}
    return {each: found[stored] for each, stored in given.items() if stored in found}


def drop_chunks(db: sqlite3.Connection, ws: int, chunk_keys: Sequence[int]) -> set[int]:
    """Erase chunks; return the entities that they mentioned."""
    if not chunk_keys:
        return set()
    key(db, chunk_keys)
    mentioned = {entity for (entity,) in db.execute(sql.MENTIONED_BY, (ws,))}
    texts = [text for (text,) in db.execute(sql.TEXTS_OF)]
    db.execute(sql.DROP_MENTIONS_OF, (ws,))
    db.execute(sql.DROP_CHUNKS)
    key(db, texts)
    db.execute(sql.SPARE_SHARED)
    db.execute(sql.DROP_CHUNK_WORDS)
    db.execute(sql.DROP_LENGTHS)
    dropped = db.execute(sql.DROP_CHUNK_TEXTS).rowcount
    db.execute(sql.COUNT_CHUNKS, (-dropped, ws))
    return mentioned


def drop_memories(
    db: sqlite3.Connection, ws: int, memories: Keys
) -> tuple[tuple[str, ...], set[int]]:
    """Erase memories with their chunks; return the chunks and the entities they mentioned."""
    if not memories:
        return (), set()
    key(db, memories.values())
    chunks = db.execute(sql.CHUNKS_OF_KEYS, (ws,)).fetchall()
    mentioned = drop_chunks(db, ws, [chunk_key for chunk_key, _ in chunks])
    pick(db, map(plain, memories))
    db.execute(sql.DROP_RELATIONS_OF, (ws,))
    key(db, memories.values())
    db.execute(sql.DROP_MEMORIES)
    return tuple(chunk_id for _, chunk_id in chunks), mentioned


def drop_unmentioned(
    db: sqlite3.Connection, ws: int, entity_keys: Iterable[int]
) -> tuple[str, ...]:
    """Erase the given entities that no chunk mentions any more; return their ids."""
    key(db, entity_keys)
    gone = db.execute(sql.UNMENTIONED).fetchall()
    drop_entities(db, ws, [entity_key for entity_key, _ in gone])
    return tuple(sorted(entity_id for _, entity_id in gone))


def drop_entities(db: sqlite3.Connection, ws: int, entity_keys: Sequence[int]) -> None:
    """Erase entities and every edge that touches them."""
    if not entity_keys:
        return
    key(db, entity_keys)
    db.execute(sql.DROP_RELATIONS_FROM, (ws,))
    db.execute(sql.DROP_RELATIONS_TO)
    db.execute(sql.DROP_MENTIONS_TO)
    db.execute(sql.DROP_ENTITIES)


def remove(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
    """Erase memories immediately, with what only they hold."""
    ws, _ = advance(db, workspace_id)
    memories = keys(db, ws, Kind.MEMORY, memory_ids)
    chunks, mentioned = drop_memories(db, ws, memories)
    entities = drop_unmentioned(db, ws, mentioned)
    pick(db, entities)
    db.execute(sql.DROP_ALIASES, (ws,))
    return Nodes(tuple(memories), chunks, entities)


def merge(db: sqlite3.Connection, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
    """Make entities aliases of another, and move their edges to it."""
    ws, version = advance(db, workspace_id)
    pick(db, [plain(keep)])
    kept = db.execute(sql.ENTITIES_BY_ID, {"ws": ws}).fetchone()
    if kept is None:
        return 0
    merged = [each for each in keys(db, ws, Kind.ENTITY, gone) if each != keep]
    for entity_id in map(plain, merged):
        alias = (ws, entity_id, *kept[:3])
        db.execute(sql.PUT_ALIAS, alias)
        db.execute(sql.HAND_ALIASES_ON, alias)
    settle(db, ws, version)
    return len(merged)


def settle(db: sqlite3.Connection, ws: int, version: int) -> None:
    """Move the edges of entities written under an alias to the entity that the alias names."""
    for gone, keep, name, kind in db.execute(sql.UNSETTLED, (ws,)).fetchall():
        db.execute(sql.PUT_ENTITY, (ws, version, keep, name, kind, None, bare(name, kind)))
        (kept,) = keys(db, ws, Kind.ENTITY, [keep]).values()
        db.execute(sql.MOVE_MENTIONS, (kept, gone))
        db.execute(sql.MOVE_RELATIONS, (kept, gone, ws))
        drop_entities(db, ws, [gone])


def _mark(
    db: sqlite3.Connection,
    workspace_id: str,
    memory_ids: Sequence[str],
    statement: str,
    **given: Cell,
) -> int:
    """Set one property of memories; return how many exist."""
    ws, version = advance(db, workspace_id)
    pick(db, map(plain, memory_ids))
    return db.execute(statement, {"ws": ws, "version": version, **given}).rowcount


def pin(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
    """Pin memories."""
    return _mark(db, workspace_id, memory_ids, sql.PIN, by=plain(by))


def unpin(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]) -> int:
    """Remove pins."""
    return _mark(db, workspace_id, memory_ids, sql.UNPIN)


def supersede(
    db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str], by: str, at: datetime
) -> int:
    """Mark memories as no longer valid."""
    return _mark(db, workspace_id, memory_ids, sql.SUPERSEDE, by=plain(by), at=micros(at))


def touch(
    db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str], at: datetime
) -> int:
    """Record that memories were read."""
    return _mark(db, workspace_id, memory_ids, sql.TOUCH, at=micros(at))
