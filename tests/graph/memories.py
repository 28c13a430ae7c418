"""A GraphMemory for tests: any store, a clock that is turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from marksweep.graph.memory import GraphMemory
from marksweep.graph.outcomes import Limits, MemorySettings
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.memory import MemoryStore
from marksweep.testing.graph_contract import OpenStore
from marksweep.testing.graphs import START

Suite = TypeVar("Suite")


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at

    def wait(self, *, days: float = 0, minutes: float = 0) -> None:
        self.at += timedelta(days=days, minutes=minutes)


class World:
    """A memory, its clock, and the place of its backups."""

    def __init__(self, graph: GraphStore, backups: Path) -> None:
        self.clock = Clock()
        self.backups = backups
        self.store = MemoryStore()
        self.graph = graph
        self.memory = self.with_settings(MemorySettings(limits=Limits(wait_seconds=0.2)))

    def with_settings(self, settings: MemorySettings) -> GraphMemory:
        return GraphMemory(
            self.graph,
            self.store,
            backups=self.backups,
            settings=settings,
            actor="tester",
            clock=self.clock,
        )


def on_world(
    test: Callable[[Suite, World], Awaitable[None]],
) -> Callable[[Suite, OpenStore, Path], None]:
    """Run a test on a memory opened for it, in an event loop of its own."""

    def run(self: Suite, open_store: OpenStore, tmp_path: Path) -> None:
        async def body() -> None:
            async with open_store() as graph:
                await test(self, World(graph, tmp_path / "backups"))

        asyncio.run(body())

    run.__name__ = run.__qualname__ = getattr(test, "__name__", "test")
    return run


def sqlite_graphs(path: Path) -> OpenStore:
    """Open stores on one SQLite file."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[GraphStore]:
        store = SqliteGraphStore(path)
        try:
            yield store
        finally:
            await store.close()

    return opened
