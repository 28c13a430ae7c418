"""What a tool asks of its client: its folders, a confirmation, a summary.

Each question is a resolver: it runs before the tool and answers from what is known, or asks. The
protocol decides how the question is sent. A client is not asked for what it does not support.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlparse
from urllib.request import url2pathname

import anyio.to_thread
from mcp.server.mcpserver import ListRoots, Resolve
from mcp_types import ListRootsResult
from pydantic import BaseModel, Field

from marksweep.errors import NotConfirmed
from marksweep.mcp.server_state import ServerState, Workspace
from marksweep.mcp.tool import Ctx
from marksweep.model import Plan


class Consent(BaseModel):
    """The answer to whether something may be deleted."""

    delete: bool = Field(title="Delete these", description="They can be restored for a while.")


def state_of(ctx: Ctx) -> ServerState:
    """Return what the server works on."""
    return ctx.request_context.lifespan_context


def can_confirm(ctx: Ctx) -> bool:
    """Return whether the client can ask its user."""
    offered = ctx.client_capabilities
    elicitation = offered.elicitation if offered else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def unconfirmed(plan: Plan) -> NotConfirmed:
    """Refuse a saved plan of the working set that deletes, and say how it is confirmed."""
    return NotConfirmed(
        f"{plan.plan_id} deletes segments and was not confirmed; nothing was changed. To "
        f"delete, call context_gc_prune with plan_id and confirm both {plan.plan_id!r}; or "
        "leave strategy out, and they go to the stash."
    )


def can_sample(ctx: Ctx) -> bool:
    """Return whether the client lends its model."""
    offered = ctx.client_capabilities
    return offered is not None and offered.sampling is not None


async def client_folders(ctx: Ctx) -> ListRootsResult | ListRoots | None:
    """Ask for the client's folders, if the server was started without any."""
    offered = ctx.client_capabilities
    if state_of(ctx).is_settled or offered is None or offered.roots is None:
        return None
    return ListRoots()


async def here(
    ctx: Ctx, listed: Annotated[ListRootsResult | None, Resolve(client_folders)]
) -> Workspace:
    """Return the workspace of a call."""
    state = state_of(ctx)
    if not state.is_settled:
        await anyio.to_thread.run_sync(state.settle, folders_of(listed))
    opened = state.opened()
    if opened is None:
        opened = await anyio.to_thread.run_sync(state.open_workspace)
    return opened


def folders_of(listed: ListRootsResult | None) -> list[Path]:
    """Read the folders of the client; the folder it was started in if it lists none."""
    paths = [
        Path(url2pathname(unquote(urlparse(str(root.uri)).path)))
        for root in (listed.roots if listed else [])
    ]
    return [path for path in paths if path.is_dir()] or [Path.cwd()]


CurrentWorkspace = Annotated[Workspace, Resolve(here)]
"""The workspace of a call, found before the tool runs."""
