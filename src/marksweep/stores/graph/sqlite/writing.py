"""Write and erase memories. Each function is all or part of one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain

import msgspec

from marksweep.stores.codec import microseconds
from marksweep.stores.graph.base import Copy, Nodes, checked
from marksweep.stores.graph.nouns import (
    Alias,
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
    bare,
    chunk_row,
    entity_row,
    fields_of,
    memory_row,
    plain,
    relation_row,
)
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import Change, Keys, mark


class Placed(msgspec.Struct, frozen=True):
    """A chunk, its memory's key, and that memory if known."""

    chunk: Chunk
    memory_key: int | None
    memory: Memory | None
    words: str = ""


def put(db: sqlite3.Connection, workspace_id: str, records: Sequence[Record]) -> None:
    """Write records, each replacing what its memory had."""
    records = checked(workspace_id, records)
    change = Change(db, workspace_id)
    memories = put_memories(change, (record.memory for record in records))
    for record in records:
        if record.replaces:
            by, at = plain(record.memory.memory_id), microseconds(record.memory.created_at)
            change.run(sql.SUPERSEDE, ids=record.replaces, by=by, at=at)
    placed = [
        Placed(chunk, memories[record.memory.memory_id], record.memory, words)
        for record in records
        for chunk, words in record.found_by()
    ]
    let_go = _replace(change, memories, [each.chunk.chunk_id for each in placed])
    let_go |= _move(change, records)
    chunks = put_chunks(change, placed)
    entities = put_entities(change, (e for record in records for e in record.entities))
    put_mentions(change, (m for record in records for m in record.mentions), chunks, entities)
    put_relations(change, (r for record in records for r in record.relations), entities)
    settle(change)
    _drop_unmentioned(change, let_go)


def put_memories(change: Change, memories: Iterable[Memory]) -> Keys:
    """Write memories; existing ones keep their creation and read times and their pin."""
    keys: Keys = {}
    for memory in memories:
        row = (change.ws, change.version, *memory_row(memory))
        (keys[memory.memory_id],) = change.db.execute(sql.PUT_MEMORY, row).fetchone()
    return keys


def _replace(change: Change, memories: Keys, chunk_ids: Iterable[str]) -> set[int]:
    """Drop the chunks and relations that memories had; return the entities they mentioned.

    A rebuilt file may have lost which memory a chunk belongs to: `chunk_ids` are also replaced.
    """
    own = change.run(sql.CHUNKS_OF_KEYS, keys=memories.values()).fetchall()
    orphans = change.run(sql.ORPHANS_OF, ids=memories).fetchall()
    same = change.run(sql.KEYS[Kind.CHUNK], ids=chunk_ids).fetchall()
    change.run(sql.DROP_RELATIONS_OF, ids=memories)
    return drop_chunks(change, [*dict.fromkeys(key for key, _ in (*own, *orphans, *same))])


def _move(change: Change, records: Sequence[Record]) -> set[int]:
    """Drop memories that moved to another path; return the entities they mentioned."""
    moved = [
        (record.moved_from, record.memory.memory_id)
        for record in records
        if record.moved_from and record.moved_from != record.memory.memory_id
    ]
    for old, new in moved:
        change.run(sql.CARRY_OVER, old=plain(old), new=plain(new))
    return drop_memories(change, change.keys(Kind.MEMORY, (old for old, _ in moved)))[1]


def copy(db: sqlite3.Connection, workspace_id: str, copies: Sequence[Copy]) -> tuple[str, ...]:
    """Write memories with the chunks of others; the texts are shared."""
    change = Change(db, workspace_id)
    found = change.run(sql.COPYABLE, ids=(each.source for each in copies))
    sources = {name: (key, content_hash) for name, key, content_hash in found}
    wanted = [
        (each.memory, plain(each.source))
        for each in copies
        if sources.get(plain(each.source), (0, ""))[1] == each.memory.content_hash
    ]
    memories = put_memories(change, (memory for memory, _ in wanted))
    places = {
        source: change.run(sql.CHUNK_PLACES, memory=sources[source][0]).fetchall()
        for _, source in wanted
    }
    named = {
        memory.memory_id: [
            *chunk_ids(memory.memory_id, (tuple(place) for _, *place in places[source]))
        ]
        for memory, source in wanted
    }
    let_go = _replace(change, memories, chain.from_iterable(named.values()))
    (before,) = (last,) = change.run(sql.LAST_CHUNK).fetchone()
    for memory, source in wanted:
        made = memories[memory.memory_id]
        for (chunk, *_), name in zip(places[source], named[memory.memory_id], strict=True):
            last += 1
            change.run(sql.COPY_CHUNK, key=last, memory=made, id=name, source=chunk)
            change.run(sql.COPY_MENTIONS, key=last, source=chunk)
        change.run(sql.COPY_RELATIONS, memory=plain(memory.memory_id), source=source)
    change.run(sql.REVIVE_MENTIONED, after=before)
    _drop_unmentioned(change, let_go)
    return tuple(memories)


def put_chunks(change: Change, chunks: Sequence[Placed]) -> Keys:
    """Insert chunks with their texts and words."""
    db, ws = change.db, change.ws
    (last,) = db.execute(sql.LAST_CHUNK).fetchone()
    own = mark(ws)
    rows, texts, lengths = [], [], []
    for number, placed in enumerate(chunks, last + 1):
        chunk_id, memory_id, *columns, text = chunk_row(placed.chunk)
        orphan_of = memory_id if placed.memory_key is None else ""
        place = (number, ws, change.version, placed.memory_key, orphan_of)
        rows.append((*place, chunk_id, *columns, bare(placed.chunk.symbol)))
        found = fields_of(placed.memory, placed.chunk, own, placed.words)
        texts.append((number, text, *found))
        lengths.append((number, found.length))
    db.executemany(sql.PUT_CHUNK, rows)
    db.executemany(sql.PUT_CHUNK_TEXT, texts)
    db.execute(sql.PUT_CHUNK_WORDS, (last,))
    db.executemany(sql.PUT_LENGTH, lengths)
    change.run(sql.COUNT_CHUNKS, more=len(chunks))
    return {placed.chunk.chunk_id: number for number, placed in enumerate(chunks, last + 1)}


def put_entities(change: Change, entities: Iterable[Entity]) -> Keys:
    """Write entities; existing ones become live again."""
    each = {entity.entity_id: entity for entity in entities}
    place = (change.ws, change.version)
    rows = ((*place, *entity_row(e), bare(e.name, e.kind)) for e in each.values())
    change.db.executemany(sql.PUT_ENTITY, rows)
    return change.keys(Kind.ENTITY, each)


def put_mentions(change: Change, mentions: Iterable[Mention], chunks: Keys, entities: Keys) -> None:
    """Write mentions between existing nodes."""
    rows = (
        (change.ws, chunks[m.chunk_id], entities[m.entity_id])
        for m in mentions
        if m.chunk_id in chunks and m.entity_id in entities
    )
    change.db.executemany(sql.PUT_MENTION, rows)


def put_relations(change: Change, relations: Iterable[Relation], entities: Keys) -> None:
    """Write relations between existing entities."""
    rows = (
        (change.ws, entities[r.source_id], entities[r.target_id], *relation_row(r)[2:])
        for r in relations
        if r.source_id in entities and r.target_id in entities
    )
    change.db.executemany(sql.PUT_RELATION, rows)


def put_aliases(change: Change, aliases: Iterable[Alias]) -> None:
    """Write aliases."""
    for alias in aliases:
        keep, name = plain(alias.keep_id), plain(alias.name)
        change.run(sql.PUT_ALIAS, id=plain(alias.entity_id), keep=keep, name=name, type=alias.kind)


def drop_chunks(change: Change, chunk_keys: Sequence[int]) -> set[int]:
    """Erase chunks; return the entities that they mentioned."""
    if not chunk_keys:
        return set()
    mentioned = {entity for (entity,) in change.run(sql.MENTIONED_BY, keys=chunk_keys)}
    texts = [text for (text,) in change.run(sql.TEXTS_OF, keys=chunk_keys)]
    change.run(sql.DROP_MENTIONS_OF, keys=chunk_keys)
    change.run(sql.DROP_CHUNKS, keys=chunk_keys)
    unused = [text for (text,) in change.run(sql.UNUSED_TEXTS, keys=texts)]
    for statement in (sql.DROP_CHUNK_WORDS, sql.DROP_LENGTHS, sql.DROP_CHUNK_TEXTS):
        change.run(statement, keys=unused)
    change.run(sql.COUNT_CHUNKS, more=-len(unused))
    return mentioned


def drop_memories(change: Change, memories: Keys) -> tuple[tuple[str, ...], set[int]]:
    """Erase memories with their chunks; return the chunks and the entities they mentioned."""
    if not memories:
        return (), set()
    chunks = change.run(sql.CHUNKS_OF_KEYS, keys=memories.values()).fetchall()
    mentioned = drop_chunks(change, [chunk_key for chunk_key, _ in chunks])
    change.run(sql.DROP_RELATIONS_OF, ids=memories)
    change.run(sql.DROP_MEMORIES, keys=memories.values())
    return tuple(chunk_id for _, chunk_id in chunks), mentioned


def _drop_unmentioned(change: Change, entity_keys: Iterable[int]) -> tuple[str, ...]:
    """Erase the given entities that no chunk mentions any more; return their ids."""
    gone = change.run(sql.UNMENTIONED, keys=entity_keys).fetchall()
    drop_entities(change, [entity_key for entity_key, _ in gone])
    return tuple(sorted(entity_id for _, entity_id in gone))


def drop_entities(change: Change, entity_keys: Sequence[int]) -> None:
    """Erase entities and every edge that touches them."""
    if entity_keys:
        for statement in sql.DROP_ENTITIES:
            change.run(statement, keys=entity_keys)


def remove(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
    """Erase memories immediately, with what only they hold."""
    change = Change(db, workspace_id)
    memories = change.keys(Kind.MEMORY, memory_ids)
    chunks, mentioned = drop_memories(change, memories)
    entities = _drop_unmentioned(change, mentioned)
    change.run(sql.DROP_ALIASES, ids=entities)
    return Nodes(tuple(memories), chunks, entities)


def merge(db: sqlite3.Connection, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
    """Make entities aliases of another, and move their edges to it."""
    change = Change(db, workspace_id)
    kept = change.run(sql.ENTITIES_BY_ID, ids=[keep]).fetchone()
    if kept is None:
        return 0
    merged = [each for each in change.keys(Kind.ENTITY, gone) if each != keep]
    for entity_id in map(plain, merged):
        alias = {"id": entity_id, "keep": kept[0], "name": kept[1], "type": kept[2]}
        change.run(sql.PUT_ALIAS, **alias)
        change.run(sql.HAND_ALIASES_ON, **alias)
    settle(change)
    return len(merged)


def settle(change: Change) -> None:
    """Move the edges of entities written under an alias to the entity that the alias names."""
    for gone, keep, name, kind in change.run(sql.UNSETTLED).fetchall():
        row = (change.ws, change.version, keep, name, kind, None, bare(name, kind))
        change.db.execute(sql.PUT_ENTITY, row)
        (kept,) = change.keys(Kind.ENTITY, [keep]).values()
        change.run(sql.MOVE_MENTIONS, kept=kept, gone=gone)
        change.run(sql.MOVE_RELATIONS, kept=kept, gone=gone)
        drop_entities(change, [gone])


def pin(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
    """Pin memories."""
    return Change(db, workspace_id).run(sql.PIN, ids=memory_ids, by=plain(by)).rowcount


def unpin(db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str]) -> int:
    """Remove pins."""
    return Change(db, workspace_id).run(sql.UNPIN, ids=memory_ids).rowcount


def touch(
    db: sqlite3.Connection, workspace_id: str, memory_ids: Sequence[str], at: datetime
) -> int:
    """Record that memories were read."""
    return Change(db, workspace_id).run(sql.TOUCH, ids=memory_ids, at=microseconds(at)).rowcount
