"""Full-text search over the chunks of live memories: the server finds, `search.ranking` ranks."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from marksweep.search.bm25 import rarity
from marksweep.search.ranking import (
    NAME_WEIGHT,
    Asked,
    Match,
    Posting,
    candidates,
    finding,
    likely,
    ranked,
)
from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection
from marksweep.stores.graph.falkor.fetching import entities_of
from marksweep.stores.graph.rows import HIT_CHUNK, Row, hits, micros_or_none, numbers, plain

Given = dict[str, object]
"""The parameters of a search."""


def search(db: Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    asked = Asked.of(query.words)
    if query.limit <= 0 or (query.words and not asked.words):
        return ()
    given = _given(query)
    if asked.words:
        rows = _found(db, workspace_id, given, asked, query.limit)
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
        "as_of": micros_or_none(query.as_of),
        "sources": list(query.sources),
        "languages": list(query.languages),
        "tags": list(query.tags),
        "limit": query.limit,
    }


def _found(db: Connection, workspace_id: str, given: Given, asked: Asked, limit: int) -> list[Row]:
    """Fetch the best hits whole, with their scores."""
    scores = _ranked(db, workspace_id, given, asked, limit)
    rows = db.read(workspace_id, cypher.HITS, ids=list(scores)) if scores else []
    whole = {str(row[HIT_CHUNK]): row for row in rows}
    return [(*whole[each], score) for each, score in scores.items() if each in whole]


def _ranked(
    db: Connection, workspace_id: str, given: Given, asked: Asked, limit: int
) -> dict[str, float]:
    """Rank what the rarer words find and what is called by a name; if too few, what any word finds.

    The server's own scores favour long chunks, so it only says which chunks have which words.
    A word without quotes would stand for others of its stem, too.
    """
    whole = {f'"{word}"': word for word in asked.words}
    counted = db.read(workspace_id, cypher.COUNT_MATCHES, matches=list(whole))
    counts = {whole[str(match)]: int(count or 0) for match, count in counted}
    holders = [(word, counts[word]) for word in asked.words if counts.get(word)]
    if not holders:
        return {}
    (texts,) = (int(row[0] or 0) for row in db.read(workspace_id, cypher.CHUNK_COUNT))
    chosen = finding(holders)
    found = _Finder(db, workspace_id, given, limit)
    weights = {word: rarity(max(texts, count), count) for word, count in holders}
    matches = found.matches({word: weights[word] for word in chosen})
    if asked.names:
        matches += found.called(asked.name_words)
    if len(matches) < limit and len(chosen) < len(holders):
        matches += found.matches(weights)
    return ranked(matches, asked, holders, texts, limit)


class _Finder:
    """Finds the matches to rank."""

    def __init__(self, db: Connection, workspace_id: str, given: Given, limit: int) -> None:
        self._db = db
        self._workspace_id = workspace_id
        self._given = given
        self._limit = limit

    def matches(self, weights: dict[str, float]) -> list[Match[str]]:
        """Read the likely best that have any of the words."""
        postings = self._postings([f'"{word}"' for word in weights])
        named = self._postings([f'@named:"{word}"' for word in weights])
        columns = []
        for word, weight in weights.items():
            ids, lengths, products = postings[f'"{word}"']
            least = min(products, default=1) or 1
            in_name = set(named.get(f'@named:"{word}"', ((),))[0])
            times = [
                product / least + (NAME_WEIGHT - 1) * (key in in_name)
                for key, product in zip(ids, products, strict=True)
            ]
            columns.append(Posting(weight, ids, lengths, times))
        return self._read(likely(columns))

    def called(self, words: Sequence[str]) -> list[Match[str]]:
        """Read what has any of the words in its name."""
        named = self._postings([f'@named:"{word}"' for word in words])
        return self._read(list(dict.fromkeys(key for ids, *_ in named.values() for key in ids)))

    def _postings(self, matches: Sequence[str]) -> dict[str, list[array[int]]]:
        rows = self._db.read(self._workspace_id, cypher.POSTINGS, matches=list(matches))
        return {str(match): [numbers(cell) for cell in columns] for match, *columns in rows}

    def _read(self, keys: Sequence[int]) -> list[Match[str]]:
        """Read matches in this order; go on where filters and hidden rows leave too few."""
        found: list[Match[str]] = []
        start, window = 0, candidates(self._limit)
        while start < len(keys) and len(found) < self._limit:
            some = list(keys[start : start + window])
            rows = self._db.read(self._workspace_id, cypher.MATCHES, self._given, keys=some)
            found += [_match(row) for row in rows]
            start, window = start + window, 10 * window
        return found


def _match(row: Row) -> Match[str]:
    chunk_id, memory_id, position, *found = row
    return Match(str(chunk_id), str(memory_id), int(position or 0), *map(str, found))
