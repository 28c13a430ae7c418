"""Full-text search over the chunks of live memories: the server finds, `search.ranking` ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import truediv

from marksweep.search.ranking import (
    NAME_WEIGHT,
    Asked,
    Match,
    best_matches,
    counting,
    finding,
    held,
    ranked,
    score,
    scores,
    weighed,
)
from marksweep.stores.graph.base import NO_KEYS, GraphHit, GraphQuery
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.reading import by_chunk, entities_of
from marksweep.stores.graph.rows import HIT_CHUNK, Row, filters, hits, numbers

Given = dict[str, object]
"""The parameters of a search."""


def search(db: Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    asked = Asked.of(query.words)
    if query.limit <= 0 or (query.words and not asked.words):
        return ()
    given = _given(query)
    if not asked.words:
        rows = db.read(workspace_id, cypher.NEWEST, given)
        mentioned = entities_of(db, workspace_id, [str(row[HIT_CHUNK]) for row in rows])
        return hits(workspace_id, rows, mentioned)
    ranks = _ranked(db, workspace_id, given, asked, query.limit)
    if not ranks:
        return ()
    rows, entities = db.read_all(
        workspace_id, (cypher.HITS, cypher.ENTITIES_OF_CHUNKS), {"ids": list(ranks)}
    )
    whole = {str(row[HIT_CHUNK]): row for row in rows}
    best = [(*whole[each], worth) for each, worth in ranks.items() if each in whole]
    return hits(workspace_id, best, by_chunk(workspace_id, entities))


def _given(query: GraphQuery) -> Given:
    return {
        **filters(query),
        "sources": list(query.sources),
        "languages": list(query.languages),
        "tags": list(query.tags),
        "limit": query.limit,
    }


def _ranked(
    db: Connection, workspace_id: str, given: Given, asked: Asked, limit: int
) -> dict[str, float]:
    """Rank matches of the words that count and of names; if too few, matches of any word.

    The server's scores favour long chunks, so it is only asked which chunks have which words.
    A word without quotes would also match others with its stem.
    """
    whole = {f'"{word}"': word for word in asked.words}
    counted, chunks = db.read_all(
        workspace_id, (cypher.COUNT_MATCHES, cypher.CHUNK_COUNT), {"matches": list(whole)}
    )
    counts = {whole[str(match)]: int(count or 0) for match, count in counted}
    holders = held((word, counts.get(word, 0)) for word in asked.words)
    if not holders:
        return {}
    texts = int(chunks[0][0] or 0)

    def read(keys: Sequence[int]) -> list[Match[str]]:
        return [_match(row) for row in db.read(workspace_id, cypher.MATCHES, given, keys=keys)]

    scored: list[tuple[Match[str], float]] = []
    for words in dict.fromkeys((counting(holders, texts), holders)):
        if len(scored) < limit:
            weights = weighed(words, texts)
            found_by = {word: weights[word] for word in finding(words)}
            found, called = _postings(db, workspace_id, found_by, asked)
            matches = best_matches(found, called, limit, read)
            scored = [(match, score(match, weights)) for match in matches]
    return ranked(scored, asked, limit)


def _postings(
    db: Connection, workspace_id: str, weights: Mapping[str, float], asked: Asked
) -> tuple[dict[int, float], list[int]]:
    """Score the chunks that have some of the words; find those that a name of the query defines.

    How often a word is in a name is not known here, nor how often it is in a text if no text has it
    only once. So the scores are estimates.
    """
    matches = [each for word in weights for each in (f'"{word}"', f'@named:"{word}"')]
    rows, defined = db.read_all(
        workspace_id,
        (cypher.POSTINGS, cypher.CALLED),
        {"matches": matches, "names": asked.last_parts},
    )
    columns = {str(match): tuple(map(numbers, cells)) for match, *cells in rows}
    nothing = (NO_KEYS,) * 3
    times: dict[str, dict[int, float]] = {}
    lengths: dict[int, int] = {}
    for word in weights:
        keys, sizes, products = columns.get(f'"{word}"', nothing)
        once = min(products, default=1) or 1
        counts = map(truediv, products, repeat(once))
        times[word] = dict(zip(keys, counts, strict=True))
        lengths.update(zip(keys, sizes, strict=True))
        for key in columns.get(f'@named:"{word}"', nothing)[0]:
            times[word][key] += NAME_WEIGHT - 1
    found = scores(((weights[word], holders) for word, holders in times.items()), lengths)
    return found, [int(key or 0) for (key,) in defined]


def _match(row: Row) -> Match[str]:
    chunk_id, memory_id, position, *found = row
    return Match(str(chunk_id), str(memory_id), int(position or 0), *map(str, found))
