"""Listening: the proxy as a process."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NODELAY

import msgspec
import uvicorn

from marksweep.errors import Refused, UnreadableWarning
from marksweep.proxy.app import Proxy
from marksweep.proxy.endpoints import Upstreams
from marksweep.proxy.projection import Options, Projection
from marksweep.urls import is_loopback

GRACEFUL_SECONDS = 5
"""How long answers under way may take when the proxy ends."""


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where the proxy listens."""

    host: str = "127.0.0.1"
    port: int = 8723
    """0: a free one."""
    allows_others: bool = False
    """Whether other machines may connect."""


def serve(
    listening: Listening,
    options: Options,
    upstreams: Upstreams,
    store: str | Path,
    *,
    started: Callable[[str], None],
) -> None:
    """Serve until interrupted; `started` is told the address."""
    if not is_loopback(listening.host) and not listening.allows_others:
        raise Refused(
            f"--host {listening.host} can be reached from other machines, and whoever reaches it "
            "can read and change what agents send. Pass --allow-remote if that is meant."
        )
    warnings.filterwarnings("ignore", category=UnreadableWarning)
    logging.captureWarnings(True)
    logging.basicConfig(stream=sys.stderr, format="marksweep: %(message)s", level=logging.WARNING)
    logging.getLogger("marksweep.proxy").setLevel(logging.INFO)
    projection = Projection(options, store)
    try:
        asyncio.run(_serve(listening, Proxy(projection, upstreams), started))
    finally:
        projection.close()


async def _serve(listening: Listening, proxy: Proxy, started: Callable[[str], None]) -> None:
    config = uvicorn.Config(
        proxy.app(),
        host=listening.host,
        port=listening.port,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )
    socket = config.bind_socket()
    # asyncio does so only for sockets that name their protocol: chunks would wait for each other.
    socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
    async with _closing(proxy):
        try:
            shown = f"[{listening.host}]" if ":" in listening.host else listening.host
            started(f"http://{shown}:{socket.getsockname()[1]}")
            await uvicorn.Server(config).serve(sockets=[socket])
        finally:
            socket.close()


@asynccontextmanager
async def _closing(proxy: Proxy) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await proxy.close()
