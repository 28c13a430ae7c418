"""The guard at the door of the HTTP server: who may come in, how often, and what they see."""

from __future__ import annotations

import hmac
import logging
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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marksweep.errors import BadInput
from marksweep.mcp.server_state import Access
from marksweep.monitoring import HEALTH_PATH
from marksweep.web.routes import PUBLIC
from marksweep.web.server import SHORTEST_TOKEN, TOKEN

WORKSPACE_HEADER = "marksweep-workspace"
"""The header by which a caller names one of its workspaces."""

ACCESS_KEY = "marksweep.access"
"""Where the guard leaves what a caller may see, for the server behind it."""

OPEN_PATHS = PUBLIC | {HEALTH_PATH}
"""What those without a token may load, too."""

CALLERS = 10_000
"""Callers whose rate is remembered; of more, those not seen longest are forgotten."""


UNSETTLED_NS = 100_000_000
"""Nanoseconds after its change in which a file may change again and look the same."""

logger = logging.getLogger(__name__)

Stamp = tuple[int, int, int]
"""What distinguishes one state of a file from the next: inode, size, time."""


class Tokens:
    """The bearer tokens, each with its workspaces: fixed ones, and those of a file as it is now."""

    def __init__(self, fixed: Mapping[str, Sequence[str]], file: str | Path | None = None) -> None:
        self._fixed = fixed
        self._file = None if file is None else Path(file)
        self._seen: Stamp | None = None
        self.secrets: frozenset[str] = frozenset()
        """All tokens that were ever known, to be masked in logs."""
        self._take(fixed if self._file is None else {**self._read(self._file), **fixed})

    def _take(self, workspaces: Mapping[str, Sequence[str]]) -> None:
        for token, names in workspaces.items():
            if len(token) < SHORTEST_TOKEN:
                raise BadInput(
                    f"a token has {len(token)} characters; expected {SHORTEST_TOKEN} or more. "
                    "Make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
                )
            if not names or not all(names):
                raise BadInput("a token has no workspace; expected at least one name.")
        self._by_digest = {_digest(token): tuple(names) for token, names in workspaces.items()}
        self.secrets |= frozenset(workspaces)

    def _read(self, file: Path) -> dict[str, list[str]]:
        try:
            found = file.stat()
            body = file.read_bytes()
            # One that changed just now may change again within a tick of the file system's clock.
            settled = time.time_ns() - found.st_mtime_ns > UNSETTLED_NS
            self._seen = _stamp(found) if settled else None
            return msgspec.json.decode(body, type=dict[str, list[str]])
        except (OSError, msgspec.DecodeError) as error:
            raise BadInput(
                f"{file} cannot be read: {error}. Expected JSON that maps tokens to "
                'workspaces: {"TOKEN": ["project"]}.'
            ) from error

    def __bool__(self) -> bool:
        """Return whether callers need one: also while a file holds none."""
        return self._file is not None or bool(self._by_digest)

    @classmethod
    def load(cls, path: str | None, workspace: str) -> Tokens:
        """Read them from a file, or one from the environment, for the server's workspace."""
        single = os.environ.get(TOKEN, "").strip()
        return cls({single: [workspace]} if single else {}, path)

    def refresh(self) -> None:
        """Read the file again if it has changed: what is not in it any more opens nothing.

        One that is gone holds none. Of one that is damaged the last good state stays in force.
        """
        if self._file is None:
            return
        try:
            if _stamp(self._file.stat()) == self._seen:
                return
            self._take({**self._read(self._file), **self._fixed})
        except FileNotFoundError:
            if self._by_digest.keys() - map(_digest, self._fixed):
                logger.warning("%s is gone: its tokens open nothing now.", self._file)
            self._seen = None
            self._take(self._fixed)
        except (BadInput, OSError) as error:
            logger.warning("%s The tokens that were read before stay in force.", error)

    def workspaces(self, token: str) -> tuple[str, ...] | None:
        """Look up what a token opens; None if there is no such token, or not any more."""
        self.refresh()
        wanted = _digest(token)
        found = None
        for digest, names in self._by_digest.items():
            if hmac.compare_digest(digest, wanted):
                found = names
        return found


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns


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
        """Pass an answer on for as long as its token opens something; a stream ends with it."""
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
