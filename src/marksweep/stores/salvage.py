"""Recover readable data from a damaged store, and report what was skipped and where.

The damaged files are only read. `copy_to` writes the result to a new store. A database is read
table by table, from both ends up to the damage; a JSON file object by object.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from marksweep.errors import StoreError
from marksweep.model import Entry, Segment, Stashed
from marksweep.stores.base import DEFAULT_WORKSPACE, Store
from marksweep.stores.codec import ENTRY, SEGMENT, STASHED, Codec
from marksweep.stores.database import DAMAGE
from marksweep.stores.files import unusable
from marksweep.stores.json_file.documents import as_segment, as_stashed
from marksweep.stores.json_file.paths import StorePaths
from marksweep.stores.sqlite import statements as sql
from marksweep.stores.sqlite.columns import unbind

Noun = TypeVar("Noun")


class Skipped(msgspec.Struct, frozen=True):
    """Something that could not be read."""

    place: str
    """The file, and where in it: a line and column, or rows."""
    reason: str


class SalvagedWorkspace(msgspec.Struct, frozen=True):
    """The readable data of one workspace."""

    workspace: str
    segments: tuple[Segment, ...] = ()
    stashed: tuple[Stashed, ...] = ()
    entries: tuple[Entry, ...] = ()
    """Journal entries, oldest first."""


class SalvagedStore(msgspec.Struct, frozen=True):
    """The readable data of a store, and what was skipped."""

    workspaces: tuple[SalvagedWorkspace, ...]
    skipped: tuple[Skipped, ...]

    def copy_to(self, store: Store) -> None:
        """Write everything to a store; journal entries are renumbered."""
        for found in self.workspaces:
            store.segments.write(found.workspace, put=found.segments)
            store.stash.put(found.workspace, found.stashed)
            for entry in found.entries:
                store.journal.append(found.workspace, entry)


def salvage(path: str | Path) -> SalvagedStore:
    """Recover readable data from the store at a path: a SQLite database, or JSON files."""
    place = Path(path).absolute()
    paths = StorePaths(place)
    skipped: list[Skipped] = []
    try:
        if is_database(place):
            found = tuple(_from_database(place, skipped))
        elif files := tuple(paths.workspaces()):
            found = tuple(_from_json(live, paths, skipped) for live in files)
        else:
            raise StoreError(f"{paths.main}: no such store. Name its file, or its folder.")
    except OSError as error:
        raise unusable(place, error) from error
    return SalvagedStore(found, tuple(skipped))


def is_database(path: Path) -> bool:
    """Return whether a file is, or was meant to be, a SQLite database."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(16)
    return start.startswith(b"SQLite format 3") or path.suffix in (".db", ".sqlite", ".sqlite3")


def rows_from_both_ends(
    database: sqlite3.Connection, statement: str, place: str, skipped: list[Skipped]
) -> Iterator[tuple[Any, ...]]:
    """Yield the readable rows in order, and record what cannot be read.

    In the statement, `{direction}` becomes ASC or DESC; the first column identifies the row.
    """
    last: tuple[Any, ...] | None = None
    try:
        for row in database.execute(statement.format(direction="ASC")):
            last = row
            yield row
    except DAMAGE as error:
        skipped.append(Skipped(f"{place}, {_beyond('after', last)}", str(error)))
    else:
        return
    ends: list[tuple[Any, ...]] = []
    try:
        for row in database.execute(statement.format(direction="DESC")):
            if row == last:
                break
            ends.append(row)
    except DAMAGE as error:
        first = ends[-1] if ends else None
        before = Skipped(f"{place}, {_beyond('before', first)}", str(error))
        if before not in skipped:
            skipped.append(before)
    yield from reversed(ends)


def _beyond(side: str, row: tuple[Any, ...] | None) -> str:
    return "all" if row is None else f"{side} row {row[0]}"


def _from_database(path: Path, skipped: list[Skipped]) -> Iterator[SalvagedWorkspace]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        try:
            names = {number: unbind(name) for number, name in database.execute(sql.ALL_NAMES)}
        except DAMAGE as error:
            names = {}
            skipped.append(Skipped(f"{path}, the names of the workspaces", str(error)))
        segments = list(_nouns(database, path, "segments", SEGMENT, skipped))
        stashed = list(_nouns(database, path, "stash", STASHED, skipped))
        entries = list(_nouns(database, path, "journal", ENTRY, skipped))
    for number in sorted({number for number, _ in [*segments, *stashed, *entries]}):
        yield SalvagedWorkspace(
            names.get(number, f"workspace {number}"),
            tuple(each for where, each in segments if where == number),
            tuple(each for where, each in stashed if where == number),
            tuple(each for where, each in entries if where == number),
        )


def _nouns(
    database: sqlite3.Connection, path: Path, table: str, codec: Codec[Noun], skipped: list[Skipped]
) -> Iterator[tuple[int, Noun]]:
    rows = rows_from_both_ends(database, sql.ALL_ROWS[table], f"{path}, table {table}", skipped)
    for row, workspace, body in rows:
        try:
            yield workspace, codec.decode(body)
        except (ValueError, TypeError) as error:
            skipped.append(Skipped(f"{path}, table {table}, row {row}", str(error)))


_NAME = re.compile(r'"workspace"\s*:\s*(?=")')
_OBJECT = re.compile(r'\{\s*"')


def _from_json(live: Path, paths: StorePaths, skipped: list[Skipped]) -> SalvagedWorkspace:
    stash, journal = paths.beside(live)
    segments: dict[str, Segment] = {}
    for place, segment in _items(live, as_segment, skipped):
        if segment.segment_id in segments:
            skipped.append(Skipped(place, f"the id {segment.segment_id!r} occurs twice"))
        else:
            segments[segment.segment_id] = segment
    stashed = tuple(each for _, each in _items(stash, as_stashed, skipped))
    if live == paths.main:
        name = DEFAULT_WORKSPACE
    else:
        name = _name(_text(live)) or _name(_text(stash)) or live.stem
    entries = tuple(_entries(journal, skipped))
    return SalvagedWorkspace(name, tuple(segments.values()), stashed, entries)


def _items(
    path: Path, read: Callable[[object], Noun], skipped: list[Skipped]
) -> Iterator[tuple[str, Noun]]:
    """Yield every complete segment object, wherever it is; report each damage once."""
    text = _text(path)
    if text and '"segments"' not in text:
        skipped.append(Skipped(f"{path}, line 1", 'no "segments" found; looking everywhere'))
    damaged: set[int] = set()
    at = 0
    while following := _OBJECT.search(text, at):
        at = following.start()
        try:
            found, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            where, why = getattr(error, "pos", at), getattr(error, "msg", str(error))
            if where not in damaged:
                damaged.add(where)
                skipped.append(Skipped(_place(path, text, where), why))
            at += 1
            continue
        if "segment_id" not in found:  # the whole document, which contains them
            at += 1
            continue
        try:
            yield _place(path, text, at), read(found)
        except msgspec.ValidationError as error:
            skipped.append(Skipped(_place(path, text, at), str(error)))
        at = end


def _entries(path: Path, skipped: list[Skipped]) -> Iterator[Entry]:
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        if line:
            try:
                yield ENTRY.decode(line)
            except ValueError as error:
                skipped.append(Skipped(f"{path}, line {number}", str(error)))


def _name(text: str) -> str:
    found = _NAME.search(text)
    try:
        return str(json.JSONDecoder().raw_decode(text, found.end())[0]) if found else ""
    except json.JSONDecodeError:
        return ""


def _place(path: Path, text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"{path}, line {line}, column {at - text.rfind(chr(10), 0, at)}"


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
