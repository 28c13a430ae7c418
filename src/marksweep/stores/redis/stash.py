"""The stash in Redis."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from marksweep.model import Stashed
from marksweep.stores.base import Hit, Query
from marksweep.stores.codec import STASHED, microseconds
from marksweep.stores.memory import heap_order
from marksweep.stores.redis.client import Client, Pipeline
from marksweep.stores.redis.search import (
    FETCHED_AT_ONCE,
    hits,
    index,
    ranked_by_words,
    read,
    unindex,
)
from marksweep.stores.redis.statements import Keys, encode, workspaces


class RedisStash:
    """Swept segments. Later entries have higher row numbers."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def put(self, workspace: str, entries: Sequence[Stashed]) -> None:
        """Store entries atomically. An entry with the same plan and segment is replaced."""
        keys = self._keys(workspace)
        latest: dict[tuple[str, str], Stashed] = {}
        for entry in entries:
            latest.pop((entry.plan_id, entry.segment.segment_id), None)
            latest[entry.plan_id, entry.segment.segment_id] = entry
        bodies = [STASHED.encode(entry) for entry in latest.values()]

        def work(pipe: Pipeline) -> None:
            last = int(pipe.hget(keys.stash_state, "row") or 0)
            replaced = self._find(pipe, keys, latest)
            pipe.multi()
            pipe.sadd(workspaces(self._prefix), encode(workspace))
            _remove(pipe, keys, replaced)
            for row, (entry, body) in enumerate(
                zip(latest.values(), bodies, strict=True), last + 1
            ):
                _add(pipe, keys, row, entry, body)
            pipe.hset(keys.stash_state, "row", last + len(latest))

        self._client.write(keys.stash_state, work)

    def get(self, workspace: str, segment_ids: Sequence[str]) -> tuple[Stashed, ...]:
        """Fetch the entries of these segments, newest first."""
        keys = self._keys(workspace)

        def queue(pipe: Pipeline) -> None:
            for segment_id in dict.fromkeys(segment_ids):
                pipe.smembers(keys.segment(segment_id))

        rows = sorted((row for rows in self._client.read_all(queue) for row in rows), key=int)
        return self._fetch(keys, rows[::-1])

    def of_plan(self, workspace: str, plan_id: str) -> tuple[Stashed, ...]:
        """Fetch what a plan swept, in heap order."""
        keys = self._keys(workspace)
        with self._client.reading() as server:
            rows = server.hvals(keys.plan(plan_id))
        return tuple(sorted(self._fetch(keys, rows), key=heap_order))

    def remove(self, workspace: str, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Drop a plan's entries atomically. Unknown ids are not an error."""
        keys = self._keys(workspace)
        wanted = [(plan_id, segment_id) for segment_id in dict.fromkeys(segment_ids)]

        def work(pipe: Pipeline) -> None:
            found = self._find(pipe, keys, wanted)
            pipe.multi()
            _remove(pipe, keys, found)
            pipe.hincrby(keys.stash_state, "removals", 1)

        self._client.write(keys.stash_state, work)

    def search(self, workspace: str, query: Query) -> tuple[Hit[Stashed], ...]:
        """Find entries, best first; without words, newest first."""
        keys = self._keys(workspace)
        if query.words:
            ranked = ranked_by_words(self._client, keys.stash_words, query.words)
        else:
            with self._client.reading() as server:
                ranked = [(row, 0.0) for row in server.zrevrange(keys.stash_order, 0, -1)]
        ranked.sort(key=lambda each: (-each[1], -int(each[0])))
        found = hits(self._client, keys.stash, ranked, STASHED)
        passing = (hit for hit in found if query.matches(hit.found.segment))
        return tuple(islice(passing, max(0, query.limit)))

    def entries(self, workspace: str) -> Iterator[Stashed]:
        """Read all entries, oldest first, in batches."""
        keys, after = self._keys(workspace), "-inf"
        while True:
            with self._client.reading() as server:
                rows = server.zrangebyscore(
                    keys.stash_order, after, "+inf", start=0, num=FETCHED_AT_ONCE
                )
            if not rows:
                return
            yield from self._fetch(keys, rows)
            after = f"({int(rows[-1])}"

    def expired(self, workspace: str, now: datetime) -> tuple[Stashed, ...]:
        """Fetch the entries whose deletion has become final, oldest first."""
        keys = self._keys(workspace)
        with self._client.reading() as server:
            rows = server.zrangebyscore(keys.stash_expiring, "-inf", microseconds(now))
        return self._fetch(keys, sorted(rows, key=int))

    def count(self, workspace: str, most: int = sys.maxsize) -> int:
        """Count the entries, up to `most`."""
        with self._client.reading() as server:
            return min(most, int(server.zcard(self._keys(workspace).stash_order)))

    def _keys(self, workspace: str) -> Keys:
        return Keys(self._prefix, workspace)

    def _fetch(self, keys: Keys, rows: Sequence[bytes]) -> tuple[Stashed, ...]:
        if not rows:
            return ()
        with self._client.reading() as server:
            return self._read(body for body in server.hmget(keys.stash, rows) if body is not None)

    def _find(
        self, pipe: Pipeline, keys: Keys, wanted: Iterable[tuple[str, str]]
    ) -> list[tuple[bytes, Stashed]]:
        """Find existing entries by plan and segment."""
        by_plan: dict[str, list[bytes]] = {}
        for plan_id, segment_id in wanted:
            by_plan.setdefault(plan_id, []).append(encode(segment_id))
        rows = [
            row
            for plan_id, ids in by_plan.items()
            for row in pipe.hmget(keys.plan(plan_id), ids)
            if row is not None
        ]
        if not rows:
            return []
        return list(zip(rows, self._read(pipe.hmget(keys.stash, rows)), strict=True))

    def _read(self, bodies: Iterable[bytes]) -> tuple[Stashed, ...]:
        return tuple(read(self._client, STASHED, list(bodies)))


def _add(pipe: Pipeline, keys: Keys, row: int, entry: Stashed, body: bytes) -> None:
    pipe.hset(keys.stash, row, body)
    pipe.zadd(keys.stash_order, {row: row})
    pipe.hset(keys.plan(entry.plan_id), encode(entry.segment.segment_id), row)
    pipe.sadd(keys.segment(entry.segment.segment_id), row)
    if entry.expires_at is not None:
        pipe.zadd(keys.stash_expiring, {row: microseconds(entry.expires_at)})
    index(pipe, keys.stash_words, str(row).encode(), entry.segment)


def _remove(pipe: Pipeline, keys: Keys, found: Iterable[tuple[bytes, Stashed]]) -> None:
    for row, entry in found:
        pipe.hdel(keys.stash, row)
        pipe.zrem(keys.stash_order, row)
        pipe.zrem(keys.stash_expiring, row)
        pipe.hdel(keys.plan(entry.plan_id), encode(entry.segment.segment_id))
        pipe.srem(keys.segment(entry.segment.segment_id), row)
        unindex(pipe, keys.stash_words, row, entry.segment)
