"""Search in SQLite: FTS5 finds and ranks, with a limit on how many matches it ranks."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

from marksweep.model import Segment
from marksweep.search.words import query_words, segment_words
from marksweep.stores.base import Query
from marksweep.stores.codec import microseconds
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import Value, Workspace

RANKED_AT_MOST = 2_000
"""Limit on ranked matches; about 2 µs each.

If there may be more, only matches of the rarest words are ranked. If those are too few, the
newest matches follow: those with all words, then those with any. Higher ranks more in large
stores, and takes longer.
"""

WEIGHED_AT_MOST = 10_000
"""Limit on matches of a word that counts in ranking what rarer words found; 0.1 µs each.

Higher includes words that carry little information.
"""

Match = tuple[int, bytes, float]
"""A row number, the noun in the row, and its score."""


class Order(NamedTuple):
    """The score of rows, and their sort order."""

    score: str
    order: str


BEST = Order("-words.rank", "words.rank")
NEWEST = Order("0.0", "words.rowid DESC")


class IndexedTable:
    """A table and its word index.

    Marks in the index encode filter values, so only rows that pass the filters are ranked.
    """

    def __init__(self, name: str, listed: Order, matching: Order) -> None:
        self._name = name
        self._listed = listed
        self._matching = matching

    def add_words(self, database: sqlite3.Connection, rows: Iterable[tuple[int, Segment]]) -> None:
        """Index the words of rows that are not indexed yet."""
        words = ((row, segment_words(segment), _marks(segment)) for row, segment in rows)
        database.executemany(sql.ADD_WORDS.format(table=self._name), words)

    def remove_words(self, database: sqlite3.Connection, rows: Iterable[int]) -> None:
        """Remove rows from the word index."""
        numbers = ((row,) for row in rows)
        database.executemany(sql.REMOVE_WORDS.format(table=self._name), numbers)

    def search(self, database: sqlite3.Connection, place: Workspace, query: Query) -> list[Match]:
        """Find rows of a workspace, best first; without words, in the table's default order."""
        limit = max(0, query.limit)
        marks = [f"marks : ({_any(group)})" for group in _marks_asked(query)]

        def match(*groups: list[str]) -> str:
            return " AND ".join([*(f"words : ({_any(words)})" for words in groups), *marks])

        def matching(what: str, order: Order) -> list[Match]:
            return self._run(sql.LIST_MATCHES, order, database, place, query, what)

        if not query.words:
            if marks:
                return matching(match(), self._matching)
            return self._run(sql.LIST_ROWS, self._listed, database, place, query)
        counting = ((word, match([word])) for word in query_words(query.words))
        counts = ((self._count(database, place, what), word) for word, what in counting)
        counted = sorted(each for each in counts if each[0])
        words = [word for _, word in counted]
        rare = words[: _ranked_whole([rows for rows, _ in counted])]
        weighed = [word for rows, word in counted if rows <= WEIGHED_AT_MOST]
        if not rare:
            found = []
        elif rare == weighed:
            found = matching(match(rare), BEST)
        else:  # rare words select rows; the others only affect the ranking
            found = matching(match(rare, weighed), BEST)
        if rare != words:
            for what in (match(*([word] for word in words)), match(words)):
                if len(found) < limit:
                    known = {row for row, _, _ in found}
                    found += [each for each in matching(what, NEWEST) if each[0] not in known]
        return found[:limit]

    def _count(self, database: sqlite3.Connection, place: Workspace, what: str) -> int:
        statement = sql.COUNT_MATCHES.format(table=self._name)
        given = (what, *place.rows, WEIGHED_AT_MOST + 1)
        (rows,) = database.execute(statement, given).fetchone()
        return int(rows)

    def _run(
        self,
        statement: str,
        order: Order,
        database: sqlite3.Connection,
        place: Workspace,
        query: Query,
        *what: Value,
    ) -> list[Match]:
        times, moments = _times(query)
        filled = statement.format(table=self._name, times=times, **order._asdict())
        given = (*what, *place.rows, *moments, max(0, query.limit))
        return database.execute(filled, given).fetchall()


TOUCHED = Order("touched_at", "touched_at DESC, row DESC")

SEGMENTS = IndexedTable("segments", listed=TOUCHED, matching=TOUCHED)
STASH = IndexedTable("stash", listed=Order("0.0", "row DESC"), matching=NEWEST)


def _ranked_whole(rows: list[int]) -> int:
    """Return how many of the rarest words together have few enough matches to rank them all."""
    return bisect_right(list(accumulate(rows)), RANKED_AT_MOST)


def _any(words: list[str]) -> str:
    """Join words into an FTS5 query in which none is an operator."""
    return " OR ".join(f'"{word}"' for word in words)


def _marks(segment: Segment) -> str:
    """Encode a segment's filter values as separate words for the word index."""
    found = [_mark("type", segment.type)]
    if segment.file_path is not None:
        found.append(_mark("file", segment.file_path))
    if segment.task_id is not None:
        found.append(_mark("task", segment.task_id))
    found += [_mark("tag", tag) for tag in segment.tags]
    return " ".join(found)


def _marks_asked(query: Query) -> list[list[str]]:
    """Encode a query's filters as marks: one of each group must match."""
    groups = [[_mark("type", each) for each in query.types]] if query.types else []
    if query.file_path is not None:
        groups.append([_mark("file", query.file_path)])
    if query.task_id is not None:
        groups.append([_mark("task", query.task_id)])
    return groups + [[_mark("tag", tag)] for tag in query.tags]


@lru_cache(maxsize=1 << 14)
def _mark(kind: str, value: str) -> str:
    """Encode any value of one kind as a word.

    Collisions are less likely than disk errors, and search checks its hits.
    """
    given = f"{kind}={value}".encode("utf-8", "surrogatepass")
    return blake2b(given, digest_size=8).hexdigest()


def _times(query: Query) -> tuple[str, list[Value]]:
    """Build clauses and parameters from a query's time filters."""
    given = {"since": query.since, "until": query.until}
    asked = {name: microseconds(moment) for name, moment in given.items() if moment is not None}
    return " ".join(sql.TIMES[name] for name in asked), list(asked.values())
