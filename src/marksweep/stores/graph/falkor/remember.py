"""Writing and fetching memories."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from marksweep.stores.graph.base import Nodes
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection, Step
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
    words,
)


async def put(db: Connection, workspace_id: str, records: Sequence[Record]) -> None:
    """Write records, each in place of what its memory had."""
    memory_ids = [plain(record.memory.memory_id) for record in records]
    moved = [
        [plain(record.moved_from), plain(record.memory.memory_id)]
        for record in records
        if record.moved_from and record.moved_from != record.memory.memory_id
    ]
    replaced = [*memory_ids, *(old for old, _ in moved)]
    let_go = await db.read(workspace_id, cypher.MENTIONED_BY, ids=replaced)
    entities = {entity.entity_id: entity for record in records for entity in record.entities}
    steps: list[Step] = [
        (cypher.DROP_CHUNKS_OF, {"ids": replaced}),
        (cypher.DROP_RELATIONS_OF, {"ids": replaced}),
        (cypher.PUT_MEMORIES, {"rows": [memory_cells(record.memory) for record in records]}),
        (cypher.CARRY_OVER, {"rows": moved}),
        (cypher.DROP_MEMORIES, {"ids": [old for old, _ in moved]}),
        (
            cypher.PUT_CHUNKS,
            {"rows": [chunk_cells(c, title(r.memory, c)) for r in records for c in r.chunks]},
        ),
        (cypher.PUT_ENTITIES, {"rows": [entity_row(entity) for entity in entities.values()]}),
        (cypher.CREATE_MENTIONS, {"rows": mention_cells(m for r in records for m in r.mentions)}),
        (
            cypher.CREATE_RELATIONS,
            {"rows": relation_cells(link for r in records for link in r.relations)},
        ),
        (cypher.DROP_UNMENTIONED, {"ids": [row[0] for row in let_go]}),
    ]
    await db.write(workspace_id, *worthwhile(steps))


def worthwhile(steps: Iterable[Step]) -> list[Step]:
    """Leave out statements that have nothing to work on."""
    return [step for step in steps if step[1].get("rows") or step[1].get("ids")]


def memory_cells(memory: Memory) -> list[object]:
    """Lay out a memory, and behind its columns the list of its tags."""
    return [*memory_row(memory), [plain(tag) for tag in memory.tags]]


def chunk_cells(chunk: Chunk, heading: str) -> list[object]:
    """Lay out a chunk, and behind its columns the words to find it by."""
    return [*chunk_row(chunk), " ".join((*words(heading), *words(chunk.text)))]


def mention_cells(mentions: Iterable[Mention]) -> list[list[str]]:
    """Lay out mentions, each once."""
    return [[plain(m.chunk_id), plain(m.entity_id)] for m in dict.fromkeys(mentions)]


def relation_cells(relations: Iterable[Relation]) -> list[list[str]]:
    """Lay out relations, each once."""
    return [
        [plain(r.source_id), plain(r.target_id), plain(r.relation), plain(r.memory_id)]
        for r in dict.fromkeys(relations)
    ]


async def remove(db: Connection, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
    """Erase memories at once with what only they hold."""
    ids = [plain(each) for each in memory_ids]
    chunks = await db.read(workspace_id, cypher.CHUNKS_OF, ids=ids)
    let_go = await db.read(workspace_id, cypher.MENTIONED_BY, ids=ids)
    _, _, memories, entities = await db.write(
        workspace_id,
        (cypher.DROP_CHUNKS_OF, {"ids": ids}),
        (cypher.DROP_RELATIONS_OF, {"ids": ids}),
        (cypher.DROP_MEMORIES, {"ids": ids}),
        (cypher.DROP_UNMENTIONED, {"ids": [row[0] for row in let_go]}),
    )
    return Nodes(*(tuple(str(row[0]) for row in rows) for rows in (memories, chunks, entities)))


async def fetch(db: Connection, workspace_id: str, memory_ids: Sequence[str]) -> tuple[Record, ...]:
    """Put whole records together."""
    ids = [plain(each) for each in dict.fromkeys(memory_ids)]
    # At once, so that a busy server is waited for once and not three times.
    memory_rows, chunk_rows, relation_rows = await asyncio.gather(
        db.read(workspace_id, cypher.MEMORIES, ids=ids),
        db.read(workspace_id, cypher.CHUNKS_OF, ids=ids),
        db.read(workspace_id, cypher.RELATIONS_OF_MEMORIES, ids=ids),
    )
    memories = {str(row[0]): memory_of(workspace_id, row) for row in memory_rows}
    chunks: defaultdict[str, list[Chunk]] = defaultdict(list)
    for row in chunk_rows:
        chunk = chunk_of(workspace_id, row)
        chunks[chunk.memory_id].append(chunk)
    relations: defaultdict[str, list[Relation]] = defaultdict(list)
    for row in relation_rows:
        relations[str(row[3])].append(Relation(*map(str, row)))
    mentioned = await entities_of(
        db, workspace_id, [chunk.chunk_id for group in chunks.values() for chunk in group]
    )
    return tuple(
        _record(memories[each], chunks[each], relations[each], mentioned)
        for each in ids
        if each in memories
    )


def _record(
    memory: Memory,
    chunks: Sequence[Chunk],
    relations: Sequence[Relation],
    mentioned: dict[str, list[Entity]],
) -> Record:
    ordered = sorted(chunks, key=lambda chunk: (chunk.position, chunk.chunk_id))
    mentions = [(c.chunk_id, entity) for c in ordered for entity in mentioned.get(c.chunk_id, ())]
    return Record(
        memory=memory,
        chunks=tuple(ordered),
        entities=tuple(
            sorted({e.entity_id: e for _, e in mentions}.values(), key=lambda e: e.entity_id)
        ),
        mentions=tuple(Mention(chunk_id, entity.entity_id) for chunk_id, entity in mentions),
        relations=tuple(relations),
    )


async def entities_of(
    db: Connection, workspace_id: str, chunk_ids: Sequence[str]
) -> dict[str, list[Entity]]:
    """Fetch what chunks mention, by chunk."""
    found: defaultdict[str, list[Entity]] = defaultdict(list)
    if not chunk_ids:
        return {}
    for row in await db.read(workspace_id, cypher.ENTITIES_OF_CHUNKS, ids=list(chunk_ids)):
        found[str(row[0])].append(entity_of(workspace_id, row[1:]))
    return dict(found)


async def find(
    db: Connection, workspace_id: str, nodes: Nodes
) -> tuple[Memory | Chunk | Entity, ...]:
    """Fetch nodes by id."""
    found: list[Memory | Chunk | Entity] = []
    for kind, statement, read in (
        (Kind.MEMORY, cypher.MEMORIES, memory_of),
        (Kind.CHUNK, cypher.CHUNKS_BY_ID, chunk_of),
        (Kind.ENTITY, cypher.ENTITIES_BY_ID, entity_of),
    ):
        ids = [plain(each) for each in nodes.of(kind)]
        rows = await db.read(workspace_id, statement, ids=ids) if ids else []
        by_id = {str(row[0]): read(workspace_id, row) for row in rows}
        found += [by_id[each] for each in ids if each in by_id]
    return tuple(found)


async def neighbours(
    db: Connection, workspace_id: str, entity_ids: Sequence[str], limit: int
) -> tuple[Entity, ...]:
    """Fetch live entities one step away."""
    ids = [plain(each) for each in entity_ids]
    rows = await db.read(workspace_id, cypher.NEIGHBOURS, ids=ids, limit=limit)
    return tuple(entity_of(workspace_id, row) for row in rows)


async def merge(db: Connection, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
    """Move the edges of some entities to one."""
    known = await db.read(
        workspace_id, cypher.EXISTING_ENTITIES, ids=[plain(each) for each in (keep, *gone)]
    )
    found = {str(row[0]) for row in known}
    ids = sorted(found - {plain(keep)})
    if plain(keep) not in found or not ids:
        return 0
    given = {"keep": plain(keep), "ids": ids}
    await db.write(
        workspace_id,
        (cypher.MOVE_MENTIONS, given),
        (cypher.MOVE_RELATIONS_OUT, given),
        (cypher.MOVE_RELATIONS_IN, given),
        (cypher.DROP_ENTITIES, {"ids": ids}),
        (cypher.DROP_SELF_RELATIONS, {"keep": plain(keep)}),
        (cypher.RAISE_ENTITY, {"keep": plain(keep)}),
    )
    return len(ids)


async def pin(db: Connection, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
    """Pin memories."""
    given = {"ids": sorted({plain(each) for each in memory_ids}), "by": plain(by)}
    (rows,) = await db.write(workspace_id, (cypher.PIN, given))
    return len(rows)


async def unpin(db: Connection, workspace_id: str, memory_ids: Sequence[str]) -> int:
    """Take pins off."""
    given = {"ids": sorted({plain(each) for each in memory_ids})}
    (rows,) = await db.write(workspace_id, (cypher.UNPIN, given))
    return len(rows)


async def touch(db: Connection, workspace_id: str, memory_ids: Sequence[str], at: datetime) -> int:
    """Note that memories were read."""
    given = {"ids": sorted({plain(each) for each in memory_ids}), "at": micros(at)}
    (rows,) = await db.write(workspace_id, (cypher.TOUCH, given))
    return len(rows)
