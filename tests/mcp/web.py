"""A server over HTTP in a separate thread, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from marksweep.mcp.http import HttpOptions, http_app
from marksweep.mcp.server_state import ServerState
from marksweep.web.bearer import BearerTokens

ADA = "ada-has-a-long-token"
BOB = "bob-has-another-token"
BOTH = {ADA: ["ada", "shared"], BOB: ["bob", "shared"]}


class Server:
    """The address of a server."""

    def __init__(self, port: int, state: ServerState) -> None:
        self.address = f"http://127.0.0.1:{port}/mcp"
        self.state = state

    @contextlib.asynccontextmanager
    async def client(self, token: str = "", workspace: str = "", mode: str = "auto"):  # type: ignore[no-untyped-def] # noqa: ANN201
        """Connect, with a token and a workspace if they are given."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Marksweep-Workspace": workspace} if workspace else {}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(self.address, http_client=http)
            async with Client(transport, mode=mode) as client:
                yield client


@contextlib.contextmanager
def serving(
    folder: Path,
    tokens: dict[str, list[str]] | None = None,
    rate: float = 5_000,
    *,
    store: str = "",
    token_file: Path | None = None,
) -> Iterator[Server]:
    """Serve a folder while the block runs."""
    state = ServerState([folder], store=store, tools="all")
    app = http_app(HttpOptions(rate=rate), state, BearerTokens(tokens or {}, token_file))
    config = uvicorn.Config(
        app, port=0, log_config=None, access_log=False, timeout_graceful_shutdown=2
    )
    socket = config.bind_socket()
    server = uvicorn.Server(config)

    async def serve() -> None:
        await server.serve(sockets=[socket])
        await state.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            threading.Event().wait(0.01)
        yield Server(socket.getsockname()[1], state)
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        socket.close()
        assert not thread.is_alive(), "the server did not end"
