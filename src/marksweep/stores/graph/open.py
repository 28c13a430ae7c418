"""Open a graph from a location string."""

from __future__ import annotations

from pathlib import Path

from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.location import Engine, graph_location, server_url


def open_graph(where: str | Path) -> GraphStore:
    """Open the graph at a location (see `stores.location`); create it if there is none."""
    engine, path = graph_location(where)
    if engine is Engine.SQLITE and path is not None:
        return SqliteGraphStore(path)
    from marksweep.stores.graph.falkor import FalkorGraphStore

    if path is None:
        return FalkorGraphStore(server_url(str(where)))
    return FalkorGraphStore.embedded(path)
