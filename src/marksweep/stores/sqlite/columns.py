"""What goes into columns, and how a query becomes clauses."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from marksweep.errors import StoreCorrupt
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


def bind_optional(text: str | None) -> str | bytes | None:
    """Make a column's value of a string that may be missing."""
    return None if text is None else bind(text)


def bind_tags(tags: Sequence[str]) -> bytes:
    """Write tags so that each can be found whole, whatever is in it."""
    return b"\n" + b"".join(map(_line, tags)) if tags else b""


@lru_cache(maxsize=1 << 12)
def _line(tag: str) -> bytes:
    escaped = tag.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.encode("utf-8", "surrogatepass") + b"\n"


def filter_columns(segment: Segment) -> tuple[Value, Value, Value, int]:
    """Give what filters look at, except tags: type, file, task, time."""
    return (
        bind(segment.type),
        bind_optional(segment.file_path),
        bind_optional(segment.task_id),
        microseconds(segment.created_at),
    )


def filters(query: Query) -> tuple[str, list[Value]]:
    """Make clauses and their parameters of a query's filters."""
    clauses: list[str] = []
    values: list[Value] = []
    if query.types:
        clauses.append(sql.FILTERS["type"].format(places=places(len(query.types))))
        values += [bind(each) for each in query.types]
    single = {
        "file_path": bind_optional(query.file_path),
        "task_id": bind_optional(query.task_id),
        "since": None if query.since is None else microseconds(query.since),
        "until": None if query.until is None else microseconds(query.until),
    }
    for name, value in single.items():
        if value is not None:
            clauses.append(sql.FILTERS[name])
            values.append(value)
    for tag in query.tags:
        clauses.append(sql.FILTERS["tag"])
        values.append(b"\n" + _line(tag))
    return " ".join(clauses), values


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
    """Write one value of one kind as a short word. Others may share it: filters are exact."""
    given = f"{kind}={value}".encode("utf-8", "surrogatepass")
    return blake2b(given, digest_size=4).hexdigest()


def places(count: int) -> str:
    """Write as many question marks."""
    return ", ".join("?" * count)


def unreadable(path: object, what: str, error: Exception) -> StoreCorrupt:
    """Say that a row does not hold what it should."""
    return StoreCorrupt(
        f"{path}: {what} cannot be read ({error}). The file was left as it is. "
        "Copy out what can be read with marksweep.stores.salvage, or restore a backup."
    )
