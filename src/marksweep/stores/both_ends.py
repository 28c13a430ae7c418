"""Read a table of a damaged database: forwards until the damage, then backwards to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from marksweep.stores.rescued import Skipped


def rows_from_both_ends(
    database: sqlite3.Connection, statement: str, place: str, skipped: list[Skipped]
) -> Iterator[tuple[Any, ...]]:
    """Give the rows that can be read, in order, and note what cannot.

    In the statement `{direction}` stands for ASC or DESC; what a row begins with names it.
    """
    last: tuple[Any, ...] | None = None
    try:
        for row in database.execute(statement.format(direction="ASC")):
            last = row
            yield row
    except sqlite3.Error as error:
        skipped.append(Skipped(f"{place}, {_beyond('after', last)}", str(error)))
    else:
        return
    ends: list[tuple[Any, ...]] = []
    try:
        for row in database.execute(statement.format(direction="DESC")):
            if row == last:
                break
            ends.append(row)
    except sqlite3.Error as error:
        first = ends[-1] if ends else None
        skipped.append(Skipped(f"{place}, {_beyond('before', first)}", str(error)))
    yield from reversed(ends)


def _beyond(side: str, row: tuple[Any, ...] | None) -> str:
    return "all" if row is None else f"{side} row {row[0]}"
