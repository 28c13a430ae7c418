"""`marksweep serve`: the MCP server, on stdio or over HTTP."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from marksweep.cli.common import FiniteRange
from marksweep.errors import MarksweepError, UnknownName
from marksweep.settings.checks import MAX_DAYS
from marksweep.urls import redacted

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


@click.command()
@click.option("--workspace", default="", help="Workspace in the store; default: the settings.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="A folder the server may read; the first is the project. Default: the client's roots.",
)
@click.option("--store", default="", help="The store; default: the settings.")
@click.option("--http", is_flag=True, help="Serve streamable HTTP instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8722, show_default=True, type=click.IntRange(0, 65_535))
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    help='JSON that maps bearer tokens to workspaces: {"TOKEN": ["project"]}.',
)
@click.option("--allow-host", "hosts", multiple=True, help="A Host header to accept, with port.")
@click.option(
    "--rate",
    default=500.0,
    show_default=True,
    type=FiniteRange(0, min_open=True),
    help="Requests a second per caller.",
)
@click.option(
    "--collect-every",
    metavar="HOURS",
    type=FiniteRange(0, 24 * MAX_DAYS),
    help="Collect the long-term memory automatically at this interval; 0: never.  "
    "[default: the settings]",
)
@click.option(
    "--tools",
    default="few",
    show_default=True,
    type=click.Choice(["few", "all"]),
    help="few: remember, recall, forget, index_codebase, who_calls, prune_memory. all: every tool.",
)
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
)
@click.option(
    "--print-config",
    "client",
    type=click.Choice(list(FILES)),
    help="Print how to add the server to a client, and do nothing else.",
)
def command(
    workspace: str,
    roots: tuple[str, ...],
    store: str,
    http: bool,
    host: str,
    port: int,
    token_file: str | None,
    hosts: tuple[str, ...],
    rate: float,
    collect_every: float | None,
    tools: str,
    log_level: str,
    client: str | None,
) -> None:
    """Serve the tools to an agent, over MCP.

    \b
    marksweep serve --print-config claude-code     how to add it to a client
    marksweep serve                                stdio, in the client's folder
    marksweep serve --http --root .                streamable HTTP on 127.0.0.1
    """
    if client is not None:
        _print_config(client, workspace, roots, store, tools)
        return
    try:
        from marksweep.mcp.server_state import ServerState

        given = roots or ((".",) if http else None)  # else the client is asked for its folders
        state = ServerState(given, store=store, workspace=workspace, tools=tools)
        if http:
            from marksweep.mcp.http import HttpOptions, serve_http

            options = HttpOptions(
                host=host, port=port, token_file=token_file, hosts=hosts, rate=rate
            )
            serve_http(options, state, log_level=log_level, collect_every=collect_every)
        else:
            from marksweep.mcp.stdio import serve_stdio

            serve_stdio(state, log_level=log_level, collect_every=collect_every)
    except MarksweepError as error:
        from marksweep.cli.common import fail  # what it brings would slow the start down

        fail(error)


def _print_config(
    client: str, workspace: str, roots: Sequence[str], store: str, tools: str
) -> None:
    """Print a client's entry, with the options that say what the server works on."""
    click.echo(f"Add to {FILES[client]}:", err=True)
    given = [("--root", root) for root in roots]
    given += [("--workspace", workspace)] if workspace else []
    given += [("--tools", tools)] if tools != "few" else []
    if redacted(store) != store:
        click.echo(
            f"The store {redacted(store)} has a password, which does not belong into this file: "
            "set MARKSWEEP_STORE to its URL where the client is started.",
            err=True,
        )
    elif store:
        given += [("--store", store)]
    words = [word for pair in given for word in pair]
    click.echo(snippet(client, words))
    if adding := adding_command(client, words):
        click.echo(f"Or run:  {adding}", err=True)


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
