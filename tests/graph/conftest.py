from __future__ import annotations

from collections.abc import Iterator

import pytest

from marksweep.stores.graph.falkor.server import EmbeddedServer
from tests.graph.servers import network_server


@pytest.fixture(scope="session")
def falkor_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A FalkorDB network server, shared by the whole run."""
    with network_server(tmp_path_factory.mktemp("falkor")) as url:
        yield url


@pytest.fixture(scope="session")
def embedded_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An embedded FalkorDB, shared by the whole run."""
    server = EmbeddedServer(tmp_path_factory.mktemp("embedded"))
    server.open()
    try:
        yield server.url
    finally:
        server.close()
