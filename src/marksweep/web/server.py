"""`marksweep web` as a process, and what the other servers share with it."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import sys
from collections.abc import Callable
from socket import IPPROTO_TCP, SO_LINGER, SOL_SOCKET, TCP_NODELAY

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from marksweep.errors import BadInput, Refused
from marksweep.urls import is_loopback
from marksweep.web.bearer import TOKEN, BearerTokens, new_token, token_of_environment
from marksweep.web.heaps import Heaps
from marksweep.web.routes import LOOPBACK, PATH, Door, routes

GRACEFUL_SECONDS = 5
"""How long a stopping server waits for running responses."""


_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)
"""The header with which a request asks for another protocol."""


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection that speaks HTTP/1.1 only, and is reset, not closed, if this process is killed.

    A reset in the middle of a response is an error that clients retry. Some take a plain close as
    the end of the session.
    """

    def data_received(self, data: bytes) -> None:
        """Read a request as if it did not ask for another protocol.

        The parser drops the body of one that does: Java's client asks for HTTP/2 in every request.
        """
        if self.cycle is None or not self.cycle.more_body:
            head, *rest = data.split(b"\r\n\r\n", 1)
            data = b"\r\n\r\n".join([_UPGRADE.sub(b"", head), *rest])
        super().data_received(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Make the kernel reset the connection unless somebody closes it."""
        _linger(transport, is_reset=1)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close as usual, so that what was written still arrives."""
        _linger(self.transport, is_reset=0)
        super().connection_lost(exc)


def _linger(transport: asyncio.BaseTransport, *, is_reset: int) -> None:
    option = struct.pack("hh" if sys.platform == "win32" else "ii", is_reset, 0)
    transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, option)


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens."""

    host: str = "127.0.0.1"
    port: int = 8724
    """0: a free one."""
    hosts: tuple[str, ...] = ()
    """Host headers to accept besides its own, such as the name of a proxy."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Host headers of requests that are meant for this server; * is any port."""
        return (*LOOPBACK, f"{self.host}:*", *self.hosts)

    def door(self, tokens: BearerTokens | None = None) -> Door:
        """Admit requests that name this host, and have a token if there are any."""
        return Door(hosts=self.accepted, tokens=tokens)


def page_url(url: str, token: str) -> str:
    """Return the page's address. The part after # stays in the browser."""
    return f"{url}{PATH}/#{token}" if token else f"{url}{PATH}/"


def serve(heaps: Heaps, listening: Listening, *, started: Callable[[str], None]) -> None:
    """Serve the page until interrupted; `started` receives its address."""
    given = token_of_environment()
    if not listening.is_loopback and not given:
        raise Refused(
            f"--host {listening.host} can be reached from other machines, and there is no token. "
            f"Set {TOKEN}, or listen on 127.0.0.1."
        )
    given = given or new_token()
    tokens = BearerTokens({given: ["page"]})

    async def to_page(_: Request) -> Response:
        return RedirectResponse(f"{PATH}/")

    found = [Route("/", to_page), *routes(lambda _: heaps, listening.door(tokens))]
    app = Starlette(routes=found)
    asyncio.run(listen(app, listening, lambda url: started(page_url(url, given))))


async def listen(app: ASGIApp, listening: Listening, started: Callable[[str], None]) -> None:
    """Serve an application until interrupted; `started` receives the address."""
    config = uvicorn.Config(
        app,
        host=listening.host,
        port=listening.port,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )
    with _bound(listening, config.backlog) as bound:
        # asyncio sets this only for sockets with an explicit protocol; without it, chunks are
        # delayed.
        bound.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        shown = f"[{listening.host}]" if ":" in listening.host else listening.host
        started(f"http://{shown}:{bound.getsockname()[1]}")
        await uvicorn.Server(config).serve(sockets=[bound])


def _bound(listening: Listening, backlog: int) -> socket.socket:
    """Open the socket of a server; BadInput says why it cannot listen there."""
    is_ipv6 = ":" in listening.host
    try:
        return socket.create_server(
            (listening.host, listening.port),
            family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
            backlog=backlog,
            dualstack_ipv6=is_ipv6 and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        raise BadInput(
            f"cannot listen on {listening.host} port {listening.port}: {error.strerror}. Pass "
            "--port with another number, or 0 for a free one, and an address of this machine as "
            "--host."
        ) from error
