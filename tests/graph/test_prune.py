from __future__ import annotations

from pathlib import Path

import pytest

from marksweep.heaps.graph import Limits
from tests.graph.graph_contract import OpenStore
from tests.graph.memories import sqlite_graphs
from tests.graph.prune_contract import (
    ClientContract,
    ForgetContract,
    PruneMemoryContract,
    SafetyContract,
)
from tests.graph.servers import fresh_graphs


def test_the_cap_is_a_fifth_of_the_workspace_or_a_hundred_nodes() -> None:
    assert [Limits().cap(live) for live in (10, 499, 500, 1000)] == [100, 100, 100, 200]
    assert Limits(cap_percent=50).cap(1000) == 500


class MemoryContract(PruneMemoryContract, SafetyContract, ClientContract, ForgetContract):
    """All that a memory promises."""


class TestMemoryOnSqlite(MemoryContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return sqlite_graphs(tmp_path / "graph.db")


class TestMemoryOnFalkorServer(MemoryContract):
    @pytest.fixture
    def open_store(self, falkor_url: str) -> OpenStore:
        return fresh_graphs(falkor_url)


class TestMemoryOnEmbeddedFalkor(MemoryContract):
    @pytest.fixture
    def open_store(self, embedded_url: str) -> OpenStore:
        return fresh_graphs(embedded_url)
