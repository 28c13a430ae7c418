"""What SQLite's errors mean, in words."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from marksweep.errors import StoreBusy, StoreCorrupt, StoreError


def named(error: sqlite3.Error, name: str) -> bool:
    """Tell whether SQLite's name for an error begins so."""
    return getattr(error, "sqlite_errorname", "").startswith(name)


_SALVAGE = (
    "Copy out what can be read with salvage() of marksweep.stores.salvage, or restore a backup."
)

_MEANINGS: tuple[tuple[str, type[StoreError], str], ...] = (
    (
        "SQLITE_BUSY",
        StoreBusy,
        "another process is writing for longer than we wait. "
        "Try again, or find the process that hangs and end it.",
    ),
    (
        "SQLITE_NOTADB",
        StoreCorrupt,
        "this is not a SQLite database. Nothing was changed. "
        "Name another file, or move this one away.",
    ),
    (
        "SQLITE_CORRUPT",
        StoreCorrupt,
        f"the database is damaged. It was left as it is. {_SALVAGE}",
    ),
    (
        "SQLITE_FULL",
        StoreError,
        "the disk is full. Nothing was changed. Free some space and try again.",
    ),
    (
        "SQLITE_READONLY",
        StoreError,
        "the file or its folder is read-only. Nothing was changed. "
        "Give this user the right to write both, or choose another place.",
    ),
    (
        "SQLITE_CANTOPEN",
        StoreError,
        "it cannot be opened. Check that its folder exists and may be written.",
    ),
    (
        "SQLITE_IOERR",
        StoreError,
        "the disk answers with an error. Nothing was changed. Check the disk and its free space.",
    ),
)
"""What SQLite's error names mean: by their beginning, the error to raise and what to do."""


def in_words(path: Path, error: sqlite3.Error) -> StoreError:
    """Say what an error of SQLite means and what to do about it."""
    for name, kind, meaning in _MEANINGS:
        if named(error, name):
            return kind(f"{path}: {meaning} ({error})")
    if "fts5" in str(error):
        return StoreError(
            f"{path}: this Python's SQLite has no word search ({error}). "
            "Use a Python whose SQLite has FTS5, or a store of another kind, like json:…"
        )
    return StoreError(f"{path}: SQLite says: {error}. Nothing was changed. Check the file.")


def unreadable(path: Path, what: str, error: Exception) -> StoreCorrupt:
    """Say that a row does not hold what it should."""
    return StoreCorrupt(
        f"{path}: {what} cannot be read ({error}). The file was left as it is. {_SALVAGE}"
    )
