"""Search in SQLite: FTS5 finds and ranks, but never ranks more than it can in time."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from marksweep.search.words import query_words
from marksweep.stores.base import Query
from marksweep.stores.sqlite import columns
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import Value, Workspace

RANKED_AT_MOST = 2_000
"""Matches that are ranked; about 2 µs each.

If there may be more, only the rarest words find what is ranked. Where that is not enough, the
newest matches follow: those that have all words, then those that have any. Higher ranks more in
large stores, and takes longer.
"""

WEIGHED_AT_MOST = 10_000
"""Matches of a word that counts in the ranking of what rarer words found; 0.1 µs each.

Higher listens to words that say little.
"""

Match = tuple[int, bytes, float]
"""A row's number, the noun in it, and how well it matches."""


class Searched(NamedTuple):
    """The statements that search one table."""

    counted: str
    listed: str
    listed_matching: str
    ranked: str
    newest: str


SEGMENTS = Searched(
    counted=sql.COUNT_SEGMENTS,
    listed=sql.LIST_SEGMENTS,
    listed_matching=sql.LIST_MATCHING_SEGMENTS,
    ranked=sql.RANK_SEGMENTS,
    newest=sql.MATCH_SEGMENTS,
)
STASH = Searched(
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

    def match(*groups: list[str]) -> str:
        return " AND ".join([*(f"words : ({_any(words)})" for words in groups), *marks])

    def count(what: str, most: int) -> int:
        (rows,) = database.execute(table.counted, (what, *place.rows, most + 1)).fetchone()
        return int(rows)

    if not query.words:
        return run(table.listed_matching, " AND ".join(marks)) if marks else run(table.listed)
    counted = [(count(match([word]), WEIGHED_AT_MOST), word) for word in query_words(query.words)]
    counted = sorted(each for each in counted if each[0])
    words = [word for _, word in counted]
    rare = words[: _ranked_whole([rows for rows, _ in counted])]
    weighed = [word for rows, word in counted if rows <= WEIGHED_AT_MOST]
    if not rare:
        found = []
    elif rare == weighed:
        found = run(table.ranked, match(rare))
    else:  # the rare ones find; the others are only named to be weighed
        found = run(table.ranked, match(rare, weighed))
    if rare != words:
        for newest in (match(*([word] for word in words)), match(words)):
            if len(found) < limit:
                known = {row for row, _, _ in found}
                found += [each for each in run(table.newest, newest) if each[0] not in known]
    return found[:limit]


def _ranked_whole(rows: list[int]) -> int:
    """Say how many of the rarest words have few enough matches, together, to rank them all."""
    return bisect_right(list(accumulate(rows)), RANKED_AT_MOST)


def _any(words: list[str]) -> str:
    """Write words as a query of FTS5, in which each is only a word."""
    return " OR ".join(f'"{word}"' for word in words)
