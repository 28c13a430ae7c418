"""`marksweep serve`: the MCP server, on stdio or over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from marksweep.errors import MarksweepError
from marksweep.mcp.config_snippets import FILES, snippet

BAD_USAGE = 2
"""The exit code for options that cannot be used together."""


@click.command()
@click.option("--workspace", default="", help="Whose segments in the store; the settings say.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="A folder the server may read; the first is the project. The client's if left out.",
)
@click.option("--store", default="", help="Where things are kept; the settings say.")
@click.option("--http", is_flag=True, help="Serve streamable HTTP instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8722, show_default=True, type=click.IntRange(0, 65_535))
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    help='JSON that maps bearer tokens to workspaces: {"TOKEN": ["project"]}.',
)
@click.option("--allow-host", "hosts", multiple=True, help="A Host header to accept, with port.")
@click.option("--rate", default=500.0, show_default=True, help="Requests a second per caller.")
@click.option(
    "--collect-every",
    metavar="HOURS",
    type=click.FloatRange(0, min_open=False),
    help="Collect the long-term memory by itself at this interval; 0: never. Else as set.",
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
        _print_config(client, _arguments(workspace, roots, store))
        return
    try:
        if http:
            from marksweep.mcp.http import HttpOptions, serve_http

            options = HttpOptions(
                host=host, port=port, token_file=token_file, hosts=hosts, rate=rate
            )
            serve_http(
                options,
                roots or (".",),
                store,
                workspace,
                log_level=log_level,
                collect_every=collect_every,
            )
        else:
            from marksweep.mcp.stdio import serve_stdio

            serve_stdio(
                roots or None, store, workspace, log_level=log_level, collect_every=collect_every
            )
    except ModuleNotFoundError as error:
        print(
            f"marksweep serve needs the package {error.name}. "
            "Install it: pip install 'marksweep[mcp]'",
            file=sys.stderr,
        )
        sys.exit(BAD_USAGE)
    except MarksweepError as error:
        print(f"marksweep serve: {error}", file=sys.stderr)
        sys.exit(BAD_USAGE)


def _arguments(workspace: str, roots: Sequence[str], store: str) -> list[str]:
    """Repeat the options that say what the server works on."""
    given = [("--root", root) for root in roots]
    given += [("--workspace", workspace)] if workspace else []
    given += [("--store", store)] if store else []
    return [word for pair in given for word in pair]


def _print_config(client: str, arguments: list[str]) -> None:
    click.echo(f"Add to {FILES[client]}:", err=True)
    click.echo(snippet(client, arguments))
