"""The Redis store, shared by several machines.

    statements   every key and script, with its purpose
    client       connection, transactions, error messages
    search       the word index, and fetching of ranked nouns
    lease        the lock
    segments, stash, journal   the three parts of the store

Writes are as durable as the server's settings make them: with Redis' defaults, a server crash may
lose the last minutes. Set `appendonly yes`.
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
"""Prefix of all keys, so that the server can be shared with others."""


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
        """List the non-empty workspaces, sorted by name."""
        with self._client.reading() as server:
            names = [decode(each) for each in server.smembers(workspaces(self._prefix))]
            keys = [(name, Keys(self._prefix, name)) for name in names]
            held = (n for n, k in keys if server.exists(k.live, k.stash_order, k.journal))
            return tuple(sorted(held))

    def lock(self, workspace: str) -> AbstractContextManager[None]:
        """Lock a workspace for one sweep, across threads and machines."""
        with self._mutex:
            lease = self._leases.get(workspace)
            if lease is None:
                key = Keys(self._prefix, workspace).lock
                lease = Lease(self._client, key, self._lease_seconds)
                self._leases[workspace] = lease
        return lease.held()

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
