"""The heap as a page, on the server over HTTP: each caller sees its workspaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from starlette.requests import Request
from starlette.routing import Route

from marksweep.mcp.guard import ACCESS_KEY
from marksweep.mcp.server_state import ServerState
from marksweep.web.heaps import Heaps
from marksweep.web.routes import Door, routes
from marksweep.web.sources import Source, WorkingSet
from marksweep.web.stored import Stored


def page_routes(state: ServerState, hosts: Sequence[str]) -> list[Route]:
    """Return the page's routes, behind the guard: it has checked the token."""

    @contextmanager
    def segments(workspace: str) -> Iterator[Source]:
        with state.open_workspace(workspace).segments() as found:
            if state.settings.memory.keeps_segments:
                found.keep(state.memory().sync.cited_segments(workspace_id=workspace))
            yield WorkingSet(found)

    stored = Stored(state.store, state.settings, lambda: state.memory().sync, segments=segments)
    heaps: dict[tuple[str, ...] | None, Heaps] = {}

    def seen_by(request: Request) -> Heaps:
        only = request.scope[ACCESS_KEY].only
        if only not in heaps:
            heaps[only] = stored.heaps(only)
        return heaps[only]

    return routes(seen_by, Door(hosts=hosts))
