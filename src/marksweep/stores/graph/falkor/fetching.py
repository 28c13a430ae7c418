"""Fetch memories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from marksweep.stores.graph.base import Definition, Link, LinkQuery, Nodes
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.nouns import Chunk, Entity, Kind, Memory, Record
from marksweep.stores.graph.rows import (
    Row,
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


def fetch(db: Connection, workspace_id: str, memory_ids: Sequence[str]) -> tuple[Record, ...]:
    """Assemble whole records."""
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
    relations = [relation_of(row) for row in relation_rows]
    mentioned = by_chunk(workspace_id, entity_rows)
    return records(ids, memories, chunks, relations, mentioned)


def entities_of(
    db: Connection, workspace_id: str, chunk_ids: Sequence[str]
) -> dict[str, list[Entity]]:
    """Fetch the entities that chunks mention, by chunk id."""
    if not chunk_ids:
        return {}
    rows = db.read(workspace_id, cypher.ENTITIES_OF_CHUNKS, ids=list(chunk_ids))
    return by_chunk(workspace_id, rows)


def by_chunk(workspace_id: str, rows: Iterable[Row]) -> dict[str, list[Entity]]:
    """Group entities by the chunk that mentions them."""
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


def links(
    db: Connection, workspace_id: str, names: Sequence[str], query: LinkQuery
) -> tuple[Link, ...]:
    """Fetch relations to, or from, entities with these names."""
    asked = {plain(each) for each in names}
    parts = sorted(last_parts(asked))
    found = db.read(workspace_id, cypher.ENTITIES_BY_LAST_PART, names=parts)
    ids = [each for each, name, last in found if is_asked(str(name), str(last), asked, query)]
    rows = db.read(
        workspace_id,
        cypher.LINKS_TO if query.to_name else cypher.LINKS_FROM,
        ids=sorted(map(str, ids)),
        relation=plain(query.relation),
        limit=query.limit,
    )
    return links_of(rows)


def definitions(
    db: Connection, workspace_id: str, names: Sequence[str], limit: int
) -> tuple[Definition, ...]:
    """Fetch where symbols with these names are defined."""
    asked = {plain(each) for each in names}
    parts = sorted(last_parts(asked) - {""})
    rows = db.read(workspace_id, cypher.DEFINITIONS, names=parts)
    found = (
        Definition(str(symbol), str(kind), str(path), str(repository), int(line or 0))
        for symbol, kind, path, repository, line in rows
    )
    return defined(found, asked, limit)


def entities(db: Connection, workspace_id: str) -> tuple[Entity, ...]:
    """Fetch every live entity."""
    rows = db.read(workspace_id, cypher.LIVE_ENTITIES)
    return tuple(entity_of(workspace_id, row) for row in rows)
