"""The same server over three transports: in memory, as a child process, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.mcp.support import Agent, agent
from tests.mcp.test_stdio import child
from tests.mcp.web import serving

TRANSPORTS = ("memory", "stdio", "http")


@asynccontextmanager
async def reached(transport: str, folder: Path, mode: str, **offers: Any) -> AsyncIterator[Agent]:
    """Start a server on a folder and connect to it."""
    if transport == "memory":
        async with agent(folder, mode, **offers) as one:
            yield one
    elif transport == "stdio":
        async with Client(child(folder), mode=mode, **offers) as client:
            yield Agent(client)
    else:
        with serving(folder) as server:
            async with httpx2.AsyncClient(timeout=30) as http:
                wire = streamable_http_client(server.address, http_client=http)
                async with Client(wire, mode=mode, **offers) as client:
                    yield Agent(client)
