from __future__ import annotations

import pytest

from tests.graph.graph_contract import (
    HostileContract,
    MoveContract,
    OpenStore,
    RememberContract,
)
from tests.graph.graph_merge_contract import MergeContract
from tests.graph.graph_search_contract import SearchContract
from tests.graph.graph_sweep_contract import LeaseContract, RunContract, SweepContract
from tests.graph.servers import fresh_graphs


class FalkorContract(
    RememberContract,
    MergeContract,
    SearchContract,
    HostileContract,
    MoveContract,
    RunContract,
    SweepContract,
    LeaseContract,
):
    """All of the contract."""


class TestFalkorServer(FalkorContract):
    @pytest.fixture
    def open_store(self, falkor_url: str) -> OpenStore:
        return fresh_graphs(falkor_url)


class TestEmbeddedFalkor(FalkorContract):
    @pytest.fixture
    def open_store(self, embedded_url: str) -> OpenStore:
        return fresh_graphs(embedded_url)
