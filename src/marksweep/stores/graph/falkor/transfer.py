"""Export and import of a graph, node by node and edge by edge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from marksweep.stores.graph import reading
from marksweep.stores.graph.base import Item
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection, Step
from marksweep.stores.graph.falkor.writing import (
    SETTLING,
    alias_cells,
    chunk_cells,
    entity_cells,
    memory_cells,
    mention_cells,
    relation_cells,
    worthwhile,
)
from marksweep.stores.graph.nouns import Alias, Chunk, Entity, Kind, Memory, Mention, Relation
from marksweep.stores.graph.rows import (
    Row,
    chunk_of,
    entity_of,
    memory_of,
    plain_all,
    relation_of,
)

PAGE_NODES = 1000
"""Nodes that an export reads at a time."""

Node = Memory | Chunk | Entity

READ: dict[Kind, Callable[[str, Row], Node]] = {
    Kind.MEMORY: memory_of,
    Kind.CHUNK: chunk_of,
    Kind.ENTITY: entity_of,
}


def everything(db: Connection, workspace_id: str) -> Iterator[Item]:
    """Stream a whole graph: nodes by id, then the edges that leave them."""
    for kind in Kind:
        for page in _pages(db, workspace_id, kind):
            for row in page:
                yield READ[kind](workspace_id, row)
    for page in _pages(db, workspace_id, Kind.CHUNK):
        ids = [row[0] for row in page]
        for row in db.read(workspace_id, cypher.MENTIONS_OF_CHUNKS, ids=ids):
            yield Mention(str(row[0]), str(row[1]))
    for page in _pages(db, workspace_id, Kind.ENTITY):
        ids = [row[0] for row in page]
        for row in db.read(workspace_id, cypher.RELATIONS_FROM, ids=ids):
            yield relation_of(row)
    for row in db.read(workspace_id, cypher.ALIASES):
        yield Alias(*map(str, row))


def _pages(db: Connection, workspace_id: str, kind: Kind) -> Iterator[list[Row]]:
    after: object = ""
    while page := db.read(workspace_id, cypher.PAGES[kind], after=after, limit=PAGE_NODES):
        yield page
        after = page[-1][0]


def load(db: Connection, workspace_id: str, items: Collection[Item]) -> None:
    """Write items unchanged. Existing chunks keep their texts."""
    memories = {item.memory_id: item for item in items if isinstance(item, Memory)}
    chunks = {item.chunk_id: item for item in items if isinstance(item, Chunk)}
    owners = reading.owners(db, workspace_id, items)
    rows = [chunk_cells(c, owners.get(c.memory_id)) for c in chunks.values()]
    steps: list[Step] = [
        (cypher.PUT_ALIASES, {"rows": alias_cells(i for i in items if isinstance(i, Alias))}),
        (cypher.PUT_MEMORIES, {"rows": [memory_cells(memory) for memory in memories.values()]}),
        (cypher.LOAD_KNOWN_CHUNKS, {"rows": rows}),
        (cypher.LOAD_CHUNKS, {"rows": rows}),
        (cypher.ADOPT_CHUNKS, {"ids": plain_all(owners)}),
        (
            cypher.PUT_ENTITIES,
            {"rows": [entity_cells(item) for item in items if isinstance(item, Entity)]},
        ),
        (
            cypher.MERGE_MENTIONS,
            {"rows": mention_cells(item for item in items if isinstance(item, Mention))},
        ),
        (
            cypher.MERGE_RELATIONS,
            {"rows": relation_cells(item for item in items if isinstance(item, Relation))},
        ),
    ]
    db.write(workspace_id, *worthwhile(steps), *SETTLING)
