"""`marksweep proxy`: any agent by its base URL."""

from __future__ import annotations

import click

from marksweep.cli.common import command as make_command
from marksweep.cli.common import settings, store_option, tokens_in

LIMIT = "100k"
"""Default limit in tokens: half of a common window."""

KEEP_DAYS = 30.0
"""Days that a conversation stays in the store after its last message."""

limit_option = click.option(
    "--limit", default=LIMIT, show_default=True, help="Tokens that a request may have."
)
strategy_option = click.option(
    "--strategy", help="How to choose what is removed; default: the settings."
)
upstream_option = click.option(
    "--upstream", default="", metavar="URL", help="Where all requests go; default: their provider."
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Send requests unchanged; log what would be removed."
)
keep_option = click.option(
    "--keep-days",
    default=KEEP_DAYS,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Delete conversations without new messages for this long.",
)
subscription_option = click.option(
    "--rewrite-subscriptions",
    is_flag=True,
    help="Also rewrite requests paid by a subscription; see your provider's terms.",
)


@make_command("proxy")
@limit_option
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8723, show_default=True, type=click.IntRange(0, 65_535))
@upstream_option
@click.option("--route", "routes", multiple=True, metavar="NAME=URL", help="Where /@NAME/… goes.")
@strategy_option
@store_option
@dry_run_option
@click.option("--forward-only", is_flag=True, help="Send requests unchanged, without reading them.")
@subscription_option
@keep_option
@click.option("--allow-remote", is_flag=True, help="Let other machines connect.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    help="JSON whose keys are the tokens of the page and of /metrics; read again on change.",
)
def command(
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
    options = Options(
        limit=tokens_in(limit),
        strategy=strategy or found.conversation.choice(),
        is_dry_run=dry_run,
        forwards_only=forward_only,
        rewrites_subscriptions=rewrite_subscriptions,
        keep_days=keep_days,
    )
    serve(
        Listening(host=host, port=port, allows_others=allow_remote, token_file=token_file),
        options,
        Upstreams.read(upstream, routes),
        found.store.location,
        started=lambda url, page: click.echo(f"listening on {url}\nthe page is at {page}"),
    )
