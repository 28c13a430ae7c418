"""`marksweep wrap`: runs a client through a proxy."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from marksweep.cli.common import command as make_command
from marksweep.cli.common import say, settings, store_option, tokens_in
from marksweep.cli.proxy import (
    dry_run_option,
    keep_option,
    limit_option,
    strategy_option,
    subscription_option,
)


@make_command("wrap")
@limit_option
@strategy_option
@store_option
@dry_run_option
@subscription_option
@keep_option
@click.argument("client")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
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
    from marksweep.proxy.wrapping import wrap

    found = client_named(client)
    arguments = arguments[1:] if arguments[:1] == ("--",) else arguments
    tokens_in(limit)
    location = settings(store).store.location
    options = ["--limit", limit, "--store", location, "--keep-days", str(keep_days)]
    options += ["--strategy", strategy] if strategy else []
    options += ["--dry-run"] if dry_run else []
    options += ["--rewrite-subscriptions"] if rewrite_subscriptions else []
    place = location if "://" in location else str(Path(location).absolute())
    recall = [sys.executable, "-m", "marksweep", "swept", "--mcp", "--store", place]
    done = wrap(found, arguments, options, recall, say)
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


command.context_settings = {"allow_interspersed_args": False, "ignore_unknown_options": True}
