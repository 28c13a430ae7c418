"""The graph in FalkorDB: one graph per workspace, on a server by URL or embedded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from marksweep.stores.graph import reading
from marksweep.stores.graph.base import Item, Nodes
from marksweep.stores.graph.falkor import search, sweep, transfer, writing
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import (
    PREFIX,
    RECONNECT_SECONDS,
    Connection,
    Params,
    Result,
)
from marksweep.stores.graph.rows import Row, plain
from marksweep.stores.leases import ServerLeases

if TYPE_CHECKING:
    from marksweep.stores.graph.falkor.server import EmbeddedServer

Given = ParamSpec("Given")

REWRITE_POLL_SECONDS = 0.05
"""How often to check whether the server has rewritten its files."""


def _method(
    work: Callable[Concatenate[Connection, Given], Result],
) -> Callable[Concatenate[FalkorGraphStore, Given], Result]:
    """Make a method that runs work on a store's connection."""

    @wraps(work)
    def call(store: FalkorGraphStore, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return work(store.db, *args, **kwargs)

    return call


class FalkorGraphStore:
    """Graphs of any number of workspaces on one server."""

    def __init__(
        self, url: str, *, prefix: str = PREFIX, patience_seconds: float = RECONNECT_SECONDS
    ) -> None:
        """Set the server's URL, and how long a call retries while the server is down."""
        self.db = Connection(url, prefix, patience_seconds)
        self._server: EmbeddedServer | None = None
        leases = ServerLeases(
            self.db.command, lambda name, purpose: f"{prefix}lease:{purpose}:{plain(name)}"
        )
        self.acquire, self.renew, self.release = leases.acquire, leases.renew, leases.release

    fetch = _method(reading.fetch)
    find = _method(reading.find)
    notes = _method(reading.notes)
    links = _method(reading.links)
    definitions = _method(reading.definitions)
    entities = _method(reading.entities)
    files = _method(reading.files)
    file_at = _method(reading.file_at)
    survey = _method(sweep.survey)
    survey_memories = _method(sweep.survey_memories)
    ids = _method(sweep.ids)
    deleted = _method(reading.deleted)
    version = _method(reading.version)
    counts = _method(sweep.counts)
    put = _method(writing.put)
    copy = _method(writing.copy)
    remove = _method(writing.remove)
    merge = _method(writing.merge)
    pin = _method(writing.pin)
    unpin = _method(writing.unpin)
    touch = _method(writing.touch)
    begin_run = _method(writing.begin_run)
    stamp = _method(writing.stamp)
    finish_run = _method(writing.finish_run)
    mark_stale = _method(writing.mark_stale)
    soft_delete = _method(sweep.soft_delete)
    restore = _method(sweep.restore)
    load = _method(transfer.load)
    purge = _method(sweep.purge)
    runs = _method(reading.runs)
    search = _method(search.search)

    @classmethod
    def embedded(cls, directory: str | Path) -> FalkorGraphStore:
        """Open a store on a directory, with a server that starts and stops with its users."""
        from marksweep.stores.graph.falkor.server import EmbeddedServer  # not on Windows

        server = EmbeddedServer(directory)
        server.open()
        store = cls(server.url)
        store._server = server
        store.db.revive = server.revive
        store.db.advice = f"{server.directory / 'falkordb.log'} says why"
        return store

    def workspaces(self) -> tuple[str, ...]:
        """List the workspaces that are not empty."""
        names = self.db.graphs()
        return tuple([name for name in names if self.db.read(name, cypher.ANY_NODE)])

    def export(self, workspace_id: str, nodes: Nodes | None = None) -> Iterator[Item]:
        """Stream nodes, then the edges that touch them."""
        if nodes is None:
            return transfer.everything(self.db, workspace_id)
        return iter(reading.nodes_with_edges(self.db, workspace_id, nodes))

    def query(self, workspace_id: str, statement: str, params: Params) -> list[Row]:
        """Run a custom read-only statement."""
        return self.db.read(workspace_id, statement, params)

    def scrub(self) -> tuple[str, ...]:
        """Make the server rewrite its files without erased content.

        Queries that the server logged are deleted too: their parameters contain texts.
        """
        left = []
        for workspace_id in self.db.graphs():
            self.db.command("DEL", f"telemetry{{{self.db.key(workspace_id)}}}")
        if self.db.command("GRAPH.CONFIG", "GET", "CMD_INFO") == ["CMD_INFO", True]:
            left.append(
                f"queries that {self.db.url} records for its telemetry; turn that off with "
                "GRAPH.CONFIG SET CMD_INFO no, and forget again"
            )
        if int(self._persistence("aof_enabled")):
            self.db.command("BGREWRITEAOF")
            self._await_end("aof_rewrite_in_progress", "aof_rewrite_scheduled")
            if self._persistence("aof_last_bgrewrite_status") != "ok":
                left.append(f"the append-only file of {self.db.url}: its server cannot rewrite it")
        if self.db.command("CONFIG", "GET", "save") not in ({"save": ""}, ["save", ""]):
            self.db.command("BGSAVE", "SCHEDULE")
            self._await_end("rdb_bgsave_in_progress")
            if self._persistence("rdb_last_bgsave_status") != "ok":
                left.append(f"the snapshot of {self.db.url}: its server cannot write a new one")
        return tuple(left)

    def _persistence(self, field: str) -> str:
        found = self.db.command("INFO", "persistence")
        return str(found[field]) if isinstance(found, dict) else ""

    def _await_end(self, *fields: str) -> None:
        while any(self._persistence(field) == "1" for field in fields):
            time.sleep(REWRITE_POLL_SECONDS)

    def close(self) -> None:
        """Close the connections, and release an embedded server."""
        self.db.close()
        if self._server is not None:
            self._server.close()
