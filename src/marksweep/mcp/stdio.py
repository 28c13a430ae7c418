"""The server on stdin and stdout, for the client that started it."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from marksweep.mcp.app import build_server
from marksweep.mcp.desk import Desk
from marksweep.mcp.logs import log_to_stderr


def serve_stdio(
    roots: Sequence[str] | None, store: str, workspace: str, log_level: str = "info"
) -> None:
    """Serve until the client closes its end. Without roots, its client's folders are asked for."""
    log_to_stderr(log_level)
    anyio.run(_serve, Desk(roots, store=store, workspace=workspace))


async def _serve(desk: Desk) -> None:
    try:
        await build_server(desk).run_stdio_async()
    finally:
        await desk.close()
