"""Prompts: two pieces of work that a person may ask for by name."""

from __future__ import annotations

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import Field

from marksweep.mcp.server_state import ServerState


def clean_up(
    keep: Annotated[str, Field(description="What must stay, in your words.")] = "",
) -> str:
    """Make room in the working set, without losing what is needed."""
    care = f"These must stay, pin them first (context_gc_pin): {keep}. " if keep.strip() else ""
    return (
        "Clean up the working set. "
        f"{care}"
        "1. Say what you work on with context_focus. "
        "2. Call context_gc_analyze and read the reasons. "
        "3. Pin what you still need; if you pinned anything, analyze again. "
        "4. Call context_gc_prune with the plan id. Stash, do not delete. "
        "5. Tell me in three lines what was swept, how many tokens that freed, and the plan id "
        "that undoes it (context_gc_undo)."
    )


def hand_over(
    to: Annotated[str, Field(description="Who continues: a colleague, the next session.")] = "",
) -> str:
    """Write down the state of the work, for whoever continues."""
    whom = to.strip() or "the next session"
    return (
        f"Hand over to {whom}. "
        "1. Read marksweep://ledger, and look up with context_recall (action show) what you are "
        "no longer sure of. "
        "2. Write one summary: the goal, what is decided and why, what is done, what is open, the "
        "files that matter, and what was tried without success. "
        "3. Add it with context_add as type summary, tagged overview, with references to the "
        "segments it builds on, and pin it. "
        "4. Show me the summary and its id."
    )


PROMPTS = {
    "clean_up": (clean_up, "Clean up the working set"),
    "hand_over": (hand_over, "Hand over"),
}
"""The prompts by name, each with its title."""


def add_prompts(server: MCPServer[ServerState]) -> None:
    """Offer the prompts of this module."""
    for name, (prompt, title) in PROMPTS.items():
        server.prompt(name=name, title=title)(prompt)


async def in_words(
    ctx: ServerRequestContext[ServerState, object], call_next: CallNext
) -> HandlerResult:
    """Answer a bad request for a prompt as the caller's mistake; the SDK takes it for its own."""
    try:
        return await call_next(ctx)
    except ValueError as error:
        if ctx.method != "prompts/get":
            raise
        known = ", ".join(PROMPTS)
        raise MCPError(INVALID_PARAMS, f"{error}. The prompts are: {known}.") from error
