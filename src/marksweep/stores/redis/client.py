"""The connection to a Redis server: transactions with a watched key, error messages."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from marksweep.errors import StoreBusy, StoreCorrupt, StoreError, not_a_url
from marksweep.urls import redacted

CONNECT_TIMEOUT = 5.0
"""Seconds to wait for a connection. Lower fails sooner on a slow network."""

ANSWER_TIMEOUT = 30.0
"""Seconds to wait for a response. Lower gives up sooner on a server that hangs or is just slow."""

Given = TypeVar("Given")

Pipeline = Any
"""A redis-py transaction, whose types do not separate reading from queueing."""

_MEANINGS: tuple[tuple[type[Exception], str], ...] = (
    (redis.AuthenticationError, "it rejects the credentials. Put valid ones into the URL."),
    (redis.TimeoutError, "it does not answer. Check that it runs and can be reached."),
    (redis.ConnectionError, "it cannot be reached. Check that it runs, and the URL."),
    (redis.exceptions.ReadOnlyError, "it is a read-only replica. Name the primary."),
    (redis.exceptions.OutOfMemoryError, "its memory is full. Give it more, or collect."),
)
"""What redis-py's errors mean, and what to do."""


class Client:
    """One server, by URL. Threads may share it."""

    def __init__(self, url: str, timeout: float) -> None:
        self.timeout = timeout
        self._closed = False
        self.name = redacted(url)
        try:
            _check_database(url)
            self._redis: Any = redis.Redis.from_url(
                url,
                socket_timeout=ANSWER_TIMEOUT,
                socket_keepalive=True,
                socket_connect_timeout=CONNECT_TIMEOUT,
                # A command that is resent after a lost response may run twice.
                retry=Retry(NoBackoff(), 0),
            )
            pool = self._redis.connection_pool
            pool.connection_kwargs["decode_responses"] = False
            pool.connection_class(**pool.connection_kwargs)  # a TypeError if one is unknown
        except (ValueError, TypeError):  # its message may quote a part of the password
            expected = "redis://host[:port][/number]"
            raise not_a_url(url, "Redis", expected) from None
        with self.errors():
            self._redis.ping()
            self._refuse_cluster()

    def _refuse_cluster(self) -> None:
        """Refuse a cluster node, which has only some of the keys."""
        with suppress(redis.ResponseError):  # a user who may not run INFO
            if self._redis.info("cluster").get("cluster_enabled"):
                raise StoreError(
                    f"{self.name}: it is a node of a Redis Cluster, which has only a part of the "
                    "keys. Name a single server, or one with replicas."
                )

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """Yield the connection for reads."""
        with self.errors():
            if self._closed:
                raise StoreError(f"{self.name}: the store is closed. Open it again.")
            yield self._redis

    def command(self, *words: object) -> object:
        """Run one command."""
        with self.reading() as server:
            return server.execute_command(*words)

    def read_all(self, queue: Callable[[Pipeline], None]) -> list[Any]:
        """Read several values atomically."""
        with self.reading() as server, server.pipeline(transaction=True) as pipe:
            queue(pipe)
            found: list[Any] = pipe.execute()
            return found

    def write(self, watched: bytes, work: Callable[[Pipeline], Given]) -> Given:
        """Run `work` as one transaction; retry if `watched` changes meanwhile.

        The work reads, then calls `multi()` and queues its writes, one of them on `watched`.
        """
        deadline = time.monotonic() + self.timeout
        with self.reading() as server:
            while True:
                with server.pipeline(transaction=True) as pipe:
                    try:
                        pipe.watch(watched)
                        given = work(pipe)
                        pipe.execute()
                    except redis.WatchError:
                        if time.monotonic() > deadline:
                            raise StoreBusy(
                                f"{self.name}: others kept writing for more than "
                                f"{self.timeout:g} s. Try again."
                            ) from None
                    else:
                        return given

    def close(self) -> None:
        """Close the connections. A closed store refuses further calls."""
        self._closed = True
        self._redis.close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Explain a server error and what to do about it."""
        try:
            yield
        except redis.RedisError as error:
            for kind, meaning in _MEANINGS:
                if isinstance(error, kind):
                    raise StoreError(f"{self.name}: {meaning} ({error})") from error
            raise StoreError(
                f"{self.name}: the server returned an error: {error}. Nothing was changed. "
                "Check the server's log."
            ) from error

    def unreadable(self, error: Exception) -> StoreCorrupt:
        """Report a value with unexpected content."""
        return StoreCorrupt(
            f"{self.name}: a value cannot be read ({error}). It was left as it is. "
            "Look at it with redis-cli, or restore a backup."
        )


def _check_database(url: str) -> None:
    """Refuse a database that is not a number; redis-py would use 0."""
    parts = urlsplit(url)
    if parts.scheme != "unix" and not re.fullmatch(r"/?[0-9]*", parts.path):
        raise ValueError(parts.path)
