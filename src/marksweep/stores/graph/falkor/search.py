"""Full-text search over the chunks of live memories."""

from __future__ import annotations

from collections.abc import Sequence

from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.falkor.fetching import entities_of
from marksweep.stores.graph.ranking import Match, candidates, joined, ranked
from marksweep.stores.graph.rows import HIT_CHUNK, Row, hits, micros_or_none, plain, words

Given = dict[str, object]
"""The parameters of a search."""


def search(db: Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    wanted = tuple(dict.fromkeys(words(query.words)))
    if query.limit <= 0 or (query.words and not wanted):
        return ()
    given = _given(query)
    if wanted:
        rows = _found(db, workspace_id, given, wanted)
    else:
        rows = db.read(workspace_id, cypher.NEWEST, given)
    mentioned = entities_of(db, workspace_id, [str(row[HIT_CHUNK]) for row in rows])
    return hits(workspace_id, rows, mentioned)


def _given(query: GraphQuery) -> Given:
    return {
        "repository": None if query.repository is None else plain(query.repository),
        "path": None if query.path is None else plain(query.path).rstrip("/"),
        "since": micros_or_none(query.since),
        "until": micros_or_none(query.until),
        "sources": list(query.sources),
        "languages": list(query.languages),
        "tags": list(query.tags),
        "limit": query.limit,
    }


def _found(db: Connection, workspace_id: str, given: Given, wanted: Sequence[str]) -> list[Row]:
    """Fetch the best hits whole, with their scores."""
    limit = int(str(given["limit"]))
    scores = _ranked(db, workspace_id, given, wanted, limit)
    rows = db.read(workspace_id, cypher.HITS, ids=list(scores)) if scores else []
    whole = {str(row[HIT_CHUNK]): row for row in rows}
    return [(*whole[each], score) for each, score in scores.items() if each in whole]


def _ranked(
    db: Connection, workspace_id: str, given: Given, wanted: Sequence[str], limit: int
) -> dict[str, float]:
    """Take chunks that have all the words; if those are too few, chunks that have any.

    The server takes a word without quotes for others of its stem, too.
    """
    quoted = [f'"{word}"' for word in wanted]

    def best(match: str) -> dict[str, float]:
        most = candidates(limit)
        rows = db.read(workspace_id, cypher.BEST_MATCHES, given, match=match, candidates=most)
        return ranked([_match(row) for row in rows], wanted, limit)

    found = best(" ".join(quoted))
    if len(found) < limit and len(wanted) > 1:
        found = joined(found, best("|".join(quoted)), limit)
    return found


def _match(row: Row) -> Match[str]:
    chunk_id, memory_id, position, title, text = row
    return Match(str(chunk_id), str(memory_id), int(position or 0), str(title), str(text))
