"""Full-text search over the chunks of live memories: the server finds, `search.ranking` ranks."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose

from marksweep.search.ranking import (
    K1,
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
from marksweep.stores.graph.rows import HIT_CHUNK, filters, hits, plain_all

Given = dict[str, object]
"""The parameters of a search."""

Scored = list[tuple[Match[str], float]]
"""Matches and their scores."""


def search(db: Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    asked = Asked.of(query.words)
    if query.limit <= 0 or (query.words and not asked.words):
        return ()
    given: Given = {
        **filters(query),
        "sources": plain_all(query.sources),
        "languages": plain_all(query.languages),
        "tags": plain_all(query.tags),
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

    A word's lowest score is taken for that of one occurrence, so that others are counts. A word
    without quotes would also match others with its stem.
    """
    whole = {f'"{word}"': word for word in asked.words}
    counted, chunks = db.read_all(
        workspace_id, (cypher.COUNT_MATCHES, cypher.CHUNK_COUNT), {"matches": list(whole)}
    )
    holding = {whole[str(match)]: int(count or 0) for match, count, _ in counted}
    once = {whole[str(match)]: float(least or 0) or 1.0 for match, _, least in counted}
    holders = held((word, holding.get(word, 0)) for word in asked.words)
    texts = int(chunks[0][0] or 0) if chunks else 0
    scored: Scored = []
    for words in dict.fromkeys((counting(holders, texts), holders)):
        if len(scored) < limit:
            weights = weighed(words, texts)
            found_by = finding(words)
            given |= {
                "names": asked.names,
                "words": [
                    (f'"{word}" => {{$weight: {1 / once[word]};}}', weights[word] * (K1 + 1))
                    for word, _ in found_by
                ],
            }
            most = sum(count for _, count in found_by)
            scored = _checked(_best_matches(db, workspace_id, given, limit, most), weights)
    return ranked(scored, asked, limit)


def _checked(scored: Scored, weights: Mapping[str, float]) -> Scored:
    """Check each word in the first match that has it; score all matches if a count was wrong.

    Counts are too low for a word that no chunk has only once, and missing for one that was not
    used to find matches. That is rare, and counting the words of all matches takes long.
    """
    unchecked = set(weights)
    for match, found in scored:
        present = unchecked.intersection(f"{match.words} {match.named} {match.placed}".split())
        if present and not isclose(found, score(match, weights)):
            return [(each, score(each, weights)) for each, _ in scored]
        unchecked -= present
        if not unchecked:
            break
    return scored


def _best_matches(db: Connection, workspace_id: str, given: Given, limit: int, most: int) -> Scored:
    """Fetch the best of at most so many matches, with the server's scores.

    Fetch more if filters and hidden rows leave fewer than the limit.
    """
    found: Scored = []
    skip, window = 0, min(considered(limit), most)  # SKIP and LIMIT are added up by the server
    while len(found) < limit and skip < most:
        rows = db.read(workspace_id, cypher.BEST_MATCHES, given, skip=skip, window=window)
        found += [(Match(*row), float(worth or 0)) for *row, worth in rows]  # type: ignore[arg-type]
        skip += window
        window *= 10
    return found
