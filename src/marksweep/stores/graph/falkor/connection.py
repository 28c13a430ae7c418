"""The wire to FalkorDB: statements with parameters, transactions, reconnecting, clear errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from marksweep.errors import StoreError, StoreTooNew
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.driver import FalkorDB, redis_errors
from marksweep.stores.graph.rows import Row

Params = Mapping[str, object]
Step = tuple[str, Params]
Result = TypeVar("Result")

RECONNECT_SECONDS = 15.0
"""How long a call tries to reach a server that is away. Longer rides out slower restarts."""

FIRST_DELAY, LONGEST_DELAY = 0.05, 1.0
"""Back-off between two tries, in seconds; doubles from the first to the longest."""

LAYOUT = 3
"""Version of a graph's layout. Up to 2 there was an index on `stale`."""

PREFIX = "marksweep:"
"""What the names of our graphs begin with; the workspace's name follows."""

AS_WISHED = re.compile("already|no such index")
"""What the server says of an index that is there already, or gone already."""

_escape = re.compile(rb"\\\\|\\u00([01][0-9a-f])")


class Connection:
    """A server, and one graph in it per workspace."""

    def __init__(self, url: str, prefix: str = PREFIX) -> None:
        self.url = url
        self.prefix = prefix
        self._server: FalkorDB | None = None
        self._connecting = asyncio.Lock()
        self._checked: set[str] = set()
        self._closed = False

    async def read(
        self, workspace_id: str, statement: str, params: Params | None = None, **more: object
    ) -> list[Row]:
        """Run one statement that changes nothing; a graph that is not there has no rows."""
        await self._check(workspace_id)
        return await self._read(workspace_id, statement, {**(params or {}), **more})

    async def write(self, workspace_id: str, *steps: Step) -> list[list[Row]]:
        """Raise the workspace's version and run statements, all or nothing."""
        await self._prepare(workspace_id)
        results = await self._transaction(workspace_id, ((cypher.NEXT_VERSION, {}), *steps))
        return results[1:]

    async def command(self, *words: object) -> object:
        """Run a plain command of the server."""
        return await self._tried(lambda server: server.execute_command(*words))

    async def graphs(self) -> list[str]:
        """Name the workspaces that have a graph."""
        names = await self.command("GRAPH.LIST")
        return sorted(
            str(name)[len(self.prefix) :]
            for name in (names if isinstance(names, list) else ())
            if str(name).startswith(self.prefix)
        )

    async def close(self) -> None:
        """Let go of the connections."""
        self._closed = True
        if self._server is not None:
            await self._server.aclose()
            pool = getattr(self._server.connection, "connection_pool", None)
            if pool is not None:
                await pool.disconnect()
            self._server = None

    async def _read(
        self, workspace_id: str, statement: str, params: Params | None = None
    ) -> list[Row]:
        try:
            answer = await self.command(
                "GRAPH.RO_QUERY", self.prefix + workspace_id, _text(statement, params or {})
            )
        except StoreError as error:
            if isinstance(error.__cause__, redis_errors.ResponseError) and "empty key" in str(
                error.__cause__
            ):
                return []
            raise
        return _rows(answer)

    async def _transaction(self, workspace_id: str, steps: Sequence[Step]) -> list[list[Row]]:
        async def run(server: FalkorDB) -> list[object]:
            async with server.connection.pipeline(transaction=True) as pipe:
                for statement, params in steps:
                    pipe.execute_command(
                        "GRAPH.QUERY", self.prefix + workspace_id, _text(statement, params)
                    )
                results: list[object] = await pipe.execute()
                return results

        return [_rows(answer) for answer in await self._tried(run)]

    async def _check(self, workspace_id: str) -> None:
        """See once per workspace and connection that its layout is one we know, and in use."""
        if workspace_id in self._checked:
            return
        rows = await self._read(workspace_id, cypher.SCHEMA)
        found = int(rows[0][0] or 0) if rows else 0
        if found > LAYOUT:
            raise StoreTooNew(
                f"workspace {workspace_id!r} at {self.url} has graph layout {found}, this "
                f"marksweep knows up to {LAYOUT}. Upgrade marksweep to open it."
            )
        if not found:
            return
        if found < LAYOUT:
            await self._lay_out(workspace_id)
        await self._indexes(workspace_id)
        self._checked.add(workspace_id)

    async def _indexes(self, workspace_id: str) -> None:
        """Wait until the indexes are in use: a server that has restarted builds them anew.

        Without them a search misses rows, and every look-up reads the whole graph.
        """
        while True:
            rows = await self._read(workspace_id, cypher.UNFINISHED_INDEXES)
            if not rows or not rows[0][0]:
                return
            await asyncio.sleep(0.02)

    async def _prepare(self, workspace_id: str) -> None:
        """See that there is a graph to write to."""
        await self._check(workspace_id)
        if workspace_id not in self._checked:
            await self._lay_out(workspace_id)
            await self._check(workspace_id)

    async def _lay_out(self, workspace_id: str) -> None:
        """Create a graph's indexes, wait until they are in use, and only then say it is laid out.

        A process that dies half way leaves a graph without a layout, and the next one goes on. An
        older layout is brought up the same way: only indexes have changed since.
        """
        for statement in (*cypher.INDEXES, *cypher.DROPPED_INDEXES):
            try:
                await self._transaction(workspace_id, ((statement, {}),))
            except StoreError as error:
                if not isinstance(error.__cause__, redis_errors.ResponseError) or not (
                    AS_WISHED.search(str(error))
                ):
                    raise
        await self._indexes(workspace_id)
        params = {"schema": LAYOUT, "workspace_id": workspace_id}
        await self._transaction(workspace_id, ((cypher.SET_SCHEMA, params),))

    async def _tried(self, work: Callable[[FalkorDB], Awaitable[Result]]) -> Result:
        """Run work, reconnecting with back-off while the server is away.

        Everything we write can be written twice, so an answer that was lost is no harm.
        """
        if self._closed:
            raise StoreError(f"the store at {self.url} was closed; open a new one to go on.")
        delay = FIRST_DELAY
        deadline = asyncio.get_running_loop().time() + RECONNECT_SECONDS
        while True:
            try:
                return await work(await self._connected())
            except (redis_errors.ConnectionError, OSError) as error:
                self._checked.clear()
                if asyncio.get_running_loop().time() + delay > deadline:
                    raise StoreError(
                        f"no FalkorDB answers at {self.url}: {error}. Tried for "
                        f"{RECONNECT_SECONDS:.0f} s; start the server or correct the URL."
                    ) from error
                await asyncio.sleep(delay)
                delay = min(2 * delay, LONGEST_DELAY)
            except redis_errors.ResponseError as error:
                if "unknown command" in str(error):
                    raise StoreError(
                        f"the server at {self.url} is Redis without FalkorDB: it does not know "
                        "GRAPH commands. Name a FalkorDB server, or load its module."
                    ) from error
                raise StoreError(f"FalkorDB at {self.url} refused a statement: {error}") from error
            except redis_errors.RedisError as error:
                raise StoreError(f"FalkorDB at {self.url} cannot be used: {error}") from error

    async def _connected(self) -> FalkorDB:
        async with self._connecting:
            if self._server is None:
                # The client looks for a cluster when it is made, and blocks while it does.
                self._server = await asyncio.to_thread(
                    FalkorDB.from_url, self.url, socket_timeout=None, socket_connect_timeout=5
                )
            return self._server


def _text(statement: str, params: Params) -> bytes:
    """Put parameters before a statement, in the form that FalkorDB reads."""
    if not params:
        return statement.encode()
    given = b" ".join(name.encode() + b"=" + _literal(value) for name, value in params.items())
    return b"CYPHER " + given + b" " + statement.encode()


def _literal(value: object) -> bytes:
    """Write a value as JSON, which Cypher reads too, but for control characters.

    Those stand as they are in Cypher and as \\u00xx in JSON.
    """
    encoded = msgspec.json.encode(value)
    if b"\\u00" not in encoded:
        return encoded
    return _escape.sub(lambda m: bytes([int(m[1], 16)]) if m[1] else m[0], encoded)


def _rows(answer: object) -> list[Row]:
    """Take the rows out of an answer: header, rows, statistics; or statistics only."""
    if isinstance(answer, list) and len(answer) == 3:
        return [tuple(row) for row in answer[1]]
    return []
