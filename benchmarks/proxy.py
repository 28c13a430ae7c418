"""The proxy: what it adds to a request of 100,000 tokens; its memory after 200 conversations."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from benchmarks.rows import Row

REQUESTS = 40
"""Requests of each kind that are timed, alternating."""

CONVERSATIONS = 200

MOST_MILLISECONDS = 15.0
MOST_MEGABYTES = 600.0

UNTOUCHED = {"authorization": "Bearer sk-ant-oat"}
"""A header for which requests are forwarded unchanged: the baseline."""


class Echo(BaseHTTPRequestHandler):
    """Answers every request with a few bytes."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65_536  # one packet for an answer; two would wait for an acknowledgement

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running(limit: str) -> Iterator[tuple[httpx.Client, int]]:
    """Run a proxy in front of the echo; yield a client of it, and its process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        upstream = f"http://127.0.0.1:{server.server_address[1]}"
        command = [sys.executable, "-m", "marksweep", "proxy", "--port", "0", "--limit", limit]
        command += ["--store", str(Path(folder) / "proxy.db"), "--upstream", upstream]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder
        )
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        try:
            with httpx.Client(base_url=url, timeout=120) as client:
                yield client, process.pid
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()
            server.shutdown()
            server.server_close()


def body(task: str, steps: int, lines: int) -> dict[str, Any]:
    """Make a request with a history of this many calls."""
    messages: list[Any] = [{"role": "user", "content": task}]
    for n in range(steps):
        call = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"path": f"{n}.py"}}
        text = "\n".join(f"{task}: line {i} of file {n} says {i * n % 97}" for i in range(lines))
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": text}
        messages += [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
    return {"model": "m", "messages": messages}


def latency() -> Row:
    """Time requests of 100,000 tokens that grow by an exchange each, against the baseline."""
    whole = body("a long task", 120, 56)
    taken: dict[bool, list[float]] = {True: [], False: []}
    with running("200k") as (client, _):
        for n in range(REQUESTS):
            end = len(whole["messages"]) - 2 * (REQUESTS - 1 - n)
            data = json.dumps({**whole, "messages": whole["messages"][:end]}).encode()
            for is_bare in (True, False):
                began = time.perf_counter()
                client.post("/v1/messages", content=data, headers=UNTOUCHED if is_bare else {})
                taken[is_bare].append(time.perf_counter() - began)
    bare, ours = (statistics.median(taken[key]) * 1_000 for key in (True, False))
    return Row(
        "proxy: a request of 100k tokens, over a bare pass-through",
        f"≤ {MOST_MILLISECONDS:g} ms",
        f"{ours - bare:.1f} ms, {ours / bare:.1f} × of {bare:.1f} ms",
        ours - bare <= MOST_MILLISECONDS,
    )


def memory() -> Row:
    """Run many conversations one after the other; measure the memory of the process."""
    with running("30k") as (client, pid):
        client.post("/v1/messages", json=body("the first", 2, 5))
        before = megabytes(pid)
        for n in range(CONVERSATIONS):
            client.post("/v1/messages", json=body(f"task {n}", 40, 40))
        after = megabytes(pid)
    return Row(
        f"proxy: memory after {CONVERSATIONS} conversations of 25k tokens",
        f"≤ {MOST_MEGABYTES:g} MB",
        f"{after:.0f} MB, {before:.0f} MB at the start",
        after <= MOST_MEGABYTES,
    )


def megabytes(pid: int) -> float:
    """Measure the memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1_000


def rows() -> list[Row]:
    return [latency(), memory()]
