"""The graph in one SQLite file: WAL, full-text search, any number of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from marksweep.stores.graph import reading
from marksweep.stores.graph.base import Item, Nodes
from marksweep.stores.graph.nouns import Kind
from marksweep.stores.graph.sqlite import runs, search, sweep, transfer, writing
from marksweep.stores.graph.sqlite.connection import Database

Given = ParamSpec("Given")
Result = TypeVar("Result")
Opened = TypeVar("Opened")

PURGE_BATCH = {Kind.MEMORY: 1000, Kind.CHUNK: 5000, Kind.ENTITY: 5000}
"""Nodes erased per transaction. Other writers wait for at most one; readers do not wait.

Larger batches purge faster: the word index is written once per transaction. A thousand memories
with five chunks each take about a quarter of a second.
"""


def _in(
    transaction: Callable[[Database], AbstractContextManager[Opened]],
    work: Callable[Concatenate[Opened, Given], Result],
) -> Callable[Concatenate[SqliteGraphStore, Given], Result]:
    """Make a method that runs work in one transaction."""

    @wraps(work)
    def call(store: SqliteGraphStore, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        with transaction(store.db) as db:
            return work(db, *args, **kwargs)

    return call


class SqliteGraphStore:
    """Graphs of any number of workspaces in one file."""

    def __init__(self, path: str | Path) -> None:
        self.db = Database(Path(path))

    fetch = _in(Database.snapshot, reading.fetch)
    find = _in(Database.snapshot, reading.find)
    notes = _in(Database.snapshot, reading.notes)
    links = _in(Database.snapshot, reading.links)
    definitions = _in(Database.snapshot, reading.definitions)
    entities = _in(Database.snapshot, reading.entities)
    files = _in(Database.snapshot, reading.files)
    file_at = _in(Database.snapshot, reading.file_at)
    survey = _in(Database.reading, sweep.survey)
    survey_memories = _in(Database.reading, sweep.survey_memories)
    ids = _in(Database.reading, sweep.ids)
    deleted = _in(Database.snapshot, reading.deleted)
    counts = _in(Database.reading, sweep.counts)

    workspaces = _in(Database.reading, runs.workspaces)
    version = _in(Database.snapshot, reading.version)

    put = _in(Database.writing, writing.put)
    copy = _in(Database.writing, writing.copy)
    remove = _in(Database.writing, writing.remove)
    merge = _in(Database.writing, writing.merge)
    pin = _in(Database.writing, writing.pin)
    unpin = _in(Database.writing, writing.unpin)
    touch = _in(Database.writing, writing.touch)
    begin_run = _in(Database.writing, runs.begin_run)
    stamp = _in(Database.writing, runs.stamp)
    finish_run = _in(Database.writing, runs.finish_run)
    mark_stale = _in(Database.writing, runs.mark_stale)
    soft_delete = _in(Database.writing, sweep.soft_delete)
    restore = _in(Database.writing, sweep.restore)
    load = _in(Database.writing, transfer.load)
    acquire = _in(Database.writing, runs.acquire)
    renew = _in(Database.writing, runs.renew)
    release = _in(Database.writing, runs.release)
    runs = _in(Database.snapshot, reading.runs)
    search = _in(Database.reading, search.search)

    def purge(self, workspace_id: str, nodes: Nodes, *, before: datetime) -> Nodes:
        """Erase nodes that were soft-deleted before a time, in short transactions."""
        gone = Nodes()
        for kind, size in PURGE_BATCH.items():
            of_kind = nodes.of(kind)
            for start in range(0, len(of_kind), size):
                batch = of_kind[start : start + size]
                with self.db.writing() as db:
                    gone += sweep.purge(db, workspace_id, kind, batch, before)
        return gone

    def export(self, workspace_id: str, nodes: Nodes | None = None) -> Iterator[Item]:
        """Stream nodes, then the edges that touch them."""
        if nodes is not None:
            with self.db.snapshot() as found:
                yield from reading.nodes_with_edges(found, workspace_id, nodes)
            return
        with self.db.reading() as db:
            yield from transfer.everything(db, workspace_id)

    def scrub(self) -> tuple[str, ...]:
        """Remove erased content from the file and its log."""
        return self.db.scrub()

    def close(self) -> None:
        """Close the file."""
        self.db.close()
