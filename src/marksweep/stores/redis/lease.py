"""A lock that many machines can share: a key with a token that runs out by itself."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from marksweep.errors import StoreBusy
from marksweep.stores.redis.client import Client
from marksweep.stores.redis.statements import LET_GO

LEASE_SECONDS = 30.0
"""How long a holder that died keeps others out, and the longest a sweep may take.

The lease is not renewed: a holder that needs longer loses it, and a warning says so. Higher allows
longer sweeps; lower lets others in sooner after a crash.
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
        """Hold the lock; StoreBusy if it cannot be had in time."""
        deadline = time.monotonic() + self._client.timeout
        if not self._mine.acquire(timeout=self._client.timeout):
            raise self._busy()
        try:
            token = self._take(deadline) if self._depth == 0 else b""
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if token:
                    self._let_go(token)
        finally:
            self._mine.release()

    def _take(self, deadline: float) -> bytes:
        token = secrets.token_hex(16).encode()
        lease = int(self._seconds * 1_000)
        pause = _FIRST_PAUSE
        with self._client.reading() as server:
            while not server.set(self._key, token, nx=True, px=lease):
                if time.monotonic() + pause > deadline:
                    raise self._busy()
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        return token

    def _let_go(self, token: bytes) -> None:
        with self._client.reading() as server:
            if not server.eval(LET_GO, 1, self._key, token):
                log.warning(
                    "%s: a sweep took longer than the lease of %g s; another process may have "
                    "worked on the workspace meanwhile. Give the store a longer lease.",
                    self._client.name,
                    self._seconds,
                )

    def _busy(self) -> StoreBusy:
        return StoreBusy(
            f"{self._client.name}: the workspace is held by another for more than "
            f"{self._client.timeout:g} s. Try again; a holder that died lets go within "
            f"{self._seconds:g} s."
        )
