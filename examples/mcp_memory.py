"""A memory over MCP: what one session remembers, the next one recalls.

Needs `pip install 'marksweep[mcp]'`. A client such as Claude Code starts the same
command automatically, after `claude mcp add marksweep -- marksweep serve`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

SERVER = StdioServerParameters(command=sys.executable, args=["-m", "marksweep", "serve"])


async def session(tool: str, **arguments: Any) -> str:
    """Start the server as an agent would, call one tool, and stop it."""
    async with Client(stdio_client(SERVER)) as client:
        answer = await client.call_tool(tool, arguments)
        return "\n".join(getattr(block, "text", "") for block in answer.content)


print(asyncio.run(session("remember", text="The shop listens on port 8080.", tags=["ports"])))
print(asyncio.run(session("recall", query="which port does the shop listen on")))
