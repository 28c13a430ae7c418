"""The small server that a wrapped client gets: one tool, on the proxy's store."""

from __future__ import annotations

from pathlib import Path

from mcp.server import MCPServer

from marksweep.errors import MarksweepError
from marksweep.recalling import DESCRIPTION
from marksweep.recalling import recall as recall_swept
from marksweep.stores.open import open_store


def serve_recall(store: str | Path) -> None:
    """Serve on stdin and stdout until the client closes its end."""
    server = MCPServer("marksweep", instructions=DESCRIPTION)

    def recall(what: str, start: int = 0) -> str:
        opened = open_store(store)
        try:
            return recall_swept(opened, what, start)
        except MarksweepError as error:
            return str(error)
        finally:
            opened.close()

    server.add_tool(recall, name="recall", description=DESCRIPTION)
    server.run("stdio")
