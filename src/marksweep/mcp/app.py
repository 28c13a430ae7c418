"""The server: the tools, the resources and the prompts, on one state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mcp.server import MCPServer
from mcp.server.context import ServerMiddleware

import marksweep
from marksweep.mcp import (
    agent_tools,
    analyze_tool,
    context_tools,
    gc_tools,
    memory_tools,
    upkeep_tools,
)
from marksweep.mcp.prompts import add_prompts, in_words
from marksweep.mcp.resources import add_resources
from marksweep.mcp.server_state import ServerState, ToolSet

FEW_INSTRUCTIONS = """\
marksweep is your memory across sessions. recall before you ask what was decided or search files; \
remember decisions, preferences and facts in a sentence each, with replaces if an older note is no \
longer true; who_calls before you change a function. Nothing is lost at once: forget and \
prune_memory can be taken back for a week."""

INSTRUCTIONS = """\
marksweep keeps track of what you remember and collects what you no longer need.
Add what you learn with context_add, linked to what it builds on; say what you work on with \
context_focus. When context_add reports that a limit is near: context_gc_analyze shows what could \
go and why, context_gc_prune does exactly that. Nothing is lost: context_recall finds swept \
segments by their words, context_gc_undo reverses a sweep. Pin what must stay."""

TOOLS = (
    *context_tools.TOOLS,
    *analyze_tool.TOOLS,
    *gc_tools.TOOLS,
    *memory_tools.TOOLS,
    *upkeep_tools.TOOLS,
)
"""All tools, in the order in which they are listed."""

ALL = {tool.name: tool for tool in (*agent_tools.TOOLS, *TOOLS)}
"""The small set and the full one; a name in both means the tool of the full set."""


def build_server(
    state: ServerState, middleware: Sequence[ServerMiddleware[ServerState]] = ()
) -> MCPServer[ServerState]:
    """Build the server. The caller closes the state."""
    all_tools = state.tools is ToolSet.ALL

    @asynccontextmanager
    async def lifespan(_: MCPServer[ServerState]) -> AsyncIterator[ServerState]:
        yield state

    server = MCPServer(
        "marksweep",
        title="marksweep",
        description="One garbage collector for everything an agent remembers.",
        instructions=INSTRUCTIONS if all_tools else FEW_INSTRUCTIONS,
        version=marksweep.__version__,
        tools=list(ALL.values() if all_tools else agent_tools.TOOLS),
        lifespan=lifespan,
        middleware=[*middleware, in_words],
    )
    add_resources(server, state)
    if all_tools:
        add_prompts(server)
    return server
