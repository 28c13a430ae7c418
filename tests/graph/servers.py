"""A FalkorDB network server for the tests: one per run, a fresh set of graphs per test."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.falkor.server import WAITING, binaries, drop_unfinished
from tests.graph.graph_contract import OpenStore

SERVER, MODULE = binaries()


PORTS = range(15_000, 32_000)
"""Ports below the ephemeral range: a client that tries to reach a stopped server must not get that
server's port as its own, or it would connect to itself."""


def free_port() -> int:
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def start(directory: Path, port: int, *options: str) -> subprocess.Popen[bytes]:
    """Start a server that persists in a directory, and wait until it answers."""
    drop_unfinished(directory)
    process = subprocess.Popen(
        [
            str(SERVER),
            *("--port", str(port)),
            *("--bind", "127.0.0.1"),
            *("--dir", str(directory)),
            *("--appendonly", "yes"),
            *("--save", ""),
            *("--logfile", str(directory / "server.log")),
            *options,
        ],
        env={**WAITING, **os.environ},
    )
    deadline = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                client.sendall(b"PING\r\n")
                if client.recv(64).startswith((b"+PONG", b"-NOAUTH")):
                    return process
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                log = (directory / "server.log").read_text()[-2000:]
                raise AssertionError(f"the FalkorDB server did not start:\n{log}") from error
        time.sleep(0.005)


def falkor_options() -> tuple[str, ...]:
    return ("--loadmodule", str(MODULE))


ALWAYS = ("--appendfsync", "always")
"""Options that keep every acknowledged write through a kill: by default a server may delay writing
its file for two seconds while the disk is busy."""


def often_rewritten() -> tuple[str, ...]:
    """Make the server rewrite its file often, as a server does that has run for long.

    So kills also interrupt a rewrite, and it starts as fast after many kills as after few.
    """
    return (*falkor_options(), *ALWAYS, "--auto-aof-rewrite-min-size", "300kb")


class Server:
    """A server on loopback that can be killed and restarted on its files."""

    def __init__(self, directory: Path, *options: str) -> None:
        self._directory = directory
        self._options = options
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        self._process = start(self._directory, self._port, *self._options)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()


@contextmanager
def killable_server(directory: Path, *options: str) -> Iterator[Server]:
    """Run a server with these options until the block ends, even if it was killed."""
    server = Server(directory, *options)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def network_server(directory: Path) -> Iterator[str]:
    """Run a FalkorDB server on loopback; yield its URL."""
    with killable_server(directory, *falkor_options()) as server:
        yield server.url


def fresh_graphs(url: str) -> OpenStore:
    """Open stores that share nothing with other tests on the same server."""
    prefix = f"test-{secrets.token_hex(6)}:"

    @contextmanager
    def opened() -> Iterator[GraphStore]:
        store = FalkorGraphStore(url, prefix=prefix)
        try:
            yield store
        finally:
            store.close()

    return opened
