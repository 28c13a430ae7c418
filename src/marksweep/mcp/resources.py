"""Resources: segments, plans, the journal and the ledger, each with a URI."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from mcp.server import MCPServer
from mcp.server.mcpserver import ResourceSecurity
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from marksweep.errors import MarksweepError, NotFound
from marksweep.mcp.server_state import ServerState
from marksweep.segments import Segments

ENTRIES = 100
"""Journal entries that are returned, newest first."""

JSON = "application/json"

BY_NAME = ResourceSecurity(reject_path_traversal=False, reject_absolute_paths=False)
"""A segment's id may look like a path: ids are only looked up in the store."""


def add_resources(server: MCPServer[ServerState], state: ServerState) -> None:
    """Register the resources of a server, read from its state."""

    def read(look: Callable[[Segments], object]) -> str:
        try:
            with state.open_workspace().segments() as context:
                return msgspec.json.encode(look(context)).decode()
        except NotFound as error:
            raise ResourceNotFoundError(str(error)) from error
        except MarksweepError as error:
            state.note_failure("a resource", error)
            raise ResourceError(str(error)) from error

    @server.resource("marksweep://segments/{id}", mime_type=JSON, security=BY_NAME)
    def segment(id: str) -> str:
        """A segment, live or stashed, and what keeps it or why it was swept."""
        return read(lambda context: _segment(context, id))

    @server.resource("marksweep://plans/{id}", mime_type=JSON, security=BY_NAME)
    def plan(id: str) -> str:
        """A plan: each step with its reason."""
        return read(lambda context: context.saved(id))

    @server.resource("marksweep://journal", mime_type=JSON)
    def journal() -> str:
        """What was planned, swept, restored and undone, newest first."""
        return read(lambda context: context.history(ENTRIES))

    @server.resource("marksweep://ledger", mime_type=JSON)
    def ledger() -> str:
        """What fills the window: tokens per type, and the limits."""
        return read(
            lambda context: {
                "tokens": context.tokens,
                "budget": context.budget,
                "lines": context.ledger(),
            }
        )


def _segment(context: Segments, segment_id: str) -> object:
    live = context.get(segment_id)
    if live is not None:
        return {"state": "live", "why": context.why(segment_id), "segment": live}
    why = context.why(segment_id)
    stashed = context.store.stash.get(context.workspace, [segment_id])[0]
    return {"state": "stashed", "why": why, "segment": stashed.segment}
