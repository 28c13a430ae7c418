"""What goes into columns and the word index, and how a query asks for it."""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from marksweep.model import Segment
from marksweep.stores.base import Query
from marksweep.stores.codec import microseconds
from marksweep.stores.sqlite import statements as sql

Value = str | bytes | int | None


class Workspace(NamedTuple):
    """A workspace's row: its number, its version, and since when removals are known."""

    number: int
    version: int
    floor: int

    @property
    def rows(self) -> tuple[int, int]:
        """The first and last row number it may use."""
        return sql.rows_of(self.number)


def find_workspace(database: sqlite3.Connection, name: str) -> Workspace | None:
    """Look a workspace up by name."""
    row = database.execute(sql.FIND_WORKSPACE, (bind(name),)).fetchone()
    return None if row is None else Workspace(*row)


def make_workspace(database: sqlite3.Connection, name: str) -> Workspace:
    """Look a workspace up by name; number it if it is new."""
    found = find_workspace(database, name)
    if found is not None:
        return found
    number = database.execute(sql.ADD_WORKSPACE, (bind(name),)).lastrowid
    return Workspace(number or 0, 0, 0)


def bind(text: str) -> str | bytes:
    """Make a column's value of any string. What is no valid Unicode becomes bytes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def unbind(value: str | bytes) -> str:
    """Read back what `bind` made."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


def marks(segment: Segment) -> str:
    """Write the values that filters ask for as words of their own, for the word index."""
    found = [mark("type", segment.type)]
    if segment.file_path is not None:
        found.append(mark("file", segment.file_path))
    if segment.task_id is not None:
        found.append(mark("task", segment.task_id))
    found += [mark("tag", tag) for tag in segment.tags]
    return " ".join(found)


def marks_asked(query: Query) -> list[list[str]]:
    """Write a query's filters as marks: one of each group must be there."""
    groups = [[mark("type", each) for each in query.types]] if query.types else []
    if query.file_path is not None:
        groups.append([mark("file", query.file_path)])
    if query.task_id is not None:
        groups.append([mark("task", query.task_id)])
    return groups + [[mark("tag", tag)] for tag in query.tags]


@lru_cache(maxsize=1 << 14)
def mark(kind: str, value: str) -> str:
    """Write one value of one kind as a word, whatever is in it.

    Values that share a word are no more likely than a disk that errs, and search looks again.
    """
    given = f"{kind}={value}".encode("utf-8", "surrogatepass")
    return blake2b(given, digest_size=8).hexdigest()


def times(query: Query) -> tuple[str, list[Value]]:
    """Make clauses and their parameters of a query's filters of time."""
    given = {"since": query.since, "until": query.until}
    asked = {name: microseconds(moment) for name, moment in given.items() if moment is not None}
    return " ".join(sql.TIMES[name] for name in asked), list(asked.values())


def places(count: int) -> str:
    """Write as many question marks."""
    return ", ".join("?" * count)
