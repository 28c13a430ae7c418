"""The proxy as a process."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from marksweep.errors import Refused, UnreadableWarning
from marksweep.proxy.app import Proxy
from marksweep.proxy.endpoints import Upstreams
from marksweep.proxy.projection import Options, Projection
from marksweep.web import server
from marksweep.web.bearer import BearerTokens, new_token, token_of_environment
from marksweep.web.routes import routes
from marksweep.web.server import listen, page_url
from marksweep.web.stored import conversations


class Listening(server.Listening, frozen=True, kw_only=True):
    """Where the proxy listens."""

    port: int = 8723
    """0: any free port."""
    allows_others: bool = False
    """Whether other machines may connect."""
    token_file: str | None = None
    """A JSON file whose keys are the tokens for the page and the metrics."""


def serve(
    listening: Listening,
    options: Options,
    upstreams: Upstreams,
    store: str | Path,
    *,
    started: Callable[[str, str], None],
) -> None:
    """Serve until interrupted; `started` gets the URL of the proxy and of its page."""
    if not listening.is_loopback and not listening.allows_others:
        raise Refused(
            f"--host {listening.host} can be reached from other machines, and whoever reaches it "
            "can read and change what agents send. Pass --allow-remote to allow that."
        )
    warnings.filterwarnings("ignore", category=UnreadableWarning)
    logging.captureWarnings(True)
    logging.basicConfig(stream=sys.stderr, format="marksweep: %(message)s", level=logging.WARNING)
    logging.getLogger("marksweep.proxy").setLevel(logging.INFO)
    tokens = BearerTokens.load(listening.token_file, "proxy")
    made = "" if tokens else new_token()
    if made:
        tokens = BearerTokens({made: ["proxy"]})
    # A token from a file is not printed.
    shown = made or token_of_environment()
    projection = Projection(options, store)
    heaps = conversations(projection.fit)
    page = routes(lambda _: heaps, listening.door(tokens))
    proxy = Proxy(projection, upstreams, page, None if made else tokens)
    try:
        asyncio.run(_serve(listening, proxy, lambda url: started(url, page_url(url, shown))))
    finally:
        projection.close()


async def _serve(listening: Listening, proxy: Proxy, started: Callable[[str], None]) -> None:
    try:
        await listen(proxy.app(), listening, started)
    finally:
        await proxy.close()
