"""JSON over HTTP to a model's endpoint, with a time limit and retries. Standard library only."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, urlsplit

import msgspec

from marksweep.errors import BadInput, ModelError

TIMEOUT = 60.0
"""Seconds to wait for an answer. Shorter gives up on slow models; longer holds the caller up."""

TRIES = 3
"""Attempts in all. More outlast a longer outage, and wait longer before they give up."""

FIRST_PAUSE = 0.5
"""Seconds before the second attempt; doubled before each further one."""

LONGEST_PAUSE = 8.0
"""The most seconds between two attempts, whatever the endpoint asks for."""

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses that are worth another try."""


class Reply(msgspec.Struct, frozen=True):
    """An answer that is no success: the status and what the endpoint said."""

    status: int
    text: str


class Rejected(ModelError):
    """The endpoint answered with an error."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


class Endpoint(msgspec.Struct, frozen=True):
    """Where to post, and how patiently."""

    url: str
    headers: Mapping[str, str] = {}
    timeout: float = TIMEOUT
    tries: int = TRIES

    def __post_init__(self) -> None:
        """Refuse what is no web address."""
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise BadInput(f"url is {self.url!r}; expected http://… or https://….")
        if self.timeout <= 0 or self.tries < 1:
            raise BadInput(
                f"timeout is {self.timeout} and tries is {self.tries}; expected more than 0 "
                "seconds and at least 1 try."
            )

    def post(self, body: object, sleep: Callable[[float], None] = time.sleep) -> object:
        """Post and read JSON. What may pass is tried again; what will not is raised at once."""
        payload = json.dumps(body).encode()
        pause = FIRST_PAUSE
        failure: ModelError | None = None
        for attempt in range(self.tries):
            if attempt:
                sleep(min(pause, LONGEST_PAUSE))
                pause *= 2
            try:
                return self._once(payload)
            except Rejected as rejected:
                if rejected.reply.status not in PASSING:
                    raise
                failure = rejected
            except (OSError, http.client.HTTPException) as error:
                failure = ModelError(
                    f"{self.url} did not answer: {type(error).__name__}: {error}. Is it running?"
                )
        raise failure or ModelError(f"{self.url} was not asked.")

    def _once(self, payload: bytes) -> object:
        parts = urlsplit(self.url)
        connection = _connect(parts, self.timeout)
        try:
            target = parts.path or "/"
            if parts.query:
                target += f"?{parts.query}"
            headers = {"Content-Type": "application/json", **self.headers}
            connection.request("POST", target, payload, headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise Rejected(
                f"{self.url} answered {response.status}: {text[:500]}",
                Reply(response.status, text),
            )
        try:
            answer: object = json.loads(text)
        except json.JSONDecodeError as error:
            raise ModelError(f"{self.url} answered no JSON: {text[:200]!r}.") from error
        return answer


def _connect(parts: SplitResult, timeout: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout)
    return http.client.HTTPConnection(host, parts.port, timeout=timeout)
