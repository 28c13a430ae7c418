"""A lock across machines: a key with a token that expires unless it is renewed."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from marksweep.errors import StoreBusy
from marksweep.stores.heartbeat import renewing
from marksweep.stores.redis.client import Client
from marksweep.stores.redis.statements import LET_GO, RENEW

LEASE_SECONDS = 9.0
"""How long a holder that died, or lost its connection, blocks others.

Shorter than the lock timeout, so that a waiting process gets the lock. Lower unblocks others
sooner; higher tolerates longer delays of the holder.
"""

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.1

log = logging.getLogger(__name__)


class Lease:
    """The lock of one workspace. The same thread may take it again."""

    def __init__(self, client: Client, key: bytes, seconds: float) -> None:
        self._client = client
        self._key = key
        self._seconds = seconds
        self._mine = threading.RLock()
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; StoreBusy if it cannot be acquired in time."""
        deadline = time.monotonic() + self._client.timeout
        if not self._mine.acquire(timeout=self._client.timeout):
            raise self._busy()
        self._depth += 1
        try:
            with nullcontext() if self._depth > 1 else self._taken(deadline):
                yield
        finally:
            self._depth -= 1
            self._mine.release()

    @contextmanager
    def _taken(self, deadline: float) -> Iterator[None]:
        token = secrets.token_hex(16).encode()
        self._take(token, deadline)
        try:
            with renewing(lambda: self._run(RENEW, token, self._milliseconds), self._seconds):
                yield
        finally:
            if not self._run(LET_GO, token):
                log.warning(
                    "%s: a lease of %g s expired while it was held; another process may have "
                    "worked on the workspace meanwhile. This one was delayed or disconnected.",
                    self._client.name,
                    self._seconds,
                )

    def _take(self, token: bytes, deadline: float) -> None:
        pause = _FIRST_PAUSE
        with self._client.reading() as server:
            while not server.set(self._key, token, nx=True, px=self._milliseconds):
                if time.monotonic() + pause > deadline:
                    raise self._busy()
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    @property
    def _milliseconds(self) -> int:
        return int(self._seconds * 1_000)

    def _run(self, script: str, *values: bytes | int) -> bool:
        with self._client.reading() as server:
            return bool(server.eval(script, 1, self._key, *values))

    def _busy(self) -> StoreBusy:
        return StoreBusy(
            f"{self._client.name}: the workspace is held by another for more than "
            f"{self._client.timeout:g} s. Try again; the lock of a dead holder expires within "
            f"{self._seconds:g} s."
        )
