"""A KnowledgeGraph for tests: any store, a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from marksweep.graph.memory import KnowledgeGraph
from marksweep.graph.pruning import MemorySettings
from marksweep.heaps.graph import Limits
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.memory import MemoryStore
from tests.graph.graph_contract import OpenStore
from tests.graph.graphs import START


class Clock:
    """A clock that advances only by `wait`."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at

    def wait(self, *, days: float = 0, minutes: float = 0) -> None:
        self.at += timedelta(days=days, minutes=minutes)


class World:
    """A memory, its clock, and the folder of its backups."""

    def __init__(self, graph: GraphStore, backups: Path) -> None:
        self.clock = Clock()
        self.backups = backups
        self.store = MemoryStore()
        self.graph = graph
        self.memory = self.with_settings(MemorySettings(limits=Limits(wait_seconds=0.2)))

    def with_settings(self, settings: MemorySettings) -> KnowledgeGraph:
        return KnowledgeGraph(
            self.graph,
            self.store,
            backups=self.backups,
            settings=settings,
            actor="tester",
            clock=self.clock,
        )


class OnWorld:
    """Opens a memory for each test, on the store of `open_store`."""

    @pytest.fixture
    def world(self, open_store: OpenStore, tmp_path: Path) -> Iterator[World]:
        with open_store() as graph:
            yield World(graph, tmp_path / "backups")


def sqlite_graphs(path: Path) -> OpenStore:
    """Open stores on one SQLite file."""

    @contextmanager
    def opened() -> Iterator[GraphStore]:
        store = SqliteGraphStore(path)
        try:
            yield store
        finally:
            store.close()

    return opened
