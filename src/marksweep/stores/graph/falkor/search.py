"""Full-text search over the chunks of live memories."""

from __future__ import annotations

from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.falkor.fetching import entities_of
from marksweep.stores.graph.rows import (
    CHUNK_COLUMNS,
    MEMORY_COLUMNS,
    Row,
    chunk_of,
    memory_of,
    micros_or_none,
    plain,
    words,
)

WIDTH = len(MEMORY_COLUMNS)
"""Where the chunk begins in a row of a hit."""
END = WIDTH + len(CHUNK_COLUMNS)
"""Where the score is in a row of a hit."""


async def search(db: Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    wanted = tuple(dict.fromkeys(words(query.words)))
    if query.limit <= 0 or (query.words and not wanted):
        return ()
    rows = await _ranked(db, workspace_id, query, wanted)
    mentioned = await entities_of(db, workspace_id, [str(row[WIDTH]) for row in rows])
    return tuple(
        GraphHit(
            memory=memory_of(workspace_id, row[:WIDTH]),
            chunk=chunk_of(workspace_id, row[WIDTH:END]),
            score=float(row[END] or 0.0),
            entities=tuple(e for e in mentioned.get(str(row[WIDTH]), ()) if e.deleted_at is None),
        )
        for row in rows
    )


async def _ranked(
    db: Connection, workspace_id: str, query: GraphQuery, wanted: tuple[str, ...]
) -> list[Row]:
    """Take chunks that have all the words; if those are too few, chunks that have any."""
    given: dict[str, object] = {
        "repository": None if query.repository is None else plain(query.repository),
        "path": None if query.path is None else plain(query.path).rstrip("/"),
        "since": micros_or_none(query.since),
        "until": micros_or_none(query.until),
        "sources": list(query.sources),
        "languages": list(query.languages),
        "tags": list(query.tags),
        "limit": query.limit,
    }
    if not wanted:
        return await db.read(workspace_id, cypher.NEWEST, given)
    found = await db.read(workspace_id, cypher.BEST_MATCHES, given, match=" ".join(wanted))
    if len(found) < query.limit and len(wanted) > 1:
        known = {row[WIDTH] for row in found}
        floor = min((float(row[END] or 0) for row in found), default=float("inf"))
        for row in await db.read(workspace_id, cypher.BEST_MATCHES, given, match="|".join(wanted)):
            if row[WIDTH] not in known and len(found) < query.limit:
                found.append((*row[:END], min(float(row[END] or 0), floor)))
    return found
