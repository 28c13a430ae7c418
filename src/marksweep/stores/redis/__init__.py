"""The Redis store: one truth for several machines.

    statements   every key and script, with its purpose
    client       connection, transactions, errors as text
    search       the word index, and ranked keys to nouns
    lease        the lock
    segments, stash, journal   the three faces

What is written is as durable as the server is set up to be: with Redis' own defaults a crash of the
server may lose the last minutes. Set `appendonly yes`.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from marksweep.stores.base import KEEP_PLANS, PlanRetention
from marksweep.stores.files import LOCK_TIMEOUT
from marksweep.stores.redis.client import Client
from marksweep.stores.redis.journal import RedisJournal
from marksweep.stores.redis.lease import LEASE_SECONDS, Lease
from marksweep.stores.redis.segments import RedisSegments
from marksweep.stores.redis.stash import RedisStash
from marksweep.stores.redis.statements import Keys, decode, workspaces

__all__ = ["RedisJournal", "RedisSegments", "RedisStash", "RedisStore"]

PREFIX = "marksweep"
"""What all keys start with, so that the server can be shared with others."""


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
        self._mutex = threading.Lock()
        self._leases: dict[str, Lease] = {}
        self.segments = RedisSegments(self._client, prefix)
        self.stash = RedisStash(self._client, prefix)
        self.journal = RedisJournal(self._client, prefix, retention)

    def all_workspaces(self) -> tuple[str, ...]:
        """Name the workspaces that hold anything, sorted."""
        with self._client.reading() as server:
            names = [decode(each) for each in server.smembers(workspaces(self._prefix))]
            keys = [(name, Keys(self._prefix, name)) for name in names]
            held = (n for n, k in keys if server.exists(k.live, k.stash_order, k.journal))
            return tuple(sorted(held))

    def lock(self, workspace: str) -> AbstractContextManager[None]:
        """Hold a workspace for one sweep, across threads and machines."""
        with self._mutex:
            lease = self._leases.get(workspace)
            if lease is None:
                key = Keys(self._prefix, workspace).lock
                lease = Lease(self._client, key, self._lease_seconds)
                self._leases[workspace] = lease
        return lease.held()

    def scrub(self) -> tuple[str, ...]:
        """Name what only the server can do: its files are not ours."""
        return (
            f"the append-only file and snapshots of {self._client.name}, until the server rewrites "
            "them (BGREWRITEAOF, BGSAVE)",
        )

    def size(self) -> int:
        """Measure the server's memory, with what others keep there."""
        with self._client.reading() as server:
            return int(server.info("memory")["used_memory"])

    def close(self) -> None:
        """Close the connections. A closed store refuses further calls."""
        self._client.close()
