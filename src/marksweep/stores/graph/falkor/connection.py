"""The connection to FalkorDB: statements with parameters, transactions, reconnecting, errors."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from marksweep.errors import StoreError, StoreTooNew, not_a_url
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.reading import Statements
from marksweep.stores.graph.rows import Row, plain

try:
    from falkordb import FalkorDB  # type: ignore[import-untyped]
    from redis import exceptions as redis_errors
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as missing:
    raise StoreError(
        "a FalkorDB store needs the package falkordb: install marksweep[falkordb]."
    ) from missing

__all__ = ["Connection", "client_at", "redis_errors"]

Params = Mapping[str, object]
Step = tuple[str, Params]
Result = TypeVar("Result")

Wire = Any
"""A connection of redis-py, whose methods are not typed."""

RECONNECT_SECONDS = 15.0
"""How long a call tries to reach a server that does not answer. Longer survives slower restarts."""

FIRST_DELAY, LONGEST_DELAY = 0.05, 1.0
"""Back-off between two attempts, in seconds; doubles from the first to the longest."""

CONNECT_SECONDS = 5.0
"""How long a server may take to accept a connection, negotiate TLS and check the password."""

ANSWER_SECONDS = 600.0
"""How long a statement may take. On half a million chunks the longest take a few seconds."""

INDEX_POLL_SECONDS = 0.02
"""How often to check whether a server has finished building its indexes."""

LAYOUT, FIRST_LAYOUT = 5, 4
"""Version of a graph's layout, and that of the first release.

To change K1, B, MEAN_WORDS or NAME_WEIGHT of the ranking, increase it: the index contains them.
"""

PREFIX = "marksweep:"
"""Prefix of marksweep's graph names; the workspace's name follows."""

DONE_BEFORE = re.compile("already|no such index")
"""The server's errors for an index that already exists, or no longer does."""

INTERNED = re.compile(r"intern\((.*?)\)")
"""A text that the server stores once. Servers before 4.10 lack this function."""

_escape = re.compile(rb"\\\\|\\u00([01][0-9a-f])")


class Connection:
    """A server with one graph per workspace. Thread-safe."""

    statements: Statements = cypher

    def __init__(self, url: str, prefix: str, patience_seconds: float) -> None:
        self.url = url
        self.prefix = prefix
        self.advice = "start the server or correct the URL"
        """What to do if the server does not answer."""
        self.revive: Callable[[], None] = lambda: None
        """Starts a server that has ended, if it is ours to start."""
        self._patience_seconds = patience_seconds
        self._server: FalkorDB | None = None
        self._connecting = threading.Lock()
        self._checked: set[str] = set()
        self._interns = True
        self._thread = threading.local()
        """Whether this thread is in a call: if so, a new connection means that one was lost."""
        self._closed = False

    def read(
        self, workspace_id: str, statement: str, params: Params | None = None, **more: object
    ) -> list[Row]:
        """Run one read-only statement; a missing graph has no rows."""
        (rows,) = self.read_all(workspace_id, (statement,), {**(params or {}), **more})
        return rows

    def read_all(
        self, workspace_id: str, statements: Sequence[str], params: Params
    ) -> list[list[Row]]:
        """Run read-only statements in one round trip, to wait for a busy server only once."""

        def run(server: FalkorDB) -> list[list[Row]]:
            self._check(server, workspace_id)
            return self._read(server, workspace_id, statements, params)

        return self._tried(run)

    def write(self, workspace_id: str, *steps: Step) -> list[list[Row]]:
        """Increment the workspace's version and run statements, all or nothing."""

        def run(server: FalkorDB) -> list[list[Row]]:
            self._check(server, workspace_id)
            if workspace_id not in self._checked:
                self._lay_out(server, workspace_id, cypher.INDEXES)
                self._check(server, workspace_id)
            return self._transaction(server, workspace_id, (cypher.NEXT_VERSION, {}), *steps)[1:]

        return self._tried(run)

    def command(self, *words: object) -> object:
        """Run a raw server command."""
        return self._tried(lambda server: server.execute_command(*words))

    def graphs(self) -> list[str]:
        """List the workspaces that have a graph."""
        names = self.command("GRAPH.LIST")
        return sorted(
            str(name)[len(self.prefix) :]
            for name in (names if isinstance(names, list) else ())
            if str(name).startswith(self.prefix)
        )

    def key(self, workspace_id: str) -> str:
        """Return the name of a workspace's graph on the server."""
        return self.prefix + plain(workspace_id)

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        with self._connecting:
            if self._server is not None:
                self._server.connection.connection_pool.disconnect()
                self._server = None

    def _read(
        self, server: FalkorDB, workspace_id: str, statements: Sequence[str], params: Params
    ) -> list[list[Row]]:
        with server.connection.pipeline(transaction=False) as pipe:
            for statement in statements:
                pipe.execute_command(
                    "GRAPH.RO_QUERY", self.key(workspace_id), _text(statement, params)
                )
            answers: list[object] = pipe.execute(raise_on_error=False)
        for answer in answers:
            if isinstance(answer, Exception) and "empty key" not in str(answer):
                raise answer
        return [_rows(answer) for answer in answers]

    def _transaction(self, server: FalkorDB, workspace_id: str, *steps: Step) -> list[list[Row]]:
        with server.connection.pipeline(transaction=True) as pipe:
            for statement, params in steps:
                known = statement if self._interns else INTERNED.sub(r"\1", statement)
                pipe.execute_command("GRAPH.QUERY", self.key(workspace_id), _text(known, params))
            return [_rows(answer) for answer in pipe.execute()]

    def _check(self, server: FalkorDB, workspace_id: str) -> None:
        """Check a workspace's layout and indexes, once per connection."""
        if workspace_id in self._checked:
            return
        (rows,) = self._read(server, workspace_id, (cypher.SCHEMA,), {})
        found = int(rows[0][0] or 0) if rows else 0
        if found > LAYOUT:
            raise StoreTooNew(
                f"workspace {workspace_id!r} at {self.url} has graph layout {found}, this "
                f"marksweep knows up to {LAYOUT}. Upgrade marksweep to open it."
            )
        if not found:
            return
        if found < FIRST_LAYOUT:
            raise StoreError(
                f"workspace {workspace_id!r} at {self.url} has graph layout {found}, written "
                "before the first release of marksweep. Name another workspace."
            )
        if found < LAYOUT:
            self._lay_out(server, workspace_id, (*cypher.UPGRADE, *cypher.INDEXES))
        self._await_indexes(server, workspace_id)
        try:
            self._read(server, workspace_id, ("RETURN intern('')",), {})
        except redis_errors.ResponseError:
            self._interns = False
        self._checked.add(workspace_id)

    def _await_indexes(self, server: FalkorDB, workspace_id: str) -> None:
        """Wait until the indexes are in use: a restarted server rebuilds them.

        Without them a search misses rows, and every look-up reads the whole graph.
        """
        while True:
            (rows,) = self._read(server, workspace_id, (cypher.UNFINISHED_INDEXES,), {})
            if not rows or not rows[0][0]:
                return
            time.sleep(INDEX_POLL_SECONDS)

    def _lay_out(self, server: FalkorDB, workspace_id: str, statements: Sequence[str]) -> None:
        """Create a graph's indexes, wait until they are in use, and only then record the layout.

        A process that dies midway leaves a graph with no layout or the older one, and the next
        process repeats the statements.
        """
        for statement in statements:
            try:
                self._transaction(server, workspace_id, (statement, {}))
            except redis_errors.ResponseError as error:
                if not DONE_BEFORE.search(str(error)):
                    raise
        self._await_indexes(server, workspace_id)
        params = {"schema": LAYOUT, "workspace_id": plain(workspace_id)}
        self._transaction(server, workspace_id, (cypher.SET_SCHEMA, params))

    def _tried(self, work: Callable[[FalkorDB], Result]) -> Result:
        """Run work, reconnecting with back-off while the server is down.

        Every write is idempotent, so a lost reply does no harm. A retry starts by checking the
        layout: a restarted server may still be building its indexes.
        """
        delay = FIRST_DELAY
        deadline = time.monotonic() + self._patience_seconds
        while True:
            if self._closed:
                raise StoreError(f"the store at {self.url} was closed; open a new one to continue.")
            try:
                server = self._connected()
                self._thread.is_working = True
                try:
                    return work(server)
                finally:
                    self._thread.is_working = False
            except redis_errors.AuthenticationError as error:
                raise StoreError(
                    f"FalkorDB at {self.url} does not accept the user or password: {error}. "
                    "Correct them in the URL."
                ) from error
            except (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError) as error:
                if self._lacks_tls(error):
                    raise StoreError(
                        f"no TLS connection to {self.url}: {error}. For a server without TLS, use "
                        "falkordb://."
                    ) from error
                self._checked.clear()
                if time.monotonic() + delay > deadline:
                    raise StoreError(
                        f"no FalkorDB answers at {self.url}: {error}. Tried for "
                        f"{self._patience_seconds:g} s; {self.advice}."
                    ) from error
                with suppress(OSError):  # its folder may be gone
                    self.revive()
                time.sleep(delay)
                delay = min(2 * delay, LONGEST_DELAY)
            except redis_errors.ResponseError as error:
                if "unknown command" in str(error):
                    raise StoreError(
                        f"the server at {self.url} is Redis without FalkorDB: it does not know "
                        "GRAPH commands. Name a FalkorDB server, or load its module."
                    ) from error
                if "read only replica" in str(error):
                    raise StoreError(
                        f"FalkorDB at {self.url} is a read-only replica. Name the primary."
                    ) from error
                raise StoreError(f"FalkorDB at {self.url} refused a statement: {error}") from error
            except redis_errors.RedisError as error:
                raise StoreError(f"FalkorDB at {self.url} cannot be used: {error}") from error

    def _lacks_tls(self, error: Exception) -> bool:
        """Return whether TLS failed: a server without TLS sends an invalid reply, or none."""
        no_answer = isinstance(error, redis_errors.TimeoutError)
        return self.url.startswith("rediss:") and (
            no_answer or isinstance(error.__context__, ssl.SSLError)
        )

    def _connected(self) -> FalkorDB:
        with self._connecting:
            if self._server is None:
                # The client's own retries would skip the layout check.
                self._server = client_at(
                    self.url,
                    socket_timeout=CONNECT_SECONDS,
                    socket_connect_timeout=CONNECT_SECONDS,
                    redis_connect_func=self._greet,
                    retry=Retry(NoBackoff(), 0),
                )
            server = self._server
        # The client silently replaces a connection that was lost while idle: have it do so here,
        # not in the middle of work.
        pool = server.connection.connection_pool
        pool.release(pool.get_connection())
        return server

    def _greet(self, connection: Wire) -> None:
        """Authenticate within CONNECT_SECONDS; later statements may take longer.

        A new connection may mean that the server has restarted: layouts are checked again, and
        work in progress starts over.
        """
        connection.on_connect()
        self._refuse_cluster(connection)
        connection._sock.settimeout(ANSWER_SECONDS)  # noqa: SLF001  there is no public API
        self._checked.clear()
        if getattr(self._thread, "is_working", False):
            raise redis_errors.ConnectionError("the connection was lost")

    def _refuse_cluster(self, connection: Wire) -> None:
        """Reject a cluster node, which holds only some of the graphs."""
        with suppress(redis_errors.ResponseError):  # the user may lack permission
            connection.send_command("INFO", "cluster")
            if "cluster_enabled:1" in str(connection.read_response()):
                connection.disconnect()
                raise StoreError(
                    f"{self.url}: it is a node of a cluster, which holds only some of the graphs. "
                    "Name a single server, or one with replicas."
                )


def client_at(url: str, **options: object) -> FalkorDB:
    """Make the client of a server; BadInput if that is not a URL."""
    try:
        server = FalkorDB.from_url(url, **options)
        pool = server.connection.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # a TypeError if one is unknown
    except (ValueError, TypeError):  # its message may quote a part of the password
        raise not_a_url(url, "FalkorDB", "falkordb://host[:port]") from None
    return server


def _text(statement: str, params: Params) -> bytes:
    """Prefix a statement with its parameters, in FalkorDB's syntax."""
    if not params:
        return statement.encode()
    given = b" ".join(name.encode() + b"=" + _literal(value) for name, value in params.items())
    return b"CYPHER " + given + b" " + statement.encode()


def _literal(value: object) -> bytes:
    """Encode a value as JSON, which Cypher reads too, except for control characters.

    Those are literal in Cypher and written as \\u00xx in JSON.
    """
    encoded = msgspec.json.encode(value)
    if b"\\u00" not in encoded:
        return encoded
    return _escape.sub(lambda m: bytes([int(m[1], 16)]) if m[1] else m[0], encoded)


def _rows(answer: object) -> list[Row]:
    """Extract the rows of a reply: header, rows, statistics; or statistics only."""
    if isinstance(answer, list) and len(answer) == 3:
        return [tuple(row) for row in answer[1]]
    return []
