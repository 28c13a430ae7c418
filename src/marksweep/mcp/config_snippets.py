"""How to add the server to a client: what to write, and where."""

from __future__ import annotations

import json
from collections.abc import Sequence

from marksweep.errors import UnknownName

NAME = "marksweep"

FILES = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "codex": "~/.codex/config.toml",
}
"""Where each client looks: in the project, or in the home folder."""


def snippet(client: str, arguments: Sequence[str] = ()) -> str:
    """Write the entry for a client, with these arguments after `marksweep serve`."""
    words = ["serve", *arguments]
    if client in ("claude-code", "cursor"):
        return _json({"mcpServers": {NAME: {"command": NAME, "args": words}}})
    if client == "vscode":
        return _json({"servers": {NAME: {"type": "stdio", "command": NAME, "args": words}}})
    if client == "codex":
        quoted = ", ".join(json.dumps(word) for word in words)
        return f'[mcp_servers.{NAME}]\ncommand = "{NAME}"\nargs = [{quoted}]'
    raise UnknownName(f"no client {client!r}; known are {', '.join(FILES)}.")


def _json(value: object) -> str:
    return json.dumps(value, indent=2)
