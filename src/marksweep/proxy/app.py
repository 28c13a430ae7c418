"""The HTTP side of the proxy: forwards every request to its provider and streams the answer back.

The body of a request to a model comes from `projection`. If the provider refuses a rewritten body,
the client's own body is sent instead, so the client never sees an error of ours.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Send

from marksweep.errors import BadInput, NotFound
from marksweep.monitoring import Monitor
from marksweep.proxy.endpoints import Upstreams, dialect_at, model_at
from marksweep.proxy.projection import Incoming, Outgoing, Projection
from marksweep.proxy.usage import UsageReader
from marksweep.web.bearer import BearerTokens, given_token
from marksweep.web.routes import METHODS, no_valid_token

SECONDS_TO_PROJECT = 20.0
"""Time limit for projecting a request; after it the client's own bytes are sent. A sweep of 100k
tokens takes one second."""

SECONDS_TO_RECORD = 2.0
"""How long the end of an answer waits until its usage is recorded. A collection of the same
conversation, for a request at the same time, may take longer."""

TIMEOUT = httpx.Timeout(None, connect=30.0)
"""For connecting to a provider, in seconds. Answers have none."""

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers that apply to one connection and are not forwarded, nor are those that `connection`
names."""

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Headers as they are on the wire: any bytes, some of them several times."""

BAD_REQUEST = 400
REFUSED = (BAD_REQUEST, 422)
"""Statuses with which a provider refuses a body; servers that imitate OpenAI's also use 422."""
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
        self._client = _client()

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
        headers = {name.lower(): value for name, value in request.headers.items()}
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
        forwarded = _forwarded(request.headers.raw)
        if dialect:
            outgoing = await self._outgoing(incoming)
            others = [(name, value) for name, value in forwarded if name != b"accept-encoding"]
            forwarded = [*others, (b"accept-encoding", b"identity")]
        try:
            first = _request(request.method, url, forwarded, outgoing.body)
            answer = await self._sent(first, request)
            if answer.status_code in REFUSED and outgoing.is_changed:
                await answer.aclose()
                self._projection.failed("the provider refused the rewritten request", incoming)
                again = _request("POST", url, forwarded, body)
                answer = await self._sent(again, request)
                if answer.is_success:
                    self._projection.refused(outgoing)
                outgoing = Outgoing(body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _unreachable(urlsplit(url).hostname, error)
        except ClientDisconnect:
            return Response(status_code=BAD_REQUEST)
        return self._answer(answer, outgoing, dialect)

    async def _sent(self, outgoing: httpx.Request, request: Request) -> httpx.Response:
        """Send a request until its answer begins; ClientDisconnect if the client leaves before."""
        answer = asyncio.ensure_future(self._client.send(outgoing, stream=True))
        gone = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ClientDisconnect
            return answer.result()
        finally:
            answer.cancel()
            gone.cancel()

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
        reader = UsageReader(dialect)
        record = partial(self._record_usage, answer, outgoing, reader)
        ended = BackgroundTask(_ended, answer, record)
        response = _Streamed(_chunks(answer, reader, record), answer.status_code, background=ended)
        response.raw_headers = _forwarded(answer.headers.raw)
        if answer.request.method == "HEAD" and "content-length" in answer.headers:
            response.headers["content-length"] = answer.headers["content-length"]
        return response

    async def _record_usage(
        self, answer: httpx.Response, outgoing: Outgoing, reader: UsageReader
    ) -> None:
        """Record the usage that a model's answer reports, once."""
        usage = reader.take() if answer.is_success else None
        if usage is None:
            return
        work = asyncio.to_thread(self._projection.observed, outgoing, usage)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(work), SECONDS_TO_RECORD)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class _Streamed(StreamingResponse):
    """An answer that is broken off, with one line in the log, if its provider breaks it off."""

    async def stream_response(self, send: Send) -> None:
        """Send what arrives."""
        try:
            await super().stream_response(send)
        except httpx.HTTPError as error:
            logger.warning("the provider broke off its answer: %s", type(error).__name__)


async def _chunks(
    answer: httpx.Response, reader: UsageReader, record: Callable[[], Awaitable[None]]
) -> AsyncIterator[bytes]:
    """Yield an answer as it arrives, and record its usage.

    That is done before the client sees the end, so that its next request is made with it.
    """
    async for chunk in answer.aiter_raw():
        reader.feed(chunk)
        yield chunk
    await record()


async def _ended(answer: httpx.Response, record: Callable[[], Awaitable[None]]) -> None:
    """Record the usage also if the client left after it was reported."""
    await answer.aclose()
    await record()


def _client() -> httpx.AsyncClient:
    """Make the client; BadInput if the environment names proxies or certificates it cannot use."""
    try:
        return httpx.AsyncClient(limits=httpx.Limits(max_connections=None), follow_redirects=False)
    except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
        # The text about an invalid URL may have a part of its password.
        problem = "invalid URL." if isinstance(error, httpx.InvalidURL) else error
        raise BadInput(
            "requests cannot be forwarded with the proxies or certificates in the environment "
            f"(ALL_PROXY, HTTPS_PROXY, HTTP_PROXY, NO_PROXY, SSL_CERT_FILE): {problem} "
            "Correct these; for a SOCKS proxy, install httpx[socks] beside marksweep."
        ) from error


def _request(method: str, url: str, headers: RawHeaders, body: bytes) -> httpx.Request:
    """Make a request without `build_request` of the client.

    That adds headers that our client did not send, and cookies that another one was given.
    """
    more = {"timeout": TIMEOUT.as_dict()}
    return httpx.Request(method, url, headers=headers, content=body or None, extensions=more)


async def _left(request: Request) -> None:
    """Wait until the client closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _forwarded(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """Return the headers that go on, byte for byte."""
    lower = [(name.lower(), value) for name, value in headers]
    named = b",".join(value for name, value in lower if name == b"connection")
    dropped = HOP_BY_HOP.union(name.strip().lower() for name in named.split(b","))
    return [(name, value) for name, value in lower if name not in dropped]


def _unreachable(host: str | None, error: Exception) -> Response:
    """Tell the client that its provider cannot be reached; it will retry."""
    problem = f"{host} cannot be reached: {type(error).__name__}"
    logger.warning("%s", problem)
    details = {"type": "api_error", "message": f"marksweep: {problem}"}
    return JSONResponse({"type": "error", "error": details}, BAD_GATEWAY)
