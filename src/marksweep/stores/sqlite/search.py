"""Search in SQLite: FTS5 finds and ranks, but never ranks more than it can in time."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from marksweep.stores.base import Query
from marksweep.stores.sqlite import columns
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import Value, Workspace
from marksweep.stores.words import asked

RANKED_AT_MOST = 10_000
"""Matches that are ranked; about 2 µs each.

If there may be more, the rarest words rank. The others are so common that they say little: they
still find, newest first, when the rarer ones did not find enough. Higher lets common words rank in
large stores, and takes longer.
"""

Match = tuple[int, bytes, float]
"""A row's number, the noun in it, and how well it matches."""


class Searched(NamedTuple):
    """The statements that search one table."""

    having: str
    counted: str
    listed: str
    listed_matching: str
    ranked: str
    newest: str


SEGMENTS = Searched(
    having=sql.SEGMENTS_HAVING,
    counted=sql.COUNT_SEGMENTS,
    listed=sql.LIST_SEGMENTS,
    listed_matching=sql.LIST_MATCHING_SEGMENTS,
    ranked=sql.RANK_SEGMENTS,
    newest=sql.MATCH_SEGMENTS,
)
STASH = Searched(
    having=sql.STASH_HAVING,
    counted=sql.COUNT_STASH,
    listed=sql.LIST_STASH,
    listed_matching=sql.MATCH_STASH,
    ranked=sql.RANK_STASH,
    newest=sql.MATCH_STASH,
)


def search(
    database: sqlite3.Connection, table: Searched, place: Workspace, query: Query
) -> list[Match]:
    """Find rows of a workspace, best first."""
    times, moments = columns.times(query)
    limit = max(0, query.limit)
    marks = [f"marks : ({_any(group)})" for group in columns.marks_asked(query)]

    def run(statement: str, *first: Value) -> list[Match]:
        given = (*first, *place.rows, *moments, limit)
        return database.execute(statement.format(times=times), given).fetchall()

    def match(words: list[str]) -> str:
        return " AND ".join([f"words : ({_any(words)})", *marks])

    if not query.words:
        return run(table.listed_matching, " AND ".join(marks)) if marks else run(table.listed)
    words = asked(query.words)
    rare, common = _by_rarity(database, table, words)
    if common and marks:
        (passing,) = database.execute(table.counted, (" AND ".join(marks),)).fetchone()
        if passing <= RANKED_AT_MOST:
            rare, common = words, []
    found = run(table.ranked, match(rare)) if rare else []
    if common and len(found) < limit:
        known = {row for row, _, _ in found}
        found += [each for each in run(table.newest, match(common)) if each[0] not in known]
    return found[:limit]


def _by_rarity(
    database: sqlite3.Connection, table: Searched, words: list[str]
) -> tuple[list[str], list[str]]:
    """Part the words that occur into those to rank by and those that are too common."""
    counted: list[tuple[int, str]] = []
    for word in words:
        found = database.execute(table.having, (word,)).fetchone()
        if found is not None:
            counted.append((found[0], word))
    rare: list[str] = []
    common: list[str] = []
    total = 0
    for count, word in sorted(counted):
        total += count
        (rare if total <= RANKED_AT_MOST else common).append(word)
    return rare, common


def _any(words: list[str]) -> str:
    """Write words as a query of FTS5, in which each is only a word."""
    return " OR ".join(f'"{word}"' for word in words)
