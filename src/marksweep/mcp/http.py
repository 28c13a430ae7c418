"""The server over streamable HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from marksweep.errors import Refused
from marksweep.mcp.app import build_server
from marksweep.mcp.background import collecting
from marksweep.mcp.guard import ACCESS_KEY, Guard, Rates
from marksweep.mcp.logs import log_to_stderr
from marksweep.mcp.server_state import ACCESS, ServerState
from marksweep.monitoring import unhealthy_without_store
from marksweep.stores.files import is_exposed
from marksweep.web.bearer import TOKEN, BearerTokens
from marksweep.web.heaps import Heaps
from marksweep.web.routes import PATH as PAGE
from marksweep.web.routes import Door, routes
from marksweep.web.server import Listening, listen
from marksweep.web.sources import Source, WorkingSet
from marksweep.web.stored import Stored

PATH = "/mcp"

MAX_BODY = 4 * 1024 * 1024
"""Maximum bytes of a request. Larger lets one caller use more memory."""

THREADS = 8
"""Tools that run at once. More would only wait for each other's workspace, out of order."""

logger = logging.getLogger(__name__)


class HttpOptions(Listening, frozen=True, kw_only=True):
    """How the server listens, and to whom."""

    port: int = 8722
    token_file: str | None = None
    rate: float = 500.0
    """Requests a second that one caller may make."""


def serve_http(
    options: HttpOptions, state: ServerState, *, log_level: str, collect_every: float | None
) -> None:
    """Serve until interrupted. Refused without a token unless only this machine can connect."""
    tokens = BearerTokens.load(options.token_file, state.workspace())
    if not tokens and not options.is_loopback:
        raise Refused(
            f"--host {options.host} can be reached from other machines, and there is no token. "
            f"Pass --token-file, set {TOKEN}, or listen on 127.0.0.1."
        )
    log_to_stderr(log_level, lambda: tokens.secrets)
    if options.token_file is not None and is_exposed(Path(options.token_file)):
        logger.warning("others may read %s: chmod 600 it.", options.token_file)
    # uvicorn finds its parser in C (httptools) automatically; it makes every call a quarter faster.
    loop = {"use_uvloop": True}
    anyio.run(_serve, options, state, tokens, collect_every, backend_options=loop)


async def _serve(
    options: HttpOptions, state: ServerState, tokens: BearerTokens, collect_every: float | None
) -> None:
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    app = http_app(options, state, tokens)

    def started(url: str) -> None:
        logger.info("listening on %s%s", url, PATH)
        logger.info("the page is at %s%s/", url, PAGE)

    try:
        async with collecting(state, collect_every):
            await listen(app, options, started)
    finally:
        await state.close()


def http_app(options: HttpOptions, state: ServerState, tokens: BearerTokens) -> ASGIApp:
    """Put the server behind its guard."""
    server = build_server(state, [admitted])
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        transport_security=_security(options),
        host=options.host,
    )
    app.router.routes.extend(state.monitor.routes(unhealthy_without_store))
    app.router.routes.extend(_page_routes(state, options.door()))
    return state.monitor.counted(Guard(app, tokens, Rates(options.rate)))


def _page_routes(state: ServerState, door: Door) -> list[Route]:
    """Return the page's routes, behind the guard that has checked the token: each caller sees its
    workspaces."""

    @contextmanager
    def segments(workspace: str) -> Iterator[Source]:
        with state.open_workspace(workspace).segments() as found:
            yield WorkingSet(found)

    stored = Stored(state.store, state.settings, lambda: state.memory().sync, segments=segments)
    heaps: dict[tuple[str, ...] | None, Heaps] = {}

    def seen_by(request: Request) -> Heaps:
        only = request.scope[ACCESS_KEY].only
        if only not in heaps:
            heaps[only] = stored.heaps(only)
        return heaps[only]

    return routes(seen_by, door)


def _security(options: HttpOptions) -> TransportSecuritySettings:
    """Accept only requests addressed to us, against DNS rebinding."""
    hosts = list(options.accepted)
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


async def admitted(
    ctx: ServerRequestContext[ServerState, object], call_next: CallNext
) -> HandlerResult:
    """Use the access that the guard granted; refuse a request without it."""
    scope = getattr(ctx.request, "scope", {})
    if ACCESS_KEY not in scope:
        raise MCPError(INVALID_REQUEST, "this request did not come through the guard.")
    before = ACCESS.set(scope[ACCESS_KEY])
    try:
        return await call_next(ctx)
    finally:
        ACCESS.reset(before)
