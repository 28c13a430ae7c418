"""Prompts: two pieces of work that a person may ask for by name."""

from __future__ import annotations

from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

from marksweep.mcp.desk import Desk


def clean_up(
    keep: Annotated[str, Field(description="What must not go, in your words.")] = "",
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
        "5. Tell me in three lines what went, how many tokens that freed, and the plan id that "
        "takes it back (context_gc_undo)."
    )


def hand_over(
    to: Annotated[str, Field(description="Who goes on: a colleague, the next session.")] = "",
) -> str:
    """Write down where things stand, for whoever goes on."""
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


def add_prompts(server: MCPServer[Desk]) -> None:
    """Offer the prompts of this module."""
    server.prompt(name="clean_up", title="Clean up the working set")(clean_up)
    server.prompt(name="hand_over", title="Hand over")(hand_over)
