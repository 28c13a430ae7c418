"""Full-text search over the chunks of live memories: the server finds, `search.ranking` ranks."""

from __future__ import annotations

from marksweep.search.ranking import (
    Asked,
    Match,
    considered,
    counting,
    finding,
    held,
    ranked,
    score,
    weighed,
)
from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.reading import by_chunk
from marksweep.stores.graph.rows import HIT_CHUNK, filters, hits

Given = dict[str, object]
"""The parameters of a search."""


def search(db: Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    asked = Asked.of(query.words)
    if query.limit <= 0 or (query.words and not asked.words):
        return ()
    given: Given = {
        **filters(query),
        "sources": query.sources,
        "languages": query.languages,
        "tags": query.tags,
        "limit": query.limit,
    }
    if asked.words:
        ranks = _ranked(db, workspace_id, given, asked, query.limit)
    else:
        newest = db.read(workspace_id, cypher.NEWEST, given)
        ranks = dict.fromkeys((str(chunk_id) for (chunk_id,) in newest), 0.0)
    if not ranks:
        return ()
    rows, entities = db.read_all(
        workspace_id, (cypher.HITS, cypher.ENTITIES_OF_HITS), {"ids": list(ranks)}
    )
    shown = {str(row[HIT_CHUNK]): row for row in rows}
    best = ((shown[each], worth) for each, worth in ranks.items() if each in shown)
    return hits(workspace_id, best, by_chunk(workspace_id, entities))


def _ranked(
    db: Connection, workspace_id: str, given: Given, asked: Asked, limit: int
) -> dict[str, float]:
    """Rank matches of the words that count and of names; if too few, matches of any word.

    A word's lowest score is taken for that of one occurrence, so that others are counts. If no
    chunk has the word only once, they are too low; so what is selected by them is scored again.
    A word without quotes would also match others with its stem.
    """
    whole = {f'"{word}"': word for word in asked.words}
    counted, chunks = db.read_all(
        workspace_id, (cypher.COUNT_MATCHES, cypher.CHUNK_COUNT), {"matches": list(whole)}
    )
    holding = {whole[str(match)]: int(count or 0) for match, count, _ in counted}
    once = {whole[str(match)]: float(least or 0) or 1.0 for match, _, least in counted}
    holders = held((word, holding.get(word, 0)) for word in asked.words)
    texts = int(chunks[0][0] or 0) if chunks else 0
    scored: list[tuple[Match[str], float]] = []
    for words in dict.fromkeys((counting(holders, texts), holders)):
        if len(scored) < limit:
            weights = weighed(words, texts)
            found_by = finding(words)
            given |= {
                "names": asked.names,
                "words": [
                    (f'"{word}" => {{$weight: {1 / once[word]};}}', weights[word])
                    for word, _ in found_by
                ],
            }
            most = sum(count for _, count in found_by)
            matches = _best_matches(db, workspace_id, given, limit, most)
            scored = [(match, score(match, weights)) for match in matches]
    return ranked(scored, asked, limit)


def _best_matches(
    db: Connection, workspace_id: str, given: Given, limit: int, most: int
) -> list[Match[str]]:
    """Fetch the best of at most so many matches; more if filters and hidden rows leave too few."""
    found: list[Match[str]] = []
    skip, window = 0, considered(limit)
    while len(found) < limit and skip < most:
        rows = db.read(workspace_id, cypher.BEST_MATCHES, given, skip=skip, window=window)
        found += [Match(*row) for row in rows]  # type: ignore[arg-type]
        skip += window
        window *= 10
    return found
