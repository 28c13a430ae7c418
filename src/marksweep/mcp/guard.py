"""The guard at the door of the HTTP server: who may come in, how often, and what they see."""

from __future__ import annotations

import hmac
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from marksweep.errors import BadInput
from marksweep.mcp.server_state import Access

VARIABLE = "MARKSWEEP_TOKEN"
"""The environment variable that may hold one token."""

SHORTEST_TOKEN = 16
"""Characters below which a token could be guessed."""

WORKSPACE_HEADER = "marksweep-workspace"
"""The header by which a caller names one of its workspaces."""

ACCESS_KEY = "marksweep.access"
"""Where the guard leaves what a caller may see, for the server behind it."""

CALLERS = 10_000
"""Callers whose rate is remembered; of more, those not seen longest are forgotten."""


class Tokens:
    """The bearer tokens, each with its workspaces. Only their digests are kept."""

    def __init__(self, workspaces: Mapping[str, Sequence[str]]) -> None:
        for token, names in workspaces.items():
            if len(token) < SHORTEST_TOKEN:
                raise BadInput(
                    f"a token has {len(token)} characters; expected {SHORTEST_TOKEN} or more. "
                    "Make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
                )
            if not names or not all(names):
                raise BadInput("a token has no workspace; expected at least one name.")
        self._by_digest = {_digest(token): tuple(names) for token, names in workspaces.items()}
        self.values = tuple(workspaces)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._by_digest)

    @classmethod
    def load(cls, path: str | None, workspace: str) -> Tokens:
        """Read them from a file, or one from the environment, for the server's workspace."""
        found: dict[str, list[str]] = {}
        if path is not None:
            try:
                found = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, list[str]])
            except (OSError, msgspec.DecodeError) as error:
                raise BadInput(
                    f"{path} cannot be read: {error}. Expected JSON that maps tokens to "
                    'workspaces: {"TOKEN": ["project"]}.'
                ) from error
        single = os.environ.get(VARIABLE, "").strip()
        return cls(found | ({single: [workspace]} if single else {}))

    def workspaces(self, token: str) -> tuple[str, ...] | None:
        """Look up what a token opens; None if there is no such token."""
        wanted = _digest(token)
        found = None
        for digest, names in self._by_digest.items():
            if hmac.compare_digest(digest, wanted):
                found = names
        return found


def _digest(token: str) -> str:
    return sha256(token.encode(errors="surrogatepass")).hexdigest()


class Rates:
    """How often each caller may come: so many requests a second, twice that at once."""

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
    """Lets in who may come in, and notes what they may see."""

    def __init__(self, app: ASGIApp, tokens: Tokens, rates: Rates) -> None:
        self._app = app
        self._tokens = tokens
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        own = self._tokens.workspaces(token) if token else None
        caller = f"token {_digest(token)[:16]}" if own else f"address {_address(scope)}"
        if not self._rates.take(caller):
            answer = _answer(429, "too many requests. Slow down.", {"Retry-After": "1"})
        elif self._tokens and own is None:
            answer = _answer(
                401,
                "no valid bearer token. Send the header Authorization: Bearer TOKEN.",
                {"WWW-Authenticate": 'Bearer realm="marksweep"'},
            )
        else:
            chosen = headers.get(WORKSPACE_HEADER, "").strip()
            scope[ACCESS_KEY] = Access(own, chosen)
            if own:
                # Sessions belong to whoever opened them: the SDK compares this user.
                identity = AccessToken(token=caller, client_id=caller, scopes=[])
                scope["user"] = AuthenticatedUser(identity)
            await self._app(scope, receive, send)
            return
        await answer(scope, receive, send)


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else "unknown"


def _answer(status: int, words: str, headers: dict[str, str]) -> JSONResponse:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": words}}
    return JSONResponse(error, status, headers)
