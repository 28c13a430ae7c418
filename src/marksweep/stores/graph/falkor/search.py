"""Full-text search over the chunks of live memories."""

from __future__ import annotations

from marksweep.stores.graph import assemble
from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.falkor.fetching import entities_of
from marksweep.stores.graph.rows import (
    Row,
    micros_or_none,
    plain,
    words,
)


async def search(db: Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    wanted = tuple(dict.fromkeys(words(query.words)))
    if query.limit <= 0 or (query.words and not wanted):
        return ()
    rows = await _ranked(db, workspace_id, query, wanted)
    mentioned = await entities_of(db, workspace_id, [str(row[assemble.WIDTH]) for row in rows])
    return assemble.hits(workspace_id, rows, mentioned)


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
        more = await db.read(workspace_id, cypher.BEST_MATCHES, given, match="|".join(wanted))
        found = assemble.joined(found, more, query.limit)
    return found
