"""Column values, and the row of a workspace."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from marksweep.stores.sqlite import statements as sql

Value = str | bytes | int | None


class Workspace(NamedTuple):
    """A workspace's row: number, version, and the version since which removals are known."""

    number: int
    version: int
    floor: int

    @property
    def rows(self) -> tuple[int, int]:
        """The first and last row number it may use."""
        return sql.rows_of(self.number)


def find_workspace(database: sqlite3.Connection, name: str) -> Workspace:
    """Look up a workspace by name; an unknown one has number 0 and no rows."""
    row = database.execute(sql.FIND_WORKSPACE, (bind(name),)).fetchone()
    return Workspace(*(row or (0, 0, 0)))


def make_workspace(database: sqlite3.Connection, name: str) -> Workspace:
    """Look up a workspace by name; add it if it is new."""
    found = find_workspace(database, name)
    if found.number:
        return found
    number = database.execute(sql.ADD_WORKSPACE, (bind(name),)).lastrowid
    return Workspace(number or 0, 0, 0)


def bind(text: str) -> str | bytes:
    """Convert any string to a column value. Invalid Unicode becomes bytes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def unbind(value: str | bytes) -> str:
    """Convert a column value back to the string given to `bind`."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


def places(count: int) -> str:
    """Return `count` SQL placeholders."""
    return ", ".join("?" * count)
