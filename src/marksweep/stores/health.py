"""The health of a store's files: permissions, leftover files, integrity.

Checks change nothing. Before a repair, all files are copied into a folder next to the store.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from marksweep.errors import StoreError
from marksweep.stores.database import DAMAGE
from marksweep.stores.files import (
    DATABASE_FILES,
    KEPT,
    PRIVATE_FOLDER,
    PROJECT_FOLDER,
    drafts,
    exposed,
    is_exposed,
    make_file,
    tighten,
)
from marksweep.stores.graph.sqlite.salvage import (
    SalvagedGraph,
    salvage_graph,
    unreadable_row,
)
from marksweep.stores.json_file import JsonStore
from marksweep.stores.json_file.paths import StorePaths
from marksweep.stores.salvage import SalvagedStore, is_database, salvage
from marksweep.stores.sqlite import SqliteStore

REBUILT = ".rebuilt"
"""Suffix of a database while it is being rebuilt."""


def files_of(path: Path) -> tuple[Path, ...]:
    """List the files of the store at a path."""
    if is_database(path):
        beside = (path.with_name(path.name + end) for end in DATABASE_FILES)
        return tuple(file for file in beside if file.is_file())
    return tuple(StorePaths(path).files())


def readable_by_others(path: Path) -> tuple[Path, ...]:
    """List the store's files that users other than the owner can read or write.

    A project's folder is marksweep's: the list includes its memory, backups and the folder itself.
    """
    if path.parent.name == PROJECT_FOLDER:
        return exposed(path.parent)
    return tuple(file for file in files_of(path) if is_exposed(file))


def make_private(path: Path) -> None:
    """Make a store readable by its owner only."""
    for file in readable_by_others(path):
        tighten(file)


def stale_drafts(path: Path) -> tuple[Path, ...]:
    """List files that were being written when a process was killed."""
    rebuilt = (path.with_name(path.name + REBUILT + end) for end in DATABASE_FILES)
    found = (draft for file in files_of(path) for draft in drafts(file))
    return (*found, *(file for file in rebuilt if file.is_file()))


def damage(path: Path) -> str:
    """Describe what is wrong with the content of a store; empty if it is intact."""
    if is_database(path):
        return database_damage(path)
    skipped = salvage(path).skipped
    return f"{skipped[0].place}: {skipped[0].reason}" if skipped else ""


def database_damage(path: Path) -> str:
    """Describe what SQLite finds wrong with a database; empty if it is intact."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            found = [row[0] for row in database.execute("PRAGMA integrity_check(3)")]
    except DAMAGE as error:
        return str(error)
    return "" if found == ["ok"] else "; ".join(found)


def graph_damage(path: Path) -> str:
    """Describe what is wrong with a graph, its rows included; empty if it is intact."""
    return database_damage(path) or unreadable_row(path)


def copy_aside(path: Path, files: tuple[Path, ...], now: datetime) -> Path:
    """Copy files into a new folder next to the store; return the folder."""
    folder = path.parent / f"{path.name}{KEPT}{now:%Y%m%dT%H%M%S}"
    folder.mkdir(mode=PRIVATE_FOLDER)
    for file in files:
        tighten(Path(shutil.copy2(file, folder)))
    return folder


def rebuild(path: Path) -> SalvagedStore:
    """Rebuild a damaged store from its readable data. The caller has copied its files."""
    found = salvage(path)
    if not found.workspaces:
        raise StoreError(
            f"{path}: nothing in it can be read, so there is nothing to rebuild. It is left as it "
            "is: move it away, or put a backup in its place."
        )
    if is_database(path):
        fresh = path.with_name(path.name + REBUILT)
        _fill(SqliteStore(fresh), found)
        _put_in_place(fresh, path)
    else:
        for file in files_of(path):
            file.unlink()
        _fill(JsonStore(path), found)
    return found


def rebuild_graph(path: Path) -> SalvagedGraph:
    """Rebuild a damaged graph from its readable data. The caller has copied its files."""
    fresh = path.with_name(path.name + REBUILT)
    make_file(fresh)
    found = salvage_graph(path, fresh)
    if not found.memories and not found.chunks:
        for end in DATABASE_FILES:
            fresh.with_name(fresh.name + end).unlink(missing_ok=True)
        raise StoreError(
            f"{path}: nothing in it can be read. It is left as it is: move it away and index "
            "again, or import a backup."
        )
    _put_in_place(fresh, path)
    return found


def _put_in_place(fresh: Path, path: Path) -> None:
    """Replace a damaged database and its side files with a new one."""
    for end in DATABASE_FILES[1:]:
        path.with_name(path.name + end).unlink(missing_ok=True)
    fresh.replace(path)


def _fill(store: SqliteStore | JsonStore, found: SalvagedStore) -> None:
    try:
        found.copy_to(store)
    finally:
        store.close()
