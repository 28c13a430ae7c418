"""The MCP server: its start, a call over stdio, and fifty clients over HTTP.

python -m benchmarks mcp                     one minute of fifty clients
python -m benchmarks mcp --minutes 10        the long run, for memory
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters

import marksweep
from benchmarks.rows import Row, print_rows
from marksweep.model import Segment
from marksweep.segments import Segments
from marksweep.testing.builders import NOW

CLIENTS = 50
SECONDS = float(os.environ.get("MARKSWEEP_BENCH_SECONDS", "60"))
SEGMENTS = 10_000
SAMPLES = 20
"""How often the server's memory is sampled, and progress is printed."""
SERVE = [sys.executable, "-m", "marksweep", "serve", "--tools", "all", "--log-level", "warning"]
Call = Callable[[str, dict[str, Any]], Awaitable[None]]
VERSION = "2026-07-28"
HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": VERSION,
    "mcp-method": "tools/call",
}
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(marksweep.__file__).parents[1])}


def rows() -> list[Row]:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stdio = asyncio.run(_stdio(folder / "stdio"))
        return [*stdio, *_http(folder / "http")]


async def _stdio(folder: Path) -> list[Row]:
    folder.mkdir()
    _fill(folder, SEGMENTS)
    ready = []
    for _ in range(3):
        started = time.perf_counter()
        async with _child(folder):
            ready.append(time.perf_counter() - started)
    async with _child(folder) as client:
        seconds = [await _timed(client, number) for number in range(300)]
    middle = median(seconds) * 1000
    return [
        Row(
            "serve on stdio: ready after, median of 3",
            "≤ 1.5 s",
            f"{median(ready):.2f} s",
            ok=median(ready) <= 1.5,
        ),
        Row(
            f"a call over stdio at {SEGMENTS:,} segments, median of add, search and pin",
            "≤ 5 ms",
            f"{middle:.1f} ms",
            ok=middle <= 5,
        ),
    ]


def _fill(folder: Path, number: int) -> None:
    context = Segments(folder / ".marksweep" / "store.db", limit=10**9)
    context.add(
        *(
            Segment(
                segment_id=f"old-{n}",
                type=("log", "code", "note", "message")[n % 4],
                text=f"line {n} of the session",
                created_at=NOW,
                tokens=8,
            )
            for n in range(number)
        )
    )
    context.close()


@asynccontextmanager
async def _child(folder: Path) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=SERVE[0], args=[*SERVE[1:], "--root", str(folder)], env=ENVIRONMENT, cwd=folder
    )
    async with Client(parameters) as client:
        yield client


async def _timed(client: Client, number: int) -> float:
    tool, arguments = _work(f"new-{number // 3}", number)
    started = time.perf_counter()
    result = await client.call_tool(tool, arguments)
    took = time.perf_counter() - started
    assert not result.is_error, result.content
    return took


def _work(name: str, number: int) -> tuple[str, dict[str, Any]]:
    """Alternate: add a segment, search the stash, pin the segment."""
    added = {"text": f"what was learnt in turn {number}", "segment_id": name, "type": "note"}
    return (
        ("context_add", {"segments": [added]}),
        ("context_recall", {"words": "learnt", "action": "show"}),
        ("context_gc_pin", {"segment_ids": [name]}),
    )[number % 3]


def _http(folder: Path) -> Iterator[Row]:
    folder.mkdir()
    with _server(folder) as (address, process):
        calls: list[float] = []
        added: list[str] = []
        before, busy = _resident(process.pid), _processor_seconds(process.pid)
        samples = asyncio.run(_clients(address, calls, added, process.pid))
        after = samples[-1]
        each = (_processor_seconds(process.pid) - busy) / len(calls)
    p99 = quantiles(calls, n=100)[98]
    rate = len(calls) / SECONDS
    middle = samples[len(samples) // 2]
    yield Row(
        f"HTTP, {CLIENTS} clients, mixed calls for {SECONDS:.0f} s",
        "≥ 200 calls/s",
        f"{rate:.0f} calls/s ({each * 1000:.1f} ms of processor each)",
        ok=rate >= 200,
    )
    yield Row("… slowest of a hundred", "≤ 500 ms", f"{p99 * 1000:.0f} ms", ok=p99 <= 0.5)
    lost, duplicated = _audit(folder, added)
    yield Row(
        f"… of {len(added):,} segments lost or duplicated",
        "0",
        f"{lost + duplicated}",
        ok=lost + duplicated == 0,
    )
    growth = after / middle
    yield Row(
        f"… memory at the end of {SECONDS:.0f} s against half-time: steady",
        "≤ 1.2×",
        f"{growth:.2f}× ({before >> 20} MB at the start, {middle >> 20} MB → {after >> 20} MB)",
        ok=growth <= 1.2,
    )


@contextmanager
def _server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [*SERVE[:-1], "info", "--http", "--port", "0", "--rate", "100000"]
    with subprocess.Popen(
        [*command, "--root", str(folder)], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "listening on" in line)
        drain = f"cat <&{process.stderr.fileno()} >/dev/null"
        with subprocess.Popen(["sh", "-c", drain], pass_fds=[process.stderr.fileno()]) as sink:
            try:
                yield line.split("listening on ")[1].split('"')[0], process
            finally:
                process.terminate()
                process.wait()
                sink.terminate()


async def _clients(address: str, calls: list[float], added: list[str], process: int) -> list[int]:
    """Run all clients until the time is over; sample the server's memory meanwhile."""
    samples = []
    limits = httpx2.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
    async with httpx2.AsyncClient(timeout=60, limits=limits) as http:
        ends = time.monotonic() + SECONDS
        work = asyncio.gather(
            *(_client(partial(_call, http, address), n, ends, calls, added) for n in range(CLIENTS))
        )
        while not work.done():
            samples.append(_resident(process))
            _tell(ends, calls, samples[-1])
            await asyncio.sleep(SECONDS / SAMPLES)
        await work
    return samples


def _tell(ends: float, calls: list[float], resident: int) -> None:
    """Print progress on stderr."""
    passed = SECONDS - (ends - time.monotonic())
    rate = len(calls) / max(1.0, passed)
    line = f"{passed:5.0f} s: {len(calls):,} calls, {rate:.0f} a second, {resident >> 20} MB"
    print(line, file=sys.stderr, flush=True)


async def _client(
    call: Call, number: int, ends: float, calls: list[float], added: list[str]
) -> None:
    turn = 0
    while time.monotonic() < ends:
        tool, arguments = _mixed(f"c{number}-{turn // MIX}", turn % MIX)
        started = time.perf_counter()
        await call(tool, arguments)
        calls.append(time.perf_counter() - started)
        if tool == "context_add":
            added.append(arguments["segments"][0]["segment_id"])
        turn += 1


MIX = 6
"""Calls of one round."""


def _mixed(name: str, step: int) -> tuple[str, dict[str, Any]]:
    """Return one step of a round: add, search, pin; add, unpin the first, prune the second.

    Nothing stays pinned, so that what is live is bounded by the budget, as with a real agent.
    """
    if step < 3:
        return _work(name, step)
    if step == 3:
        return _work(f"{name}-b", 0)
    if step == 4:
        return "context_gc_unpin", {"segment_ids": [name]}
    return "context_gc_prune", {"segment_ids": [f"{name}-b"]}


async def _call(
    http: httpx2.AsyncClient, address: str, tool: str, arguments: dict[str, Any]
) -> None:
    """Make one call of the current protocol without the SDK: its client costs more than the server.

    The tests use the SDK's client; here it would only measure itself, on the same two cores.
    """
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = await http.post(address, json=body, headers=HEADERS | {"mcp-name": tool})
    assert answer.status_code == 200, answer.text
    line = next(line for line in reversed(answer.text.splitlines()) if '"jsonrpc"' in line)
    result = json.loads(line.removeprefix("data: "))["result"]
    assert not result.get("isError"), result


def _audit(folder: Path, added: list[str]) -> tuple[int, int]:
    """Count segments that are lost, and those that are both live and swept."""
    context = Segments(folder / ".marksweep" / "store.db")
    live = {segment.segment_id for segment in context.list()}
    stashed = {hit.found.segment.segment_id for hit in context.search_stash(limit=10**7)}
    context.close()
    return len(set(added) - live - stashed), len(live & stashed)


def _resident(process: int) -> int:
    """Read the memory a process has in use."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def _processor_seconds(process: int) -> float:
    """Read the processor time a process has used; other processes do not count."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print_rows(rows())
