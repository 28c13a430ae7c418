"""What goes into columns, and how a query becomes clauses."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from marksweep.errors import StoreCorrupt
from marksweep.model import Segment
from marksweep.stores.base import Query
from marksweep.stores.codec import microseconds
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.words import asked

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
    return Workspace(database.execute(sql.ADD_WORKSPACE, (bind(name),)).fetchone()[0], 0, 0)


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


def places(count: int) -> str:
    """Write as many question marks."""
    return ", ".join("?" * count)


def match(words: str) -> str | None:
    """Write words as a query of FTS5, in which each is only a word; None if there are none."""
    terms = asked(words)
    return " OR ".join(f'"{term}"' for term in terms) if terms else None


def unreadable(path: object, what: str, error: Exception) -> StoreCorrupt:
    """Say that a row does not hold what it should."""
    return StoreCorrupt(
        f"{path}: {what} cannot be read ({error}). The file was left as it is. "
        "Copy out what can be read with marksweep.stores.salvage, or restore a backup."
    )
