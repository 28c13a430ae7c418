"""How to add the server to a client: what to write, and where."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from marksweep.errors import UnknownName

NAME = "marksweep"

FILES = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "codex": "~/.codex/config.toml",
}
"""Where each client looks for its configuration: in the project, or in the home folder."""


ADDING = {"claude-code": "claude mcp add --scope project", "codex": "codex mcp add"}
"""Clients' own commands that add a server."""


def own_command() -> tuple[str, ...]:
    """Return the command that runs this marksweep: its name, or its path if PATH has another."""
    on_path, own = shutil.which(NAME), shutil.which(NAME, path=str(Path(sys.executable).parent))
    if on_path and (own is None or Path(on_path).resolve() == Path(own).resolve()):
        return (NAME,)
    return (own,) if own else (sys.executable, "-m", NAME)


def adding_command(client: str, arguments: Sequence[str] = ()) -> str:
    """Write the shell command that adds the server to a client; empty if it has none."""
    if client not in ADDING:
        return ""
    return f"{ADDING[client]} {NAME} -- {shlex.join([*own_command(), 'serve', *arguments])}"


def snippet(client: str, arguments: Sequence[str] = ()) -> str:
    """Write the entry for a client, with these arguments after `marksweep serve`."""
    whole = [*own_command(), "serve", *arguments]
    command, words = whole[0], whole[1:]
    if client in ("claude-code", "cursor"):
        return _json({"mcpServers": {NAME: {"command": command, "args": words}}})
    if client == "vscode":
        return _json({"servers": {NAME: {"type": "stdio", "command": command, "args": words}}})
    if client == "codex":
        quoted = ", ".join(json.dumps(word) for word in words)
        return f"[mcp_servers.{NAME}]\ncommand = {json.dumps(command)}\nargs = [{quoted}]"
    raise UnknownName(f"no client {client!r}; known are {', '.join(FILES)}.")


def _json(value: object) -> str:
    return json.dumps(value, indent=2)
