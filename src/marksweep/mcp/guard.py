"""The guard of the HTTP server: who has access, how often, and what they see."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marksweep.mcp.server_state import Access
from marksweep.monitoring import HEALTH_PATH
from marksweep.web.bearer import BearerTokens, digest, given_token
from marksweep.web.routes import PUBLIC

WORKSPACE_HEADER = "marksweep-workspace"
"""The header by which a caller names one of its workspaces."""

ACCESS_KEY = "marksweep.access"
"""The key under which the guard passes a caller's access to the server behind it."""

OPEN_PATHS = PUBLIC | {HEALTH_PATH}
"""Paths that need no token."""

CALLERS = 10_000
"""Callers whose rate is tracked; beyond that, the least recently seen are dropped."""


class Rates:
    """A rate limit per caller: so many requests a second, with bursts of twice that."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> bool:
        """Count a request; return whether it may pass."""
        now = self._clock()
        burst = max(1.0, 2 * self._per_second)
        left, at = self._left.pop(caller, (burst, now))
        left = min(burst, left + (now - at) * self._per_second)
        passes = left >= 1
        self._left[caller] = (left - passes, now)
        if len(self._left) > CALLERS:
            self._left.popitem(last=False)
        return passes


class Guard:
    """Admits authorized callers, and records what they may see."""

    def __init__(self, app: ASGIApp, tokens: BearerTokens, rates: Rates) -> None:
        self._app = app
        self._tokens = tokens
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or answer why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        token = given_token(headers)
        own = self._tokens.workspaces(token) if token else None
        caller = f"token {digest(token)[:16]}" if own else f"address {_address(scope)}"
        if not self._rates.take(caller):
            answer = _answer(429, "too many requests. Slow down.", {"Retry-After": "1"})
        elif self._tokens and own is None and scope["path"] not in OPEN_PATHS:
            answer = _unauthorized()
        else:
            chosen = headers.get(WORKSPACE_HEADER, "").strip()
            scope[ACCESS_KEY] = Access(own, chosen, caller)
            if own:
                # Sessions belong to whoever opened them: the SDK compares this user.
                identity = AccessToken(token=caller, client_id=caller, scopes=[])
                scope["user"] = AuthenticatedUser(identity)
                send = self._while_valid(token, scope, receive, send)
            await self._app(scope, receive, send)
            return
        await answer(scope, receive, send)

    def _while_valid(self, token: str, scope: Scope, receive: Receive, send: Send) -> Send:
        """Forward a response while its token is valid; a stream ends when the token is revoked."""
        is_over = False

        async def pass_on(message: Message) -> None:
            nonlocal is_over
            if is_over:
                return
            if self._tokens.workspaces(token) is not None:
                await send(message)
                return
            is_over = True
            if message["type"] == "http.response.start":
                await _unauthorized()(scope, receive, send)
            else:
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        return pass_on


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else "unknown"


def _unauthorized() -> JSONResponse:
    return _answer(
        401,
        "no valid bearer token. Send the header Authorization: Bearer TOKEN.",
        {"WWW-Authenticate": 'Bearer realm="marksweep"'},
    )


def _answer(status: int, words: str, headers: dict[str, str]) -> JSONResponse:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": words}}
    return JSONResponse(error, status, headers)
