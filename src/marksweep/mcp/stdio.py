"""The server on stdin and stdout, for the client that started it."""

from __future__ import annotations

from collections.abc import Sequence

from marksweep.mcp.app import build_server
from marksweep.mcp.desk import Desk
from marksweep.mcp.logs import log_to_stderr


def serve_stdio(
    roots: Sequence[str] | None, store: str, workspace: str, log_level: str = "info"
) -> None:
    """Serve until the client closes its end. Without roots, its client's folders are asked for."""
    log_to_stderr(log_level)
    desk = Desk(roots, store=store, workspace=workspace)
    try:
        build_server(desk).run("stdio")
    finally:
        desk.close()
