"""Full-text search over the chunks of live memories."""

from __future__ import annotations

import sqlite3

import msgspec

from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.nouns import Entity
from marksweep.stores.graph.rows import (
    CHUNK_COLUMNS,
    MEMORY_COLUMNS,
    Cell,
    Row,
    chunk_of,
    memory_of,
    micros_or_none,
    plain,
    words,
)
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import number
from marksweep.stores.graph.sqlite.fetching import entities_of

FIRST_WINDOW = 200
"""Best matches that are looked at first; when filters leave too few, ten times more, and so on.

Larger reads more rows per search; smaller asks again more often when many rows are hidden.
"""

COMMON = 20_000
"""Chunks a word may be in before it is used only if rarer words find too little.

Higher ranks more exactly and takes longer: about 2 ms for each thousand.
"""


def search(db: sqlite3.Connection, workspace_id: str, query: GraphQuery) -> tuple[GraphHit, ...]:
    """Find chunks, best first."""
    if query.limit <= 0:
        return ()
    given: dict[str, Cell] = {
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
    rows = _ranked(db, given, wanted) if wanted else db.execute(sql.NEWEST, given).fetchall()
    width = len(MEMORY_COLUMNS)
    end = width + len(CHUNK_COLUMNS)
    mentioned = entities_of(db, workspace_id, [str(row[width]) for row in rows])
    return tuple(_hit(workspace_id, row, width, end, mentioned) for row in rows)


def _hit(
    workspace_id: str, row: Row, width: int, end: int, mentioned: dict[str, list[Entity]]
) -> GraphHit:
    live = (e for e in mentioned.get(str(row[width]), ()) if e.deleted_at is None)
    return GraphHit(
        memory=memory_of(workspace_id, row[:width]),
        chunk=chunk_of(workspace_id, row[width:end]),
        score=float(row[end] or 0.0),
        entities=tuple(live),
    )


def _ranked(db: sqlite3.Connection, given: dict[str, Cell], wanted: tuple[str, ...]) -> list[Row]:
    """Take chunks that have all the words; if too few, any of the rarer words; then any word.

    Ranking costs time for each match, and a common word matches nearly everything.
    """
    quoted = [f'"{word}"' for word in wanted]
    found = _best(db, given, " AND ".join(quoted))
    limit = int(given["limit"] or 0)
    if len(found) >= limit or len(quoted) == 1:
        return found
    rare = [each for each in quoted if _matching(db, each, COMMON + 1) <= COMMON]
    for some in (rare, quoted):
        if some and len(found) < limit:
            found = _joined(found, _best(db, given, " OR ".join(some)), limit)
    return found


def _joined(found: list[Row], more: list[Row], limit: int) -> list[Row]:
    """Add rows that are not there yet, none scored above those that are."""
    place = len(MEMORY_COLUMNS)
    known = {row[place] for row in found}
    ceiling = min((float(row[-1] or 0) for row in found), default=float("inf"))
    new = [
        (*row[:-1], min(float(row[-1] or 0), ceiling)) for row in more if row[place] not in known
    ]
    return (found + new)[:limit]


def _matching(db: sqlite3.Connection, match: str, most: int) -> int:
    (count,) = db.execute(sql.MATCHING, (match, most)).fetchone()
    return int(count)


def _best(db: sqlite3.Connection, given: dict[str, Cell], match: str) -> list[Row]:
    limit = int(given["limit"] or 0)
    window = max(FIRST_WINDOW, 2 * limit)
    while True:
        rows = db.execute(sql.BEST_MATCHES, {**given, "match": match, "window": window}).fetchall()
        if len(rows) >= limit:
            return rows
        if _matching(db, match, window + 1) <= window:
            return rows
        window *= 10
