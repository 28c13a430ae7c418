"""Read what can be read of a damaged database of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from marksweep.stores.both_ends import rows_from_both_ends
from marksweep.stores.codec import ENTRY, SEGMENT, STASHED, Codec
from marksweep.stores.rescued import Rescued, Salvaged, Skipped
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import unbind

Noun = TypeVar("Noun")


def is_database(path: Path) -> bool:
    """Tell whether a file is, or was meant to be, a SQLite database."""
    with path.open("rb") as file:
        start = file.read(16)
    return start.startswith(b"SQLite format 3") or path.suffix in (".db", ".sqlite", ".sqlite3")


def salvage_sqlite(path: Path) -> Salvaged:
    """Read what can be read of a database, without changing it."""
    skipped: list[Skipped] = []
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        names = _names(database, path, skipped)
        segments = list(_nouns(database, path, "segments", SEGMENT, skipped))
        stashed = list(_nouns(database, path, "stash", STASHED, skipped))
        entries = list(_nouns(database, path, "journal", ENTRY, skipped))
    finally:
        database.close()
    numbers = sorted({number for number, _ in [*segments, *stashed, *entries]})
    return Salvaged(
        tuple(
            Rescued(
                names.get(number, f"workspace {number}"),
                tuple(each for where, each in segments if where == number),
                tuple(each for where, each in stashed if where == number),
                tuple(each for where, each in entries if where == number),
            )
            for number in numbers
        ),
        tuple(skipped),
    )


def _names(database: sqlite3.Connection, path: Path, skipped: list[Skipped]) -> dict[int, str]:
    try:
        return {number: unbind(name) for number, name in database.execute(sql.ALL_NAMES)}
    except sqlite3.Error as error:
        skipped.append(Skipped(f"{path}, the names of the workspaces", str(error)))
        return {}


def _nouns(
    database: sqlite3.Connection, path: Path, table: str, codec: Codec[Noun], skipped: list[Skipped]
) -> Iterator[tuple[int, Noun]]:
    rows = rows_from_both_ends(database, sql.ALL_ROWS[table], f"{path}, table {table}", skipped)
    for row, workspace, body in rows:
        try:
            yield workspace, codec.decode(body)
        except (ValueError, TypeError) as error:
            skipped.append(Skipped(f"{path}, table {table}, row {row}", str(error)))
