"""Records put together from what a store fetched in pieces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from marksweep.stores.graph.nouns import Chunk, Entity, Memory, Mention, Record, Relation

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
