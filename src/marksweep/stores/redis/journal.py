"""The journal in Redis: a list, where an entry's position is its number."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Unpack

import msgspec

from marksweep.model import Entry, Event
from marksweep.stores.base import EntryFilter, JournalSize, PlanRetention, redacted
from marksweep.stores.codec import ENTRY, Codec
from marksweep.stores.memory import matching
from marksweep.stores.redis.client import Client, Pipeline
from marksweep.stores.redis.search import FETCHED_AT_ONCE, read
from marksweep.stores.redis.statements import Keys, encode, workspaces

SHOWN_PLAN = Codec(tuple[int, datetime])
"""The number and time of an entry that shows a plan."""

EXPIRED = b""
"""Placeholder for an expired entry."""


class RedisJournal:
    """The record of plans and sweeps. As durable as the server's settings make it."""

    def __init__(self, client: Client, prefix: str, retention: PlanRetention) -> None:
        self._client = client
        self._prefix = prefix
        self._retention = retention

    def append(self, workspace: str, entry: Entry) -> Entry:
        """Append an entry; return it numbered. A plan shown again is stored once."""
        keys = Keys(self._prefix, workspace)
        if entry.event is Event.PLANNED and entry.plan is not None:

            def show(pipe: Pipeline) -> Entry:
                shown = self._show(pipe, keys, entry)
                pipe.sadd(workspaces(self._prefix), encode(workspace))
                return shown

            return self._client.write(keys.journal, show)

        def queue(pipe: Pipeline) -> None:
            pipe.rpush(keys.journal, _body(entry))
            pipe.sadd(workspaces(self._prefix), encode(workspace))
            if entry.event is Event.SWEEPING:  # an applied plan does not expire
                pipe.hdel(keys.shown, encode(entry.plan_id))

        return msgspec.structs.replace(entry, seq=self._client.read_all(queue)[0])

    def read(self, workspace: str, **wanted: Unpack[EntryFilter]) -> tuple[Entry, ...]:
        """Fetch entries, newest first."""
        return matching(self._entries(Keys(self._prefix, workspace).journal), **wanted)

    def entries(self, workspace: str) -> Iterator[Entry]:
        """Read all entries, oldest first, in batches."""
        key, start = Keys(self._prefix, workspace).journal, 0
        while True:
            with self._client.reading() as server:
                bodies = server.lrange(key, start, start + FETCHED_AT_ONCE - 1)
            if not bodies:
                return
            numbered = [(seq, body) for seq, body in enumerate(bodies, start + 1) if body]
            found = read(self._client, ENTRY, [body for _, body in numbered])
            for (seq, _), entry in zip(numbered, found, strict=True):
                yield msgspec.structs.replace(entry, seq=seq)
            start += len(bodies)

    def redact(self, workspace: str, segment_ids: Collection[str]) -> int:
        """Remove the content of segments from all entries; return how many changed."""
        key = Keys(self._prefix, workspace).journal

        def work(pipe: Pipeline) -> int:
            changed = [
                (entry.seq, _body(without))
                for entry in self._entries(key)
                if (without := redacted(entry, segment_ids)) is not entry
            ]
            pipe.multi()
            for seq, body in changed:
                pipe.lset(key, seq - 1, body)
            return len(changed)

        return self._client.write(key, work)

    def size(self, workspace: str) -> JournalSize:
        """Return the size of the journal in the server's memory."""
        key = Keys(self._prefix, workspace).journal
        with self._client.reading() as server:
            return JournalSize(sum(1 for _ in self._entries(key)), server.memory_usage(key) or 0)

    def _entries(self, key: bytes) -> Iterator[Entry]:
        """Yield the entries with their numbers, newest first."""
        with self._client.reading() as server:
            seq = server.llen(key)
            while seq > 0:
                bodies = server.lrange(key, max(0, seq - FETCHED_AT_ONCE), seq - 1)
                numbered = [(seq - at, body) for at, body in enumerate(reversed(bodies)) if body]
                entries = read(self._client, ENTRY, [body for _, body in numbered])
                for (number, _), entry in zip(numbered, entries, strict=True):
                    yield msgspec.structs.replace(entry, seq=number)
                seq -= len(bodies)

    def _show(self, pipe: Pipeline, keys: Keys, entry: Entry) -> Entry:
        """Queue the entry of a shown plan, and the expiry of others."""
        this = encode(entry.plan_id)
        shown = {plan: SHOWN_PLAN.decode(each) for plan, each in pipe.hgetall(keys.shown).items()}
        if this in shown:
            seq, _ = shown.pop(this)
            (known,) = read(self._client, ENTRY, [pipe.lindex(keys.journal, seq - 1)])
            if known.plan is not None:
                pipe.multi()
                return msgspec.structs.replace(known, seq=seq)
        seq = pipe.llen(keys.journal) + 1
        since = self._retention.shown_since(entry.at)
        newest = sorted(shown, key=lambda plan: -shown[plan][0])[: self._retention.plans - 1]
        pipe.multi()
        for plan, (number, at) in shown.items():
            if plan not in newest or at < since:
                pipe.lset(keys.journal, number - 1, EXPIRED)
                pipe.hdel(keys.shown, plan)
        pipe.rpush(keys.journal, _body(entry))
        pipe.hset(keys.shown, this, SHOWN_PLAN.encode((seq, entry.at)))
        return msgspec.structs.replace(entry, seq=seq)


def _body(entry: Entry) -> bytes:
    return ENTRY.encode(msgspec.structs.replace(entry, seq=0))
