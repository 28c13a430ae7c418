"""Full-text search over the chunks of live memories: FTS5 finds, `search.ranking` ranks."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from marksweep.search.ranking import (
    MAX_POSTINGS,
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
from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.reading import by_chunk
from marksweep.stores.graph.rows import Cell, filters, hits, numbers, plain_all
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import mark, number

Given = dict[str, Cell]
"""The parameters of a search."""


def search(db: sqlite3.Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    asked = Asked.of(query.words)
    if query.limit <= 0 or (query.words and not asked.words):
        return ()
    given: Given = {
        "ws": number(db, workspace_id),
        **filters(query),
        "sources": _json(plain_all(query.sources)),
        "languages": _json(plain_all(query.languages)),
        "tags": _json(plain_all(query.tags)),
        "limit": query.limit,
    }
    ranks = _ranked(db, given, asked) if asked.words else _newest(db, given)
    shown = {"ws": given["ws"], "keys": _json(list(ranks))}
    rows = {row[0]: row[1:] for row in db.execute(sql.HITS, shown)}
    best = ((rows[each], worth) for each, worth in ranks.items())
    return hits(workspace_id, best, by_chunk(workspace_id, db.execute(sql.ENTITIES_OF_HITS, shown)))


def _newest(db: sqlite3.Connection, given: Given) -> dict[int, float]:
    return dict.fromkeys((found for (found,) in db.execute(sql.NEWEST, given)), 0.0)


def _ranked(db: sqlite3.Connection, given: Given, asked: Asked) -> dict[int, float]:
    """Rank matches of the words that count and of names; if too few, matches of any word."""
    own = mark(int(given["ws"] or 0))
    limit = int(given["limit"] or 0)
    holders = held((word, _matching(db, word)) for word in (own + each for each in asked.words))
    if not holders:
        return {}
    (texts,) = db.execute(sql.CHUNK_COUNT, (given["ws"],)).fetchone()
    called = _called(db, given, asked)
    scored: list[tuple[Match[int], float]] = []
    for counted in dict.fromkeys((counting(holders, texts), holders)):
        if len(scored) < limit:
            found_by = [word for word, _ in finding(counted)]
            scored = _scored(db, given, weighed(counted, texts), found_by, called)
    return ranked(scored, asked, limit)


def _matching(db: sqlite3.Connection, word: str) -> int:
    (count,) = db.execute(sql.MATCHING, (f'"{word}"', MAX_POSTINGS + 1)).fetchone()
    return int(count)


def _called(db: sqlite3.Connection, given: Given, asked: Asked) -> list[int]:
    """Find the texts of the chunks that a name of the query defines."""
    names = {**given, "names": _json(asked.last_parts)}
    return [text for (text,) in db.execute(sql.CALLED, names)] if asked.names else []


def _scored(
    db: sqlite3.Connection,
    given: Given,
    weights: Mapping[str, float],
    found_by: Sequence[str],
    called: Sequence[int],
) -> list[tuple[Match[int], float]]:
    """Score the chunks that have some of the words, and read the best of them.

    Other words are only counted in what is read.
    """
    times = {word: _times(db, word) for word in found_by}
    keys = sorted(set().union(*times.values()))
    (sizes,) = db.execute(sql.LENGTHS, (_json(keys),)).fetchone()
    lengths = dict(zip(keys, numbers(sizes), strict=True))
    found = scores(((weights[word], holders) for word, holders in times.items()), lengths)
    rest = {word: weight for word, weight in weights.items() if word not in times}

    def read(texts: Sequence[int]) -> list[tuple[Match[int], float]]:
        rows = db.execute(sql.MATCHES, {**given, "texts": _json(texts)})
        matches = ((text, Match(*row)) for text, *row in rows)
        return [(match, found.get(text, 0.0) + score(match, rest)) for text, match in matches]

    return best_matches(found, called, int(given["limit"] or 0), read)


def _times(db: sqlite3.Connection, word: str) -> Counter[int]:
    """Count how often each text has a word; in a name it counts for more."""
    everywhere, named = map(numbers, db.execute(sql.INSTANCES, (word,)).fetchone())
    times = Counter(everywhere)
    for text in named:
        times[text] += NAME_WEIGHT - 1
    return times


def _json(values: Sequence[str] | Sequence[int]) -> str:
    return msgspec.json.encode(values).decode()
