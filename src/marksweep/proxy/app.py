"""The HTTP side of the proxy: forwards every request to its provider and streams the answer back.

The body of a request to a model comes from `projection`. If the provider refuses a rewritten body
(400), the client's own body is sent instead, so the client never sees an error of ours.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from marksweep.errors import NotFound
from marksweep.monitoring import Monitor
from marksweep.proxy.endpoints import Upstreams, dialect_at, model_at
from marksweep.proxy.projection import Incoming, Outgoing, Projection
from marksweep.proxy.usage import UsageReader
from marksweep.web.bearer import BearerTokens, given_token
from marksweep.web.routes import METHODS, no_valid_token

SECONDS_TO_PROJECT = 20.0
"""Time limit for projecting a request; after it the client's own bytes are sent. A sweep of 100k
tokens takes one second."""

SECONDS_TO_CONNECT = 30.0
"""Timeout for connecting to a provider. Answers have none."""

HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that apply to one connection and are not forwarded."""

BAD_REQUEST = 400
NOT_FOUND = 404
BAD_GATEWAY = 502

logger = logging.getLogger("marksweep.proxy")


class Proxy:
    """Forwards requests."""

    def __init__(
        self,
        projection: Projection,
        upstreams: Upstreams,
        page: Sequence[Route] = (),
        tokens: BearerTokens | None = None,
    ) -> None:
        """Forward to `upstreams`; serve the page, and the metrics to holders of `tokens`."""
        self._projection = projection
        self._page = page
        self._tokens = tokens
        self._upstreams = upstreams
        self._monitor = Monitor(projection.readings, projection.fit.store.size)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=SECONDS_TO_CONNECT),
            limits=httpx.Limits(max_connections=None),
            follow_redirects=False,
        )

    def app(self) -> ASGIApp:
        """Return the application to serve."""
        monitor = self._monitor.routes(self._health, self._refuse)
        rest = Route("/{path:path}", self.handle, methods=METHODS)
        return self._monitor.counted(Starlette(routes=[*monitor, *self._page, rest]))

    def _refuse(self, request: Request) -> Response | None:
        if self._tokens is None or self._tokens.admit(given_token(request.headers)):
            return None
        return no_valid_token()

    def _health(self, problem: str) -> tuple[int, Mapping[str, object]]:
        """Report that the proxy is up, even without its store, and its totals."""
        status = {"status": "degraded", "problem": problem} if problem else {"status": "ok"}
        return 200, {**status, **msgspec.to_builtins(self._projection.totals)}

    async def handle(self, request: Request) -> Response:
        """Forward a request, and stream its answer back."""
        headers = {k.lower(): v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP}
        path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
        try:
            url = self._upstreams.url(path.partition("?")[0], request.url.query, headers)
            body = await request.body()
        except NotFound as error:
            return JSONResponse({"error": {"message": f"marksweep: {error}"}}, NOT_FOUND)
        except ClientDisconnect:
            return Response(status_code=BAD_REQUEST)
        dialect = dialect_at(request.url.path) if request.method == "POST" else None
        if dialect is None or "content-encoding" in headers:
            dialect = ""
        address = request.client.host if request.client else "unknown"
        incoming = Incoming(dialect, headers, body, model_at(request.url.path), address)
        outgoing = Outgoing(body)
        if dialect:
            outgoing = await self._outgoing(incoming)
            headers["accept-encoding"] = "identity"
        request_out = self._client.build_request(
            request.method, url, headers=headers, content=outgoing.body or None
        )
        try:
            answer = await self._client.send(request_out, stream=True)
            if answer.status_code == BAD_REQUEST and outgoing.is_changed:
                await answer.aclose()
                self._projection.failed("the provider refused the rewritten request", incoming)
                outgoing = Outgoing(body)
                again = self._client.build_request("POST", url, headers=headers, content=body)
                answer = await self._client.send(again, stream=True)
        except httpx.HTTPError as error:
            return _unreachable(request_out.url.host, error)
        return self._answer(answer, outgoing, dialect)

    async def _outgoing(self, incoming: Incoming) -> Outgoing:
        """Build the body in a thread; use the client's own if that takes too long."""
        work = asyncio.to_thread(self._projection.outgoing, incoming)
        started = time.perf_counter()
        try:
            return await asyncio.wait_for(asyncio.shield(work), SECONDS_TO_PROJECT)
        except TimeoutError:
            self._projection.failed(f"it took more than {SECONDS_TO_PROJECT:g} seconds", incoming)
            return Outgoing(incoming.body)
        finally:
            self._monitor.took(incoming.dialect, time.perf_counter() - started)

    def _answer(self, answer: httpx.Response, outgoing: Outgoing, dialect: str) -> Response:
        own = {"content-length"} if answer.request.method == "HEAD" else set()
        back = [(k, v) for k, v in answer.headers.multi_items() if k not in HOP_BY_HOP - own]
        response = StreamingResponse(
            self._passing(answer, outgoing, dialect),
            answer.status_code,
            background=BackgroundTask(answer.aclose),
        )
        response.raw_headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in back]
        return response

    async def _passing(
        self, answer: httpx.Response, outgoing: Outgoing, dialect: str
    ) -> AsyncIterator[bytes]:
        """Stream an answer chunk by chunk, and read its usage."""
        reader = UsageReader(dialect)
        async for chunk in answer.aiter_raw():
            reader.feed(chunk)
            yield chunk
        usage = reader.usage() if dialect and answer.is_success else None
        if usage is not None:
            await asyncio.to_thread(self._projection.observed, outgoing, usage)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _unreachable(host: str, error: httpx.HTTPError) -> Response:
    """Tell the client that its provider cannot be reached; it will retry."""
    problem = f"{host} cannot be reached: {type(error).__name__}"
    logger.warning("%s", problem)
    details = {"type": "api_error", "message": f"marksweep: {problem}"}
    return JSONResponse({"type": "error", "error": details}, BAD_GATEWAY)
