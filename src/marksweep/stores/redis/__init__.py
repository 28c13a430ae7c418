"""The Redis store, shared by several machines.

    statements   every key, with its purpose
    client       connection, transactions, error messages
    search       the word index, and fetching of ranked nouns
    segments, stash, journal   the three parts of the store

Writes are as durable as the server's settings make them: with Redis' defaults, a server crash may
lose the last minutes. Set `appendonly yes`.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from marksweep.errors import StoreBusy
from marksweep.stores.base import KEEP_PLANS, PlanRetention
from marksweep.stores.files import LOCK_TIMEOUT
from marksweep.stores.leases import ServerLeases, hold
from marksweep.stores.redis.client import Client
from marksweep.stores.redis.journal import RedisJournal
from marksweep.stores.redis.segments import RedisSegments
from marksweep.stores.redis.stash import RedisStash
from marksweep.stores.redis.statements import Keys, decode, workspaces

__all__ = ["RedisJournal", "RedisSegments", "RedisStash", "RedisStore"]

PREFIX = "marksweep"
"""Prefix of all keys, so that the server can be shared with others."""


LEASE_SECONDS = 9.0
"""How long a holder that died, or lost its connection, blocks others.

Shorter than the lock timeout, so that a waiting process gets the lock. Lower unblocks others
sooner; higher tolerates longer delays of the holder.
"""


class RedisStore:
    """A store on one server. Threads may share the object, machines the server."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str = PREFIX,
        lock_timeout: float = LOCK_TIMEOUT,
        lease_seconds: float = LEASE_SECONDS,
        retention: PlanRetention = KEEP_PLANS,
    ) -> None:
        self._client = Client(url, lock_timeout)
        self._prefix = prefix
        self._lease_seconds = lease_seconds
        self._lock_timeout = lock_timeout
        self._locks: dict[str, threading.RLock] = {}
        self._held: set[str] = set()
        self._leases = ServerLeases(
            self._client.command, lambda workspace, _: Keys(prefix, workspace).lock
        )
        self.segments = RedisSegments(self._client, prefix)
        self.stash = RedisStash(self._client, prefix)
        self.journal = RedisJournal(self._client, prefix, retention)

    def all_workspaces(self) -> tuple[str, ...]:
        """List the non-empty workspaces, sorted by name."""
        with self._client.reading() as server:
            names = [decode(each) for each in server.smembers(workspaces(self._prefix))]
            keys = [(name, Keys(self._prefix, name)) for name in names]
            held = (n for n, k in keys if server.exists(k.live, k.stash_order, k.journal))
            return tuple(sorted(held))

    @contextmanager
    def lock(self, workspace: str) -> Iterator[None]:
        """Lock a workspace for one sweep, across threads and machines."""
        deadline = time.monotonic() + self._lock_timeout
        mine = self._locks.setdefault(workspace, threading.RLock())
        if not mine.acquire(timeout=self._lock_timeout):
            raise StoreBusy(
                f"{self._client.name}: workspace {workspace!r} is held by another thread for more "
                f"than {self._lock_timeout:g} s. Try again."
            )
        try:
            if workspace in self._held:
                yield
                return
            with hold(
                self._leases,
                workspace,
                "a sweep",
                wait_seconds=max(0.0, deadline - time.monotonic()),
                seconds=self._lease_seconds,
                holder=secrets.token_hex(16),
            ):
                self._held.add(workspace)
                try:
                    yield
                finally:
                    self._held.discard(workspace)
        finally:
            mine.release()

    def scrub(self) -> tuple[str, ...]:
        """Return what only the server can erase: its files are not ours."""
        return (
            f"the append-only file and snapshots of {self._client.name}, until the server rewrites "
            "them (BGREWRITEAOF, BGSAVE)",
        )

    def size(self) -> int:
        """Return the server's memory use, including other users' data."""
        with self._client.reading() as server:
            return int(server.info("memory")["used_memory"])

    def close(self) -> None:
        """Close the connections. A closed store refuses further calls."""
        self._client.close()
