"""The journal in Redis: a list, in which an entry's place is its number."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from marksweep.model import Entry, Event
from marksweep.stores.codec import ENTRY
from marksweep.stores.redis.client import Client
from marksweep.stores.redis.hits import FETCHED_AT_ONCE, read
from marksweep.stores.redis.statements import Keys


class RedisJournal:
    """The record of plans and sweeps. As durable as the server is set up to be."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def append(self, workspace: str, entry: Entry) -> Entry:
        """Add an entry; return it with its number."""
        body = ENTRY.encode(msgspec.structs.replace(entry, seq=0))
        with self._client.reading() as server:
            seq = server.rpush(Keys(self._prefix, workspace).journal, body)
        return msgspec.structs.replace(entry, seq=seq)

    def read(
        self,
        workspace: str,
        *,
        events: Collection[Event] = (),
        plan_id: str | None = None,
        limit: int | None = None,
    ) -> tuple[Entry, ...]:
        """Fetch entries, newest first; `events` empty means every kind."""
        key = Keys(self._prefix, workspace).journal
        found: list[Entry] = []
        with self._client.reading() as server:
            seq = server.llen(key)
            while seq > 0 and (limit is None or len(found) < limit):
                start = max(0, seq - FETCHED_AT_ONCE)
                bodies = server.lrange(key, start, seq - 1)
                for entry in reversed(read(self._client, ENTRY, bodies)):
                    if (not events or entry.event in events) and plan_id in (None, entry.plan_id):
                        found.append(msgspec.structs.replace(entry, seq=seq))
                    seq -= 1
        return tuple(found if limit is None else found[: max(0, limit)])
