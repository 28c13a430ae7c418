"""A client for tests: calls tools, and expects them to succeed or to fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import CallToolResult, TextContent

from marksweep.mcp.app import build_server
from marksweep.mcp.server_state import ServerState

MODES = ("legacy", "2026-07-28")
"""The previous protocol, and the current one."""


class Agent:
    """A client that checks its results."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.said = ""

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed; return its data. Its summary is in `said`."""
        result = await self.client.call_tool(tool, arguments)
        text = _words(result.content)
        assert not result.is_error, text
        data = data_of(result)
        self.said = data.pop("summary")
        return data

    async def fail(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that must refuse; return its message."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, f"{tool} did not refuse"
        assert result.structured_content is None
        words = _words(result.content)
        assert "Traceback" not in words
        return words

    async def add(self, *ids: str, text: str = "some words about it ", times: int = 20) -> None:
        """Add logs with these ids."""
        segments = [
            {"text": f"{name} {text * times}", "type": "log", "segment_id": name} for name in ids
        ]
        await self.call("context_add", segments=segments)

    async def live(self, *ids: str) -> list[str]:
        """Return which of these are in the working set."""
        found = []
        for name in ids:
            contents = await self.client.read_resource(f"marksweep://segments/{name}")
            if '"state":"live"' in contents.contents[0].text:  # type: ignore[union-attr]
                found.append(name)
        return found


def data_of(result: CallToolResult) -> dict[str, Any]:
    """Read the JSON answer of a tool of the full set; there is no structured content."""
    assert result.structured_content is None
    data: dict[str, Any] = json.loads(_words(result.content))
    return data


def _words(content: list[Any]) -> str:
    assert len(content) == 1
    assert isinstance(content[0], TextContent)
    return content[0].text


@asynccontextmanager
async def agent(
    folder: Path, mode: str = "2026-07-28", tools: str = "all", **offers: Any
) -> AsyncIterator[Agent]:
    """Start a server on a folder, in memory, and connect to it."""
    state = ServerState([folder], tools=tools)
    try:
        async with Client(build_server(state), mode=mode, **offers) as client:
            yield Agent(client)
    finally:
        await state.close()


def with_agent(
    folder: Path,
    work: Callable[[Agent], Awaitable[None]],
    mode: str = "2026-07-28",
    tools: str = "all",
    **offers: Any,
) -> None:
    """Let an agent do some work on its own server."""

    async def run() -> None:
        async with agent(folder, mode, tools, **offers) as one:
            await work(one)

    asyncio.run(run())
