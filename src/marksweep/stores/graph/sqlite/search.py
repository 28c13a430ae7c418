"""Full-text search over the chunks of live memories."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.ranking import Match, candidates, joined, ranked
from marksweep.stores.graph.rows import (
    HIT_CHUNK,
    Cell,
    Row,
    hits,
    micros_or_none,
    plain,
    words,
)
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import key, number
from marksweep.stores.graph.sqlite.fetching import entities_of

COMMON = 20_000
"""Chunks a word may be in before it is used only if rarer words find too little.

Higher ranks more exactly and takes longer: about 2 ms for each thousand.
"""

Given = dict[str, Cell]
"""The parameters of a search."""


def search(db: sqlite3.Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    if query.limit <= 0:
        return ()
    given: Given = {
        "ws": number(db, workspace_id),
        "repository": None if query.repository is None else plain(query.repository),
        "path": None if query.path is None else plain(query.path).rstrip("/"),
        "since": micros_or_none(query.since),
        "until": micros_or_none(query.until),
        "sources": msgspec.json.encode(query.sources).decode(),
        "languages": msgspec.json.encode(query.languages).decode(),
        "tags": msgspec.json.encode(query.tags).decode(),
        "limit": query.limit,
    }
    wanted = tuple(dict.fromkeys(words(query.words)))
    if query.words and not wanted:
        return ()
    rows = _found(db, given, wanted) if wanted else db.execute(sql.NEWEST, given).fetchall()
    mentioned = entities_of(db, workspace_id, [str(row[HIT_CHUNK]) for row in rows])
    return hits(workspace_id, rows, mentioned)


def _found(db: sqlite3.Connection, given: Given, wanted: Sequence[str]) -> list[Row]:
    """Fetch the best hits whole, with their scores."""
    scores = _ranked(db, given, wanted)
    key(db, scores)
    rows = {row[0]: row[1:] for row in db.execute(sql.HITS).fetchall()}
    return [(*rows[each], score) for each, score in scores.items()]


def _ranked(db: sqlite3.Connection, given: Given, wanted: Sequence[str]) -> dict[int, float]:
    """Take chunks that have all the words; if too few, any of the rarer words; then any word.

    Ranking costs time for each match, and a common word matches nearly everything.
    """
    quoted = [f'"{word}"' for word in wanted]
    limit = int(given["limit"] or 0)
    found = ranked(_best(db, given, " AND ".join(quoted)), wanted, limit)
    if len(found) >= limit or len(quoted) == 1:
        return found
    rare = [each for each in quoted if _matching(db, each, COMMON + 1) <= COMMON]
    for some in dict.fromkeys((tuple(rare), tuple(quoted))):
        if some and len(found) < limit:
            more = ranked(_best(db, given, " OR ".join(some)), wanted, limit)
            found = joined(found, more, limit)
    return found


def _matching(db: sqlite3.Connection, match: str, most: int) -> int:
    (count,) = db.execute(sql.MATCHING, (match, most)).fetchone()
    return int(count)


def _best(db: sqlite3.Connection, given: Given, match: str) -> list[Match[int]]:
    """Take the matches to rank; look further where filters and hidden rows leave too few."""
    limit = int(given["limit"] or 0)
    most = window = candidates(limit)
    while True:
        asked = {**given, "match": match, "window": window, "candidates": most}
        rows = db.execute(sql.BEST_MATCHES, asked).fetchall()
        if len(rows) >= limit or _matching(db, match, window + 1) <= window:
            return [Match(*row) for row in rows]
        window *= 10
