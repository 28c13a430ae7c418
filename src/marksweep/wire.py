"""JSON over HTTP to a model's endpoint: bounded in time and size, with retries. Needs `http`.

The environment's proxies (`HTTPS_PROXY`, `NO_PROXY`) are used, and redirects are not followed: a
conversation goes only where it was sent. The HTTP client is imported on first use: it takes longer
to load than everything else in a conversation.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from marksweep.errors import BadInput, ModelError
from marksweep.urls import redacted

TIMEOUT_SECONDS = 60.0
"""Seconds to wait for the next bytes of an answer. Shorter gives up on slow models."""

TOTAL_SECONDS = 300.0
"""Seconds for all attempts and the pauses between them."""

MAX_ANSWER_BYTES = 16_000_000
"""Size above which an answer is not read. No model writes that much; another server might."""

MAX_ATTEMPTS = 3
"""Attempts in total. More survive a longer outage, and take longer to give up."""

FIRST_PAUSE = 0.5
"""Seconds before the second attempt; doubled before each further one."""

LONGEST_PAUSE = 30.0
"""The most seconds between two attempts, whatever the endpoint asks for (`Retry-After`)."""

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses that are worth another try."""

OK = 200

T = TypeVar("T")


class Rejected(ModelError):
    """The endpoint answered with an error."""

    def __init__(self, url: str, status: int, text: str, retry_after: float) -> None:
        super().__init__(f"{url} answered {status}: {text[:500]}")
        self.status = status
        self.text = text
        self.retry_after = retry_after
        """Seconds that the endpoint asks to wait."""


class Unreadable(ModelError):
    """The endpoint's answer is an error that a retry would not change."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where to post, with timeouts and retries."""

    url: str
    headers: Mapping[str, str] = {}
    timeout: float = TIMEOUT_SECONDS
    tries: int = MAX_ATTEMPTS
    total_seconds: float = TOTAL_SECONDS

    def __post_init__(self) -> None:
        """Refuse what is not a web address, and waiting forever."""
        if not _is_web_address(self.url):
            raise BadInput(f"url is {self.url!r}; expected http://… or https://….")
        seconds = (self.timeout, self.total_seconds)
        if not all(0 < each < math.inf for each in seconds) or self.tries < 1:
            raise BadInput(
                f"timeout is {self.timeout}, total_seconds {self.total_seconds} and tries "
                f"{self.tries}; expected more than 0 seconds and at least 1 try."
            )
        if find_spec("httpx") is None:
            raise BadInput("a model is asked with httpx. Install it: pip install 'marksweep[http]'")

    def __repr__(self) -> str:
        """Show where it is, without a key."""
        return f"Endpoint({redacted(self.url)!r})"

    def post(self, body: object, sleep: Callable[[float], None] = time.sleep) -> object:
        """Post and read JSON. Transient errors are retried; all others are raised."""
        payload = json.dumps(body).encode()
        deadline = time.monotonic() + self.total_seconds
        pause = FIRST_PAUSE
        attempt = 1
        while True:
            try:
                return self._once(payload, deadline - time.monotonic())
            except ModelError as failure:
                asked = failure.retry_after if isinstance(failure, Rejected) else 0.0
                wait = min(max(pause, asked), LONGEST_PAUSE)
                is_last = attempt == self.tries or time.monotonic() + wait >= deadline
                if is_last or not _may_pass(failure):
                    raise
            sleep(wait)
            attempt += 1
            pause *= 2

    def _once(self, payload: bytes, seconds: float) -> object:
        text = _run(self._exchange(payload, seconds))
        try:
            answer: object = json.loads(text)
        except (ValueError, RecursionError):
            raise Unreadable(f"{self.url} answered no JSON: {text[:200]!r}.") from None
        return answer

    async def _exchange(self, payload: bytes, seconds: float) -> str:
        import asyncio

        import httpx

        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        content = bytearray()
        try:
            async with (
                asyncio.timeout(seconds),
                httpx.AsyncClient(timeout=self.timeout) as client,
                client.stream(
                    "POST", self.url, content=payload, headers={**headers, **self.headers}
                ) as response,
            ):
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise Unreadable(
                            f"{self.url} answers with more than {MAX_ANSWER_BYTES:,} bytes; the "
                            "rest was not read. Check that it is a model's endpoint."
                        )
        except TimeoutError:
            raise Unreadable(
                f"{self.url} did not answer within {self.total_seconds:g} seconds in all."
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelError(
                f"{self.url} did not answer: {type(error).__name__}: {error}. Is it running?"
            ) from None
        text = content.decode("utf-8", "replace")
        if response.status_code != OK:
            pause = _seconds(response.headers.get("retry-after", ""))
            raise Rejected(self.url, response.status_code, text, pause)
        return text


class Model:
    """A model behind a URL, whose key is in the environment."""

    path = "/chat/completions"
    """Where below the URL of an API its messages go."""
    max_tokens = 4_096
    """Default limit of an answer, in tokens. Longer answers are cut there."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key_env: str = "",
        timeout: float = TIMEOUT_SECONDS,
        tries: int = MAX_ATTEMPTS,
        most_tokens: int = 0,
    ) -> None:
        key = key_from(api_key_env, url) if api_key_env else ""
        self._model = model
        self._most_tokens = most_tokens or self.max_tokens
        self._endpoint = Endpoint(address(url, self.path), self._headers(key), timeout, tries)

    def _headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}


def address(base: str, path: str) -> str:
    """Return the full address of a call; the base of an API is accepted as well as the address."""
    trimmed = base.rstrip("/")
    return trimmed if trimmed.endswith(path) else trimmed + path


def first_choice(completion: object, model: str) -> dict[str, object]:
    """Return the message of a chat completion; ModelError if there is none."""
    choices = completion.get("choices") if isinstance(completion, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        raise ModelError(f"{model} answered in no known form: there is no message in its choices.")
    return message


def key_from(variable: str, url: str) -> str:
    """Read the key for an endpoint from the environment."""
    key = os.environ.get(variable)
    if not key:
        raise BadInput(f"{variable} is not set; it should hold the key for {url}.")
    return key


def _may_pass(failure: ModelError) -> bool:
    if isinstance(failure, Rejected):
        return failure.status in PASSING
    return not isinstance(failure, Unreadable)


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _seconds(retry_after: str) -> float:
    """Read what an endpoint asks for: a number of seconds or a date; 0 if it is neither."""
    from email.utils import parsedate_to_datetime

    if retry_after.strip().isdecimal():
        return float(retry_after.strip()[:6])
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    return max(0.0, (at - datetime.now(UTC)).total_seconds()) if at.tzinfo else 0.0


def _run(work: Coroutine[object, object, T]) -> T:
    """Run to completion, even if the caller's thread already runs an event loop."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as threads:
        return threads.submit(asyncio.run, work).result()
