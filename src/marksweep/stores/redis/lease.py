"""A lock that many machines can share: a key with a token that runs out unless it is renewed."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from marksweep.errors import StoreBusy, StoreError
from marksweep.stores.redis.client import Client
from marksweep.stores.redis.statements import LET_GO, RENEW

LEASE_SECONDS = 9.0
"""How long a holder that died, or lost its connection, keeps others out.

Less than stores wait for a lock, so that who waits gets it. Lower lets others in sooner; higher
forgives a holder that is held up for a while.
"""

RENEWED_AFTER = 1 / 3
"""Share of the lease after which it is renewed. Lower survives more lost renewals."""

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.1

log = logging.getLogger(__name__)


class Renewal:
    """A thread that renews what is held, for as long as anything is."""

    def __init__(self, client: Client, seconds: float) -> None:
        self.client = client
        self.seconds = seconds
        self._held: dict[bytes, bytes] = {}
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, key: bytes, token: bytes) -> None:
        """Renew a lease from now on."""
        with self._mutex:
            self._held[key] = token
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def stop(self, key: bytes) -> None:
        """Renew a lease no longer."""
        with self._mutex:
            self._held.pop(key, None)

    def _run(self) -> None:
        while True:
            time.sleep(self.seconds * RENEWED_AFTER)
            with self._mutex:
                held = list(self._held.items())
                if not held:
                    self._thread = None
                    return
            try:
                with self.client.reading() as server:
                    for key, token in held:
                        server.eval(RENEW, 1, key, token, int(self.seconds * 1_000))
            except StoreError:
                log.warning("%s: a lease could not be renewed", self.client.name, exc_info=True)


class Lease:
    """The lock of one workspace. The same thread may take it again."""

    def __init__(self, key: bytes, renewal: Renewal) -> None:
        self._key = key
        self._renewal = renewal
        self._client = renewal.client
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
        lease = int(self._renewal.seconds * 1_000)
        pause = _FIRST_PAUSE
        with self._client.reading() as server:
            while not server.set(self._key, token, nx=True, px=lease):
                if time.monotonic() + pause > deadline:
                    raise self._busy()
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        self._renewal.start(self._key, token)
        return token

    def _let_go(self, token: bytes) -> None:
        self._renewal.stop(self._key)
        with self._client.reading() as server:
            if not server.eval(LET_GO, 1, self._key, token):
                log.warning(
                    "%s: a lease of %g s ran out while it was held; another process may have "
                    "worked on the workspace meanwhile. This one was held up, or cut off.",
                    self._client.name,
                    self._renewal.seconds,
                )

    def _busy(self) -> StoreBusy:
        return StoreBusy(
            f"{self._client.name}: the workspace is held by another for more than "
            f"{self._client.timeout:g} s. Try again; a holder that died lets go within "
            f"{self._renewal.seconds:g} s."
        )
