from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.testing.graph_contract import (
    HostileContract,
    MoveContract,
    OpenStore,
    RememberContract,
    SearchContract,
)
from marksweep.testing.graph_sweep_contract import LeaseContract, RunContract, SweepContract


class TestSqliteGraph(
    RememberContract,
    SearchContract,
    HostileContract,
    MoveContract,
    RunContract,
    SweepContract,
    LeaseContract,
):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        @asynccontextmanager
        async def opened() -> AsyncIterator[GraphStore]:
            store = SqliteGraphStore(tmp_path / "graph.db")
            try:
                yield store
            finally:
                await store.close()

        return opened
