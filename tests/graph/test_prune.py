from __future__ import annotations

from pathlib import Path

import pytest

from marksweep.testing.graph_contract import OpenStore
from tests.graph.memories import sqlite_graphs
from tests.graph.prune_contract import (
    ClientContract,
    ForgetContract,
    PruneMemoryContract,
    SafetyContract,
)
from tests.graph.servers import fresh_graphs


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
