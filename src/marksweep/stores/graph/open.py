"""Open a graph by its location, a path or URL."""

from __future__ import annotations

from pathlib import Path

from marksweep.errors import BadInput, UnknownName
from marksweep.paths import expanded
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.urls import split_scheme

IN_FOLDER = "graph.db"
"""Database file of a graph given as a folder."""

_SERVERS = {"falkordb": "redis", "falkordbs": "rediss"}
"""Schemes of a server's URL, and the client's names for them."""


def open_graph(where: str | Path) -> GraphStore:
    """Open the graph at a location; create it if there is none.

    | where | what |
    |---|---|
    | a folder, `graph.db` | SQLite |
    | `falkordb://host:6379`, `falkordbs://…` | a FalkorDB server |
    | `falkordb:folder` | FalkorDB embedded: a private server on a folder |
    """
    text = str(where)
    if not text or "\0" in text:
        raise BadInput(f"{text!r} cannot hold a graph. Name a folder or a URL.")
    scheme, rest = split_scheme(where) if isinstance(where, str) else ("", "")
    if not scheme:
        path = expanded(where)
        return SqliteGraphStore(path if path.suffix == ".db" else path / IN_FOLDER)
    if scheme not in _SERVERS or not rest.strip("/"):
        raise UnknownName(
            f"no graph is called {text!r}; known are a folder, {'://…, '.join(_SERVERS)}://… and "
            "falkordb:FOLDER. Put ./ before a folder whose name has a colon."
        )
    from marksweep.stores.graph.falkor import FalkorGraphStore

    if rest.startswith("//"):
        return FalkorGraphStore(server_url(text))
    return FalkorGraphStore.embedded(expanded(rest))


def server_url(where: str) -> str:
    """Convert a FalkorDB server's URL to the form its client expects."""
    scheme, rest = split_scheme(where)
    if scheme not in _SERVERS or not rest.startswith("//"):
        raise BadInput(f"{where!r} is not a FalkorDB server. Expected falkordb://host:6379.")
    return f"{_SERVERS[scheme]}:{rest}"
