"""Listening: `marksweep web` as a process, and what other servers of ours share with it."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from socket import IPPROTO_TCP, TCP_NODELAY

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from marksweep.errors import BadInput, Refused
from marksweep.urls import is_loopback
from marksweep.web.heaps import Heaps
from marksweep.web.routes import LOOPBACK, PATH, Door, routes

TOKEN = "MARKSWEEP_TOKEN"  # noqa: S105 - the variable's name
"""The environment variable that may hold the token; else a new one is made at every start."""

SHORTEST_TOKEN = 16
"""Characters below which a token could be guessed."""

GRACEFUL_SECONDS = 5
"""How long answers under way may take when a server ends."""


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens."""

    host: str = "127.0.0.1"
    port: int = 8724
    """0: a free one."""
    hosts: tuple[str, ...] = ()
    """Host headers to accept beside its own, such as the name of a proxy."""

    def door(self, token: str) -> Door:
        """Let those in who mean this host and have the token."""
        return Door(hosts=(*LOOPBACK, f"{self.host}:*", *self.hosts), token=token)


def token() -> str:
    """Give the token of the environment, or a new one."""
    given = os.environ.get(TOKEN, "").strip()
    if given and len(given) < SHORTEST_TOKEN:
        raise BadInput(
            f"{TOKEN} has {len(given)} characters; expected {SHORTEST_TOKEN} or more. "
            "Make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return given or secrets.token_urlsafe(SHORTEST_TOKEN)


def page_url(url: str, token: str) -> str:
    """Give the page's address. What follows # stays in the browser: no server sees it."""
    return f"{url}{PATH}/#{token}"


def serve(heaps: Heaps, listening: Listening, *, started: Callable[[str], None]) -> None:
    """Serve the page until interrupted; `started` is told its address."""
    if not is_loopback(listening.host) and not os.environ.get(TOKEN, "").strip():
        raise Refused(
            f"--host {listening.host} can be reached from other machines, and there is no token. "
            f"Set {TOKEN}, or listen on 127.0.0.1."
        )
    given = token()

    async def to_page(_: Request) -> Response:
        return RedirectResponse(f"{PATH}/")

    found = [Route("/", to_page), *routes(lambda _: heaps, listening.door(given))]
    app = Starlette(routes=found)
    asyncio.run(listen(app, listening, lambda url: started(page_url(url, given))))


async def listen(app: ASGIApp, listening: Listening, started: Callable[[str], None]) -> None:
    """Serve an application until interrupted; `started` is told the address."""
    config = uvicorn.Config(
        app,
        host=listening.host,
        port=listening.port,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )
    socket = config.bind_socket()
    # asyncio does so only for sockets that name their protocol: chunks would wait for each other.
    socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
    socket.listen(config.backlog)
    try:
        shown = f"[{listening.host}]" if ":" in listening.host else listening.host
        started(f"http://{shown}:{socket.getsockname()[1]}")
        await uvicorn.Server(config).serve(sockets=[socket])
    finally:
        socket.close()
