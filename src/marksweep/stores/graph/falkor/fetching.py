"""Fetching what is remembered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from marksweep.stores.graph.base import Nodes
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.nouns import Chunk, Entity, Kind, Memory, Record, Relation
from marksweep.stores.graph.rows import Row, chunk_of, entity_of, memory_of, plain, records


def fetch(db: Connection, workspace_id: str, memory_ids: Sequence[str]) -> tuple[Record, ...]:
    """Put whole records together."""
    ids = [plain(each) for each in dict.fromkeys(memory_ids)]
    memory_rows, chunk_rows, relation_rows, entity_rows = db.read_all(
        workspace_id,
        (
            cypher.MEMORIES,
            cypher.CHUNKS_OF,
            cypher.RELATIONS_OF_MEMORIES,
            cypher.ENTITIES_OF_MEMORIES,
        ),
        {"ids": ids},
    )
    memories = {str(row[0]): memory_of(workspace_id, row) for row in memory_rows}
    chunks = [chunk_of(workspace_id, row) for row in chunk_rows]
    relations = [Relation(*map(str, row)) for row in relation_rows]
    mentioned = _by_chunk(workspace_id, entity_rows)
    return records(ids, memories, chunks, relations, mentioned)


def entities_of(
    db: Connection, workspace_id: str, chunk_ids: Sequence[str]
) -> dict[str, list[Entity]]:
    """Fetch what chunks mention, by chunk."""
    if not chunk_ids:
        return {}
    rows = db.read(workspace_id, cypher.ENTITIES_OF_CHUNKS, ids=list(chunk_ids))
    return _by_chunk(workspace_id, rows)


def _by_chunk(workspace_id: str, rows: Iterable[Row]) -> dict[str, list[Entity]]:
    found: defaultdict[str, list[Entity]] = defaultdict(list)
    for row in rows:
        found[str(row[0])].append(entity_of(workspace_id, row[1:]))
    return dict(found)


def find(db: Connection, workspace_id: str, nodes: Nodes) -> tuple[Memory | Chunk | Entity, ...]:
    """Fetch nodes by id."""
    found: list[Memory | Chunk | Entity] = []
    for kind, statement, read in (
        (Kind.MEMORY, cypher.MEMORIES, memory_of),
        (Kind.CHUNK, cypher.CHUNKS_BY_ID, chunk_of),
        (Kind.ENTITY, cypher.ENTITIES_BY_ID, entity_of),
    ):
        ids = [plain(each) for each in nodes.of(kind)]
        rows = db.read(workspace_id, statement, ids=ids) if ids else []
        by_id = {str(row[0]): read(workspace_id, row) for row in rows}
        found += [by_id[each] for each in ids if each in by_id]
    return tuple(found)


def neighbours(
    db: Connection, workspace_id: str, entity_ids: Sequence[str], limit: int = 20
) -> tuple[Entity, ...]:
    """Fetch live entities one step away."""
    ids = [plain(each) for each in entity_ids]
    rows = db.read(workspace_id, cypher.NEIGHBOURS, ids=ids, limit=limit)
    return tuple(entity_of(workspace_id, row) for row in rows)


def entities(db: Connection, workspace_id: str) -> tuple[Entity, ...]:
    """Fetch every live entity."""
    rows = db.read(workspace_id, cypher.LIVE_ENTITIES)
    return tuple(entity_of(workspace_id, row) for row in rows)
