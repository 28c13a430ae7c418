"""Full-text search over the chunks of live memories: the server finds, `search.ranking` ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from marksweep.search.bm25 import rarity
from marksweep.search.ranking import (
    Asked,
    Match,
    Posting,
    candidates,
    estimates,
    finding,
    likely,
    ranked,
)
from marksweep.stores.graph.base import NO_KEYS, GraphHit, GraphQuery
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.reading import by_chunk, entities_of
from marksweep.stores.graph.rows import HIT_CHUNK, Row, filters, hits, numbers

READ = 100
"""Minimum number of candidates to read. Word counts are exact here, so half as many as other stores
rank are enough."""

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
    scores = _ranked(db, workspace_id, given, asked, query.limit)
    if not scores:
        return ()
    rows, entities = db.read_all(
        workspace_id, (cypher.HITS, cypher.ENTITIES_OF_CHUNKS), {"ids": list(scores)}
    )
    whole = {str(row[HIT_CHUNK]): row for row in rows}
    best = [(*whole[each], score) for each, score in scores.items() if each in whole]
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
    """Rank matches of the rarer words and of names; if too few, matches of any word.

    The server's scores favour long chunks, so it is only asked which chunks have which words.
    A word without quotes would also match others with its stem.
    """
    whole = {f'"{word}"': word for word in asked.words}
    counted, chunks = db.read_all(
        workspace_id, (cypher.COUNT_MATCHES, cypher.CHUNK_COUNT), {"matches": list(whole)}
    )
    counts = {whole[str(match)]: int(count or 0) for match, count in counted}
    holders = [(word, counts[word]) for word in asked.words if counts.get(word)]
    if not holders:
        return {}
    texts = int(chunks[0][0] or 0)
    chosen = finding(holders, texts)
    found = _Finder(db, workspace_id, given, limit)
    weights = {word: rarity(max(texts, count), count) for word, count in holders}
    matches = found.matches({word: weights[word] for word in chosen}, asked.name_words)
    if len(matches) < limit and len(chosen) < len(holders):
        matches += found.matches(weights, ())
    return ranked(matches, asked, holders, texts, limit)


class _Finder:
    """Finds the matches to rank."""

    def __init__(self, db: Connection, workspace_id: str, given: Given, limit: int) -> None:
        self._db = db
        self._workspace_id = workspace_id
        self._given = given
        self._limit = limit

    def matches(self, weights: dict[str, float], names: Sequence[str]) -> list[Match[str]]:
        """Read the likely best chunks with any of the words, and those with one of the names."""
        asked = [
            *(f'"{word}"' for word in weights),
            *(f'@named:"{word}"' for word in dict.fromkeys((*weights, *names))),
        ]
        rows = self._db.read(self._workspace_id, cypher.POSTINGS, matches=asked)
        postings = {str(match): [numbers(cell) for cell in columns] for match, *columns in rows}
        nothing = [NO_KEYS] * 3
        columns = []
        for word, weight in weights.items():
            ids, lengths, products = postings.get(f'"{word}"', nothing)
            once = min(products, default=1) or 1
            named = set(postings.get(f'@named:"{word}"', nothing)[0])
            columns.append(Posting(weight, ids, lengths, products, once, named))
        called = (key for word in names for key in postings.get(f'@named:"{word}"', nothing)[0])
        return self._read(list(dict.fromkeys(called)), estimates(columns))

    def _read(self, called: Sequence[int], scores: Mapping[int, float]) -> list[Match[str]]:
        """Read the likely best; read more if filters and hidden rows leave too few."""
        found: list[Match[str]] = []
        seen: set[int] = set()
        window = max(READ, candidates(self._limit) // 2)
        while len(found) < self._limit:
            best = dict.fromkeys((*called[:window], *likely(scores, window)))
            some = [key for key in best if key not in seen]
            if not some:
                break
            rows = self._db.read(self._workspace_id, cypher.MATCHES, self._given, keys=some)
            found += [_match(row) for row in rows]
            seen.update(some)
            window *= 10
        return found


def _match(row: Row) -> Match[str]:
    chunk_id, memory_id, position, *found = row
    return Match(str(chunk_id), str(memory_id), int(position or 0), *map(str, found))
