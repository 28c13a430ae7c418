"""Records and hits put together from what a store fetched in pieces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from marksweep.stores.graph.base import GraphHit
from marksweep.stores.graph.nouns import Chunk, Entity, Memory, Mention, Record, Relation
from marksweep.stores.graph.rows import CHUNK_COLUMNS, MEMORY_COLUMNS, Row, chunk_of, memory_of

WIDTH = len(MEMORY_COLUMNS)
"""Where the chunk begins in a row of a hit: memory, chunk, score."""
END = WIDTH + len(CHUNK_COLUMNS)
"""Where the score is."""

Mentioned = Mapping[str, Sequence[Entity]]
"""What chunks mention, by chunk id."""


def records(
    wanted: Iterable[str],
    memories: Mapping[str, Memory],
    chunks: Iterable[Chunk],
    relations: Iterable[Relation],
    mentioned: Mentioned,
) -> tuple[Record, ...]:
    """Make a record of each memory that was wanted and is there, in that order."""
    chunks_of: defaultdict[str, list[Chunk]] = defaultdict(list)
    for chunk in sorted(chunks, key=lambda chunk: (chunk.position, chunk.chunk_id)):
        chunks_of[chunk.memory_id].append(chunk)
    relations_of: defaultdict[str, list[Relation]] = defaultdict(list)
    for relation in relations:
        relations_of[relation.memory_id].append(relation)
    return tuple(
        _record(memories[each], chunks_of[each], relations_of[each], mentioned)
        for each in wanted
        if each in memories
    )


def _record(
    memory: Memory, chunks: Sequence[Chunk], relations: Sequence[Relation], mentioned: Mentioned
) -> Record:
    mentions = [(c.chunk_id, entity) for c in chunks for entity in mentioned.get(c.chunk_id, ())]
    entities = {entity.entity_id: entity for _, entity in mentions}
    return Record(
        memory=memory,
        chunks=tuple(chunks),
        entities=tuple(entities[each] for each in sorted(entities)),
        mentions=tuple(Mention(chunk_id, entity.entity_id) for chunk_id, entity in mentions),
        relations=tuple(relations),
    )


def hits(workspace_id: str, rows: Iterable[Row], mentioned: Mentioned) -> tuple[GraphHit, ...]:
    """Make a hit of each row, with the live entities that its chunk mentions."""
    return tuple(
        GraphHit(
            memory=memory_of(workspace_id, row[:WIDTH]),
            chunk=chunk_of(workspace_id, row[WIDTH:END]),
            score=float(row[END] or 0.0),
            entities=tuple(e for e in mentioned.get(str(row[WIDTH]), ()) if e.deleted_at is None),
        )
        for row in rows
    )
