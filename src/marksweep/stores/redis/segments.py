"""The live segments in Redis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from marksweep.model import Segment
from marksweep.search.words import found_alike
from marksweep.stores.base import Changes, Hit, Query
from marksweep.stores.codec import SEGMENT
from marksweep.stores.memory import CHANGES_KEPT, best
from marksweep.stores.redis.client import Client, Pipeline
from marksweep.stores.redis.search import hits, index, ranked_by_words, read, unindex
from marksweep.stores.redis.statements import Keys, decode, encode, workspaces


class RedisSegments:
    """The live segments of each workspace."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def changes(self, workspace: str, since: int = 0) -> Changes:
        """Return changes after version `since`, or everything if it is 0."""
        keys = Keys(self._prefix, workspace)
        with self._client.reading() as server:
            version, floor = _state(server.hmget(keys.live_state, "version", "floor"))
        if since == version > 0:
            return Changes(version)
        everything = since <= 0 or since < floor or since > version

        def queue(pipe: Pipeline) -> None:
            pipe.hmget(keys.live_state, "version", "floor")
            if everything:
                pipe.hvals(keys.live)
            else:
                pipe.zrangebyscore(keys.put_at, f"({since}", "+inf")
                pipe.zrangebyscore(keys.removed_at, f"({since}", "+inf")

        state, found, *rest = self._client.read_all(queue)
        version, floor = _state(state)
        if everything:
            return Changes(version, self._read(found), complete=True)
        if since < floor:
            return self.changes(workspace)
        with self._client.reading() as server:
            bodies = server.hmget(keys.live, found) if found else []
        # A segment removed since then is reported next time.
        put = self._read(body for body in bodies if body is not None)
        return Changes(version, put, tuple(decode(each) for each in rest[0]))

    def write(
        self, workspace: str, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()
    ) -> int:
        """Remove, then put, atomically; return the new version."""
        keys = Keys(self._prefix, workspace)
        puts = {encode(each.segment_id): each for each in put}
        bodies = {key: SEGMENT.encode(each) for key, each in puts.items()}
        gone = [key for key in dict.fromkeys(map(encode, remove)) if key not in puts]

        def work(pipe: Pipeline) -> int:
            version, _ = _state(pipe.hmget(keys.live_state, "version", "floor"))
            if not puts and not gone:
                pipe.multi()
                return version
            known = self._known(pipe, keys, [*puts, *gone])
            forgotten = self._to_forget(pipe, keys, sum(key in known for key in gone))
            version += 1
            pipe.multi()
            pipe.hset(keys.live_state, "version", version)
            for key in gone:
                if key in known:
                    unindex(pipe, keys.live_words, key, known[key])
                    pipe.hdel(keys.live, key)
                    pipe.zrem(keys.put_at, key)
                    pipe.zadd(keys.removed_at, {key: version})
            for key, segment in puts.items():
                _put(pipe, keys, key, segment, known.get(key))
                pipe.hset(keys.live, key, bodies[key])
                pipe.zadd(keys.put_at, {key: version})
                pipe.zrem(keys.removed_at, key)
            if forgotten is not None:
                pipe.zremrangebyscore(keys.removed_at, "-inf", forgotten)
                pipe.hset(keys.live_state, "floor", forgotten)
            return version

        with self._client.reading() as server:
            server.sadd(workspaces(self._prefix), encode(workspace))
        return self._client.write(keys.live_state, work)

    def search(self, workspace: str, query: Query) -> tuple[Hit[Segment], ...]:
        """Find live segments, best first; without words, last touched first."""
        keys = Keys(self._prefix, workspace)
        if not query.words:
            with self._client.reading() as server:
                live = self._read(server.hvals(keys.live))
            touched = (Hit(s, s.last_touched_at.timestamp()) for s in live if query.matches(s))
            return best(touched, query.limit)
        ranked = ranked_by_words(self._client, keys.live_words, query.words)
        found = hits(self._client, keys.live, ranked, SEGMENT)
        passing = (hit for hit in found if query.matches(hit.found))
        return tuple(islice(passing, max(0, query.limit)))

    def workspaces(self) -> tuple[str, ...]:
        """List the workspaces with live segments, sorted by name."""
        with self._client.reading() as server:
            names = [decode(each) for each in server.smembers(workspaces(self._prefix))]
            return tuple(
                sorted(name for name in names if server.hlen(Keys(self._prefix, name).live))
            )

    def _known(self, pipe: Pipeline, keys: Keys, wanted: Sequence[bytes]) -> dict[bytes, Segment]:
        bodies = pipe.hmget(keys.live, wanted)
        there = [(key, body) for key, body in zip(wanted, bodies, strict=True) if body is not None]
        read = self._read(body for _, body in there)
        return {key: segment for (key, _), segment in zip(there, read, strict=True)}

    def _to_forget(self, pipe: Pipeline, keys: Keys, more: int) -> int | None:
        """Return the version up to which removals are forgotten, if there are too many."""
        too_many: int = pipe.zcard(keys.removed_at) + more - 2 * CHANGES_KEPT
        if too_many <= 0:
            return None
        last = pipe.zrevrange(keys.removed_at, CHANGES_KEPT, CHANGES_KEPT, withscores=True)
        return int(last[0][1]) if last else None

    def _read(self, bodies: Iterable[bytes]) -> tuple[Segment, ...]:
        return tuple(read(self._client, SEGMENT, list(bodies)))


def _state(found: Sequence[bytes | None]) -> tuple[int, int]:
    version, floor = found
    return int(version or 0), int(floor or 0)


def _put(pipe: Pipeline, keys: Keys, key: bytes, new: Segment, old: Segment | None) -> None:
    """Queue the word index update."""
    if old is not None:
        if found_alike(old, new):
            return
        unindex(pipe, keys.live_words, key, old)
    index(pipe, keys.live_words, key, new)
