"""`marksweep swept`: find what a proxy swept."""

from __future__ import annotations

from contextlib import closing

import click

from marksweep.cli.common import command as make_command
from marksweep.cli.common import settings, store_option
from marksweep.errors import BadInput, MarksweepError


@make_command("swept")
@click.argument("what", nargs=-1)
@click.option("--start", default=0, type=click.IntRange(0), help="First character to print.")
@click.option("--limit", default=4_000, show_default=True, help="Tokens to print at most.")
@click.option("--mcp", is_flag=True, help="Serve it to an agent instead, over MCP on stdio.")
@store_option
def command(what: tuple[str, ...], start: int, limit: int, mcp: bool, store: str | None) -> None:
    """Find what the proxy swept: by the id in its line, or by words.

    \b
    marksweep swept m6
    marksweep swept port of the proxy
    """
    location = settings(store).store.location
    if mcp:
        _serve(location)
        return
    if not what:
        raise BadInput("say what to find: an id such as m6, or words.")
    from marksweep.recalling import recall
    from marksweep.stores.open import open_store

    with closing(open_store(location)) as opened:
        click.echo(recall(opened, " ".join(what), start, limit))


def _serve(store: str) -> None:
    """Serve one tool on stdin and stdout until the client closes its end."""
    from mcp.server import MCPServer

    from marksweep import recalling
    from marksweep.stores.open import open_store

    server = MCPServer("marksweep", instructions=recalling.DESCRIPTION)

    def recall(what: str, start: int = 0) -> str:
        with closing(open_store(store)) as opened:
            try:
                return recalling.recall(opened, what, start)
            except MarksweepError as error:
                return str(error)

    server.add_tool(recall, name="recall", description=recalling.DESCRIPTION)
    server.run("stdio")
