"""`marksweep proxy`, `wrap` and `swept`: any agent by its base URL, and what was taken out."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path

import click

from marksweep.cli.common import FiniteRange, options, say, settings, store_option, tokens_in
from marksweep.cli.common import command as make_command
from marksweep.errors import BadInput, MarksweepError
from marksweep.proxy import KEEP_DAYS
from marksweep.settings.checks import MAX_DAYS

LIMIT = "100k"
"""Default limit in tokens: half of a common window."""

request_options = options(
    click.option(
        "--limit", default=LIMIT, show_default=True, help="Tokens that a request may have."
    ),
    click.option("--strategy", help="How to choose what is removed; default: the settings."),
    store_option,
    click.option(
        "--dry-run", is_flag=True, help="Send requests unchanged; log what would be removed."
    ),
    click.option(
        "--rewrite-subscriptions",
        is_flag=True,
        help="Also rewrite requests paid by a subscription; see your provider's terms.",
    ),
    click.option(
        "--keep-days",
        default=KEEP_DAYS,
        show_default=True,
        type=FiniteRange(0, MAX_DAYS, min_open=True),
        help="Delete conversations without new messages for this long.",
    ),
)
"""How requests are made to fit."""


@make_command("proxy")
@request_options
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8723, show_default=True, type=click.IntRange(0, 65_535))
@click.option(
    "--upstream", default="", metavar="URL", help="Where all requests go; default: their provider."
)
@click.option("--route", "routes", multiple=True, metavar="NAME=URL", help="Where /@NAME/… goes.")
@click.option("--forward-only", is_flag=True, help="Send requests unchanged, without reading them.")
@click.option("--allow-remote", is_flag=True, help="Let other machines connect.")
@click.option(
    "--allow-host", "hosts", multiple=True, help="A Host header the page accepts, with port."
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    help="JSON whose keys are the tokens of the page and of /metrics; read again on change.",
)
def proxy(
    limit: str,
    host: str,
    port: int,
    upstream: str,
    routes: tuple[str, ...],
    strategy: str | None,
    store: str | None,
    dry_run: bool,
    forward_only: bool,
    rewrite_subscriptions: bool,
    keep_days: float,
    allow_remote: bool,
    hosts: tuple[str, ...],
    token_file: str | None,
) -> None:
    """Run a proxy that makes the requests of any agent fit.

    \b
    marksweep proxy --limit 100k
    ANTHROPIC_BASE_URL=http://127.0.0.1:8723 claude
    OPENAI_BASE_URL=http://127.0.0.1:8723/v1 …

    Speaks Anthropic Messages, OpenAI chat and Responses, and Gemini. The client's own bytes go out
    until something is swept, then the same projection until the next sweep. What was swept is in
    the store: `marksweep swept`.
    """
    from marksweep.proxy.endpoints import Upstreams
    from marksweep.proxy.projection import Options
    from marksweep.proxy.server import Listening, serve

    found = settings(store)
    handling = Options(
        limit=tokens_in(limit),
        strategy=strategy or found.conversation.choice(),
        is_dry_run=dry_run,
        forwards_only=forward_only,
        rewrites_subscriptions=rewrite_subscriptions,
        keep_days=keep_days,
    )
    serve(
        Listening(
            host=host, port=port, hosts=hosts, allows_others=allow_remote, token_file=token_file
        ),
        handling,
        Upstreams.read(upstream, routes),
        found.store.location,
        started=lambda url, page: click.echo(f"listening on {url}\nthe page is at {page}"),
    )


@make_command("wrap")
@request_options
@click.argument("client")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def wrap(
    limit: str,
    strategy: str | None,
    store: str | None,
    dry_run: bool,
    rewrite_subscriptions: bool,
    keep_days: float,
    client: str,
    arguments: tuple[str, ...],
) -> None:
    """Run claude, codex, opencode, pi, gemini or aider through a proxy.

    \b
    marksweep wrap claude
    marksweep wrap --limit 60k codex -- exec "fix the tests"

    The client's own files are not changed. If the proxy cannot start, the client runs without it.
    """
    from marksweep.proxy.clients import client_named
    from marksweep.proxy.wrapping import wrap as run_wrapped
    from marksweep.stores.location import within

    found = client_named(client)
    arguments = arguments[1:] if arguments[:1] == ("--",) else arguments
    tokens_in(limit)
    location = settings(store).store.location
    asked = ["--limit", limit, "--keep-days", str(keep_days)]
    asked += ["--strategy", strategy] if strategy else []
    asked += ["--dry-run"] if dry_run else []
    asked += ["--rewrite-subscriptions"] if rewrite_subscriptions else []
    done = run_wrapped(found, arguments, asked, within(Path.cwd(), location), say)
    if done.totals is not None:
        totals = done.totals
        say(
            f"{totals.requests} requests, {totals.collections} collections, "
            f"{totals.tokens_freed:,} tokens freed; requests were shortened by "
            f"{totals.bytes_saved / 1e6:.1f} MB."
        )
        if done.restarts:
            say(
                f"the proxy died and was started again, {done.restarts} times; "
                "the figures are since its last start."
            )
        if done.only_forwards:
            say("it died too often; since then requests were forwarded unchanged.")
        if totals.failures:
            say(f"{totals.failures} requests were passed through unchanged after an error.")
    sys.exit(done.status)


wrap.context_settings = {"allow_interspersed_args": False, "ignore_unknown_options": True}


@make_command("swept")
@click.argument("what", nargs=-1)
@click.option("--start", default=0, type=click.IntRange(0), help="First character to print.")
@click.option(
    "--limit",
    default=4_000,
    show_default=True,
    type=click.IntRange(1),
    help="Tokens to print at most.",
)
@click.option("--mcp", is_flag=True, help="Serve it to an agent instead, over MCP on stdio.")
@store_option
@click.option(
    "--store-file",
    hidden=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that says which store: a location on the command line is seen by other users.",
)
def swept(
    what: tuple[str, ...],
    start: int,
    limit: int,
    mcp: bool,
    store: str | None,
    store_file: Path | None,
) -> None:
    """Find what the proxy swept: by the id in its line, or by words.

    \b
    marksweep swept m6
    marksweep swept port of the proxy
    """
    named = os.fsdecode(store_file.read_bytes()) if store_file else store
    location = settings(named).store.location
    if mcp:
        _serve(location)
        return
    if not what:
        raise BadInput("say what to find: an id such as m6, or words.")
    from marksweep.cli.render import printable
    from marksweep.recalling import recall
    from marksweep.stores.open import open_store

    with closing(open_store(location)) as opened:
        found = recall(opened, " ".join(what), start, limit)
    click.echo(printable(found) if sys.stdout.isatty() else found)


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
