"""The server on stdin and stdout, for the client that started it."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from marksweep.mcp.app import build_server
from marksweep.mcp.background import collecting
from marksweep.mcp.desk import Desk
from marksweep.mcp.logs import log_to_stderr


def serve_stdio(
    roots: Sequence[str] | None,
    store: str,
    workspace: str,
    *,
    log_level: str = "info",
    collect_every: float | None = None,
) -> None:
    """Serve until the client closes its end. Without roots, its client's folders are asked for."""
    log_to_stderr(log_level)
    anyio.run(_serve, Desk(roots, store=store, workspace=workspace), collect_every)


async def _serve(desk: Desk, collect_every: float | None) -> None:
    try:
        async with collecting(desk, collect_every):
            await build_server(desk).run_stdio_async()
    finally:
        await desk.close()
