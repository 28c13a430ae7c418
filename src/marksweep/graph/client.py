"""The calls of a plain graph client, under the names that integrations use.

They use the same survey, rules and soft deletion as `KnowledgeGraph`: what they delete can be
restored within the grace period. The indexer does not use `mark_code_memories_stale`; it stamps
what it sees and marks the rest stale at the end of a complete run.
"""

from __future__ import annotations

import sys
from typing import TypedDict

from marksweep.graph.memory import GraphMemory, in_thread
from marksweep.graph.roots import code_of
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import planned
from marksweep.stores.graph.base import Nodes, Seen
from marksweep.stores.graph.nouns import CODE_INDEXER, Chunk, Entity, Memory


class StaleMemory(TypedDict):
    """A stale memory, as previews show it."""

    memory_id: str
    file_path: str
    relative_path: str
    created_at: str
    lines: int
    chunk_count: int


class StalePreview(TypedDict):
    """How many memories are stale, and the first of them."""

    memory_count: int
    chunk_count: int
    preview: list[StaleMemory]


class DeletedCounts(TypedDict):
    """How many nodes were deleted."""

    deleted_memories: int
    deleted_chunks: int


class OrphanedChunk(TypedDict):
    """A chunk that belongs to no memory."""

    chunk_id: str
    workspace_id: str
    text_length: int


class OrphanedEntity(TypedDict):
    """An entity that nothing mentions."""

    entity_id: str
    name: str
    type: str


class GraphClient:
    """A `KnowledgeGraph` under the client's names."""

    def __init__(self, memory: GraphMemory) -> None:
        self._memory = memory.sync
        self._graph = memory.graph

    @in_thread
    def mark_code_memories_stale(self, workspace_id: str) -> int:
        """Mark every code memory stale; count those that were not.

        Pruning would delete each of them until it is marked fresh again.
        """
        rows = code_of(self._graph.survey_memories(workspace_id).memories)
        return self._graph.mark_stale(
            workspace_id, [row.memory_id for row in rows if not row.stale]
        )

    @in_thread
    def mark_memory_fresh(self, file_path: str, workspace_id: str) -> str | None:
        """Mark the memory of a file fresh; None if there is none."""
        name = self._graph.file_at(workspace_id, file_path)
        for memory in self._graph.find(workspace_id, Nodes(memories=(name,))) if name else ():
            if isinstance(memory, Memory):
                seen = Seen(memory.memory_id, memory.size, memory.mtime_ns)
                self._graph.stamp(workspace_id, memory.run, [seen], self._memory.now())
        return name

    @in_thread
    def count_stale_memories(self, workspace_id: str) -> int:
        """Count the stale memories."""
        return self._graph.counts(workspace_id).stale

    @in_thread
    def get_stale_memories_preview(
        self, workspace_id: str, source: str | None = None, limit: int = 20
    ) -> StalePreview:
        """Show what pruning stale memories would delete, newest first."""
        if source not in (None, CODE_INDEXER):
            return {"memory_count": 0, "chunk_count": 0, "preview": []}
        stale = PruneStrategy.STALE_CODE
        preview = self._memory.plan(workspace_id, stale, limit=sys.maxsize, preview=limit)
        nodes = planned(preview.plan)
        return {
            "memory_count": len(nodes.memories),
            "chunk_count": len(nodes.chunks),
            "preview": [
                {
                    "memory_id": row.memory_id,
                    "file_path": row.file_path,
                    "relative_path": row.relative_path,
                    "created_at": row.created_at.isoformat(),
                    "lines": row.lines,
                    "chunk_count": row.chunk_count,
                }
                for row in preview.rows
            ],
        }

    @in_thread
    def delete_stale_memories(
        self, workspace_id: str, source: str | None = None, *, limit: int | None = None
    ) -> DeletedCounts:
        """Delete stale memories and their chunks, within the cap, or up to `limit` nodes."""
        if source not in (None, CODE_INDEXER):
            return {"deleted_memories": 0, "deleted_chunks": 0}
        done = self._delete(workspace_id, PruneStrategy.STALE_CODE, limit)
        return {"deleted_memories": len(done.memories), "deleted_chunks": len(done.chunks)}

    @in_thread
    def get_orphaned_chunks(self, workspace_id: str, limit: int = 20) -> list[OrphanedChunk]:
        """Find chunks that belong to no memory."""
        nodes = self._named(workspace_id, PruneStrategy.ORPHANED_CHUNKS)
        found = self._graph.find(workspace_id, Nodes(chunks=nodes.chunks[:limit]))
        return [
            {
                "chunk_id": chunk.chunk_id,
                "workspace_id": workspace_id,
                "text_length": len(chunk.text),
            }
            for chunk in found
            if isinstance(chunk, Chunk)
        ]

    @in_thread
    def get_orphaned_entities(self, workspace_id: str, limit: int = 20) -> list[OrphanedEntity]:
        """Find entities that no chunk of a memory mentions, islands included."""
        nodes = self._named(workspace_id, PruneStrategy.ORPHANED_ENTITIES)
        found = self._graph.find(workspace_id, Nodes(entities=nodes.entities[:limit]))
        return [
            {"entity_id": entity.entity_id, "name": entity.name, "type": entity.kind}
            for entity in found
            if isinstance(entity, Entity)
        ]

    @in_thread
    def delete_orphaned_chunks(self, workspace_id: str, *, limit: int | None = None) -> int:
        """Delete chunks that belong to no memory, within the cap, or up to `limit`."""
        return len(self._delete(workspace_id, PruneStrategy.ORPHANED_CHUNKS, limit).chunks)

    @in_thread
    def delete_orphaned_entities(self, workspace_id: str, *, limit: int | None = None) -> int:
        """Delete entities that no chunk of a memory mentions, within the cap, or up to `limit`."""
        return len(self._delete(workspace_id, PruneStrategy.ORPHANED_ENTITIES, limit).entities)

    def _named(self, workspace_id: str, strategy: PruneStrategy) -> Nodes:
        return planned(self._memory.plan(workspace_id, strategy, limit=sys.maxsize).plan)

    def _delete(self, workspace_id: str, strategy: PruneStrategy, limit: int | None) -> Nodes:
        """Plan and apply."""
        plan = self._memory.plan(workspace_id, strategy, limit=limit).plan
        return self._memory.collect(plan, limit=limit).deleted
