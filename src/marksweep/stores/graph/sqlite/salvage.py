"""Salvage: copy the readable part of a damaged graph into a new file.

Rows are copied table by table. Rows they refer to may be lost, so the copy is made consistent:
chunks without text and dangling edges are dropped, and a chunk whose memory is lost becomes an
orphan, which the next prune collects. The next indexing run reads code files again.
"""

# ruff: noqa: S608  statements are built from constants; every value is a parameter

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from marksweep.stores.database import DAMAGE
from marksweep.stores.graph.rows import JSON_CELLS
from marksweep.stores.graph.sqlite.connection import Database, add_functions
from marksweep.stores.salvage import Skipped, rows_from_both_ends

KEYS = {
    "workspace": ("ws",),
    "memory": ("key",),
    "chunk": ("key",),
    "chunk_text": ("key",),
    "entity": ("key",),
    "mention": ("ws", "chunk_key", "entity_key"),
    "relation": ("ws", "source_key", "target_key", "relation", "memory_id"),
    "alias": ("ws", "id"),
    "run": ("ws", "run_id"),
}
"""The tables to copy, and their sort keys. Leases are not copied: they end with their holders."""

MAKE_WHOLE = (
    """INSERT OR IGNORE INTO workspace (ws, workspace_id)
    SELECT ws, 'workspace ' || ws FROM memory UNION SELECT ws, 'workspace ' || ws FROM chunk
    UNION SELECT ws, 'workspace ' || ws FROM entity""",
    "UPDATE chunk SET text_key = key WHERE text_key = 0",
    "DELETE FROM chunk WHERE text_key NOT IN (SELECT key FROM chunk_text)",
    "DELETE FROM chunk_text WHERE key NOT IN (SELECT text_key FROM chunk)",
    "UPDATE chunk SET memory_key = NULL WHERE memory_key NOT IN (SELECT key FROM memory)",
    """DELETE FROM mention WHERE chunk_key NOT IN (SELECT key FROM chunk)
        OR entity_key NOT IN (SELECT key FROM entity)""",
    """DELETE FROM relation WHERE source_key NOT IN (SELECT key FROM entity)
        OR target_key NOT IN (SELECT key FROM entity)""",
    "UPDATE memory SET content_hash = '', mtime_ns = 0 WHERE repository <> ''",
    """UPDATE workspace SET version = version + 1,
        chunks = (SELECT count(DISTINCT text_key) FROM chunk WHERE chunk.ws = workspace.ws)""",
    """UPDATE chunk_text SET (words, named, placed) = (
        SELECT marked_words(c.ws, chunk_text.text),
            marked_words(c.ws, c.symbol || coalesce(' ' || m.tags, '')),
            marked_words(c.ws, coalesce(m.relative_path, ''))
        FROM chunk c LEFT JOIN memory m ON m.key = c.memory_key
        WHERE c.text_key = chunk_text.key LIMIT 1)""",
    "UPDATE chunk SET bare = bare_name(symbol, '') WHERE symbol <> ''",
    "UPDATE entity SET bare = bare_name(name, type)",
    "INSERT INTO chunk_words (chunk_words) VALUES ('rebuild')",
    "INSERT INTO text_length SELECT key, word_count(words, named, placed) FROM chunk_text",
)
"""Statements that repair the copied rows, in order."""


class SalvagedGraph(msgspec.Struct, frozen=True):
    """How much of a graph could be read, and what could not."""

    memories: int
    chunks: int
    entities: int
    skipped: tuple[Skipped, ...]


def salvage_graph(path: Path, fresh: Path) -> SalvagedGraph:
    """Copy the readable part of a graph into a new file. The damaged file is only read."""
    with closing(Database(fresh)) as file, file.writing() as target:
        return _copy(target, path)


def _copy(target: sqlite3.Connection, path: Path) -> SalvagedGraph:
    skipped: list[Skipped] = []
    add_functions(target)
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
        source.text_factory = partial(str, encoding="utf-8", errors="replace")
        for table in KEYS:
            _copy_table(source, target, table, f"{path}, table {table}", skipped)
    for statement in MAKE_WHOLE:
        target.execute(statement)
    memories, chunks, entities = (
        target.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("memory", "chunk", "entity")
    )
    return SalvagedGraph(memories, chunks, entities, tuple(skipped))


def _copy_table(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    table: str,
    place: str,
    skipped: list[Skipped],
) -> None:
    keys = KEYS[table]
    made = _columns(target, table)
    here: list[str] = []
    with suppress(*DAMAGE):  # then reading its rows reports the error
        here = _columns(source, table)
    known = [name for name in made if name in here] or made
    columns = ", ".join([*keys, *(name for name in known if name not in keys)])
    order = ", ".join(f"{key} {{direction}}" for key in keys)
    read = f"SELECT {columns} FROM {table} ORDER BY {order}"
    write = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({', '.join('?' * len(known))})"
    rows = rows_from_both_ends(source, read, place, skipped)
    names = columns.split(", ")
    target.executemany(write, _with_readable_cells(rows, table, names, place, skipped))


def _with_readable_cells(
    rows: Iterable[tuple[Any, ...]],
    table: str,
    names: Sequence[str],
    place: str,
    skipped: list[Skipped],
) -> Iterator[tuple[Any, ...]]:
    """Empty the cells whose JSON cannot be read, so that their rows can be."""
    damaged: dict[str, list[str]] = {}
    for row in rows:
        cells = dict(zip(names, row, strict=True))
        for column, reason in _unreadable(table, cells):
            cells[column] = JSON_CELLS[table][column][1]
            damaged.setdefault(column, []).append(reason)
        yield tuple(cells.values())
    for column, reasons in damaged.items():
        skipped.append(Skipped(f"{place}, {column} of {len(reasons):,} rows", reasons[0]))


def _unreadable(table: str, cells: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the columns of a row whose JSON cannot be read, each with the reason."""
    for column, (read, _) in JSON_CELLS.get(table, {}).items():
        if column in cells:
            try:
                read(cells[column])
            except (ValueError, TypeError) as error:
                yield column, str(error)


def unreadable_row(path: Path) -> str:
    """Describe the first row of a sound file that cannot be read; empty if there is none."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
        for table in KEYS:
            names = _columns(source, table)
            try:
                for row in source.execute(f"SELECT * FROM {table}") if names else ():
                    for column, reason in _unreadable(table, dict(zip(names, row, strict=True))):
                        return f"table {table}, {column}: {reason}"
            except DAMAGE as error:
                return f"table {table}: {error}"
    return ""


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in db.execute(f"PRAGMA table_info ({table})")]
