"""Full-text search over the chunks of live memories: FTS5 finds, `search.ranking` ranks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from marksweep.search.ranking import MAX_POSTINGS, Asked, Match, candidates, finding, ranked
from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.reading import entities_of
from marksweep.stores.graph.rows import HIT_CHUNK, Cell, Row, filters, hits
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import Reader, key, mark, number

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
        "sources": msgspec.json.encode(query.sources).decode(),
        "languages": msgspec.json.encode(query.languages).decode(),
        "tags": msgspec.json.encode(query.tags).decode(),
        "limit": query.limit,
    }
    rows = _found(db, given, asked) if asked.words else db.execute(sql.NEWEST, given).fetchall()
    mentioned = entities_of(Reader(db), workspace_id, [str(row[HIT_CHUNK]) for row in rows])
    return hits(workspace_id, rows, mentioned)


def _found(db: sqlite3.Connection, given: Given, asked: Asked) -> list[Row]:
    """Fetch the best hits in full, with their scores."""
    scores = _ranked(db, given, asked)
    key(db, scores)
    rows = {row[0]: row[1:] for row in db.execute(sql.HITS).fetchall()}
    return [(*rows[each], score) for each, score in scores.items()]


def _ranked(db: sqlite3.Connection, given: Given, asked: Asked) -> dict[int, float]:
    """Rank matches of the rarer words and of names; if too few, matches of any word.

    Ranking costs time for each match, and a common word matches nearly everything.
    """
    own = mark(int(given["ws"] or 0))
    limit = int(given["limit"] or 0)
    counted = [
        (own + word, _matching(db, _any([own + word]), MAX_POSTINGS + 1)) for word in asked.words
    ]
    holders = [each for each in counted if each[1]]
    if not holders:
        return {}
    (texts,) = db.execute(sql.CHUNK_COUNT, (given["ws"],)).fetchone()
    chosen = finding(holders, texts)
    matches = _best(db, given, _any(chosen))
    if asked.names:
        called = _any(own + word for word in asked.name_words)
        matches += _best(db, given, f"named : ({called})")
    if len(matches) < limit and len(chosen) < len(holders):
        matches += _best(db, given, _any(word for word, _ in holders))
    return ranked(matches, asked, holders, texts, limit)


def _any(words: Iterable[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)


def _matching(db: sqlite3.Connection, match: str, most: int) -> int:
    (count,) = db.execute(sql.MATCHING, (match, most)).fetchone()
    return int(count)


def _best(db: sqlite3.Connection, given: Given, match: str) -> list[Match[int]]:
    """Fetch the matches to rank; widen the window if filters and hidden rows leave too few."""
    limit = int(given["limit"] or 0)
    most = window = candidates(limit)
    while True:
        asked = {**given, "match": match, "window": window, "candidates": most}
        rows: Sequence[Row] = db.execute(sql.BEST_MATCHES, asked).fetchall()
        if len(rows) >= limit or _matching(db, match, window + 1) <= window:
            return [Match(*row) for row in rows]  # type: ignore[arg-type]
        window *= 10
