"""Runs a client through a proxy that starts and ends with it.

If the proxy cannot start, the client runs without it. If it dies, it is restarted on the same port,
and the client's next retry reaches it. If it keeps dying, the last restart only forwards requests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import msgspec

from marksweep.errors import BadInput, MarksweepError, NotFound
from marksweep.proxy.clients import Client, Place, Upstreams
from marksweep.proxy.projection import Totals

SECONDS_TO_START = 30.0
"""How long a proxy may take to listen before its client runs without it."""

MAX_RESTARTS = 5
"""How often a proxy that dies is restarted, the last time to forward requests unchanged.

Higher hides a proxy that cannot work."""

Say = Callable[[str], None]


class Wrapped(msgspec.Struct, frozen=True):
    """The exit status of a client, and what its proxy did."""

    status: int
    totals: Totals | None
    """Since the proxy was last started; None: the client ran without it."""
    restarts: int = 0
    """How often the proxy died and was restarted."""

    @property
    def only_forwards(self) -> bool:
        """Whether the proxy died so often that it only forwards."""
        return self.restarts >= MAX_RESTARTS


def wrap(
    client: Client,
    arguments: Sequence[str],
    options: Sequence[str],
    store: str,
    say: Say,
) -> Wrapped:
    """Run a client through a proxy with these options, and give its model the tool `recall`."""
    binary = shutil.which(client.binary)
    if binary is None:
        raise NotFound(f"{client.binary} is not installed, or not on the PATH.")
    environment = dict(os.environ)
    with (
        _Signals() as signals,
        tempfile.TemporaryDirectory(prefix="marksweep-") as folder,
        ExitStack() as running,
    ):
        try:
            upstreams = client.upstreams(environment)
            proxy = Supervised([*options, *_routes(upstreams)], store, Path(folder) / "proxy.log")
            running.enter_context(proxy)
            place = Place(proxy.url, Path(folder), _recall(store, Path(folder)), environment)
            launch = client.launch(place, upstreams, arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client runs
            is_known = isinstance(error, MarksweepError | OSError)
            said = str(error) if is_known else f"{type(error).__name__} in its configuration."
            say(f"{said} {client.binary} runs without the proxy.")
            return Wrapped(_run([binary, *arguments], environment, signals), None)
        say(f"the page of this session: {proxy.page}")
        variables = {**environment, **_loopback(environment), **launch.variables}
        status = _run([binary, *launch.arguments], variables, signals)
        if launch.folder is not None:
            try:
                launch.folder.keep_changes()
            except OSError as error:
                say(f"what {client.binary} wrote cannot be copied to {launch.folder.real}: {error}")
        return Wrapped(status, proxy.totals(), proxy.restarts)


def _recall(store: str, folder: Path) -> list[str]:
    """Return the command that serves `recall`.

    The store may be a URL with a password, and other users see the words of a command.
    """
    file = folder / "store"
    file.write_bytes(os.fsencode(store))
    return [sys.executable, "-m", "marksweep", "swept", "--mcp", "--store-file", str(file)]


def _routes(upstreams: Upstreams) -> list[str]:
    return [word for name, url in upstreams.items() for word in ("--route", f"{name}={url}")]


def _loopback(environment: Mapping[str, str]) -> dict[str, str]:
    """Exclude loopback from the environment's proxies, so that the client reaches ours directly."""
    return {
        name: ",".join([*filter(None, [environment.get(name)]), "127.0.0.1", "localhost"])
        for name in ("no_proxy", "NO_PROXY")
    }


def _run(command: list[str], environment: Mapping[str, str], signals: _Signals) -> int:
    """Run a client on our terminal until it exits; return its status."""
    signals.hold()
    with subprocess.Popen(command, env=environment) as client:  # noqa: S603
        signals.pass_to(client)
        status = client.wait()
    return status if status >= 0 else 128 - status


class _Signals:
    """Leaves signals to the client, so that it exits first and the proxy after it.

    Ctrl-C reaches the client from the terminal. Other signals are forwarded; those that arrive
    while the client is started are sent as soon as it runs. Before that a signal ends us, and
    what was made is cleaned up.
    """

    def __init__(self) -> None:
        self._client: subprocess.Popen[bytes] | None = None
        self._holds = False
        self._early: list[int] = []
        self._before: dict[str, Callable[[int, FrameType | None], object] | int | None] = {}

    def _received(self, number: int, _: FrameType | None) -> None:
        if not self._holds:
            sys.exit(128 + number)
        if self._client is None:
            self._early.append(number)
        elif number != signal.SIGINT:
            self._client.send_signal(number)

    def hold(self) -> None:
        """Keep signals from now on, for the client that is started next."""
        self._holds = True

    def pass_to(self, client: subprocess.Popen[bytes]) -> None:
        """Forward signals to a client that was just started."""
        self._client = client
        for number in self._early:
            client.send_signal(number)

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                if hasattr(signal, name):
                    number = signal.Signals[name]
                    self._before[name] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(signal.Signals[name], handler)


class Supervised:
    """A proxy in another process, restarted if it dies."""

    def __init__(self, options: Sequence[str], store: str, log: Path) -> None:
        self._options = list(options)
        self._log = log
        self._lock = threading.Lock()
        self._is_ending = False
        self.restarts = 0
        self._environment = {**os.environ, "MARKSWEEP_STORE": store}
        self._process = self._start(0)
        self.url, self.page = self._addresses(self._process)
        self._environment["MARKSWEEP_TOKEN"] = self.page.partition("#")[2]
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _start(self, port: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "marksweep", "proxy", "--port", str(port)]
        with self._log.open("a") as log:
            return subprocess.Popen(  # noqa: S603
                [*command, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                text=True,
                start_new_session=True,
            )

    def _addresses(self, process: subprocess.Popen[str]) -> tuple[str, str]:
        """Wait for the proxy to print its URL and that of its page; return both."""
        timer = threading.Timer(SECONDS_TO_START, process.kill)
        timer.start()
        lines = ["", ""]
        try:
            lines = [process.stdout.readline() for _ in range(2)] if process.stdout else lines
        finally:
            timer.cancel()
            is_listening = lines[1].startswith("the page is at ")
            if not is_listening:
                process.kill()
                process.wait()
        if not is_listening:
            said = " ".join(self._log.read_text().split()[-60:]) or "it printed nothing."
            raise BadInput(f"The proxy did not start: {said.removeprefix('marksweep: ')}")
        return lines[0].split()[-1], lines[1].split()[-1]

    def _watch(self) -> None:
        """Restart the proxy on its port whenever it dies; the last time to forward only."""
        port = urlsplit(self.url).port or 0
        while self.restarts < MAX_RESTARTS:
            self._process.wait()
            with self._lock:
                if self._is_ending:
                    return
                self.restarts += 1
                if self.restarts == MAX_RESTARTS:
                    self._options.append("--forward-only")
                self._close_output()
                self._process = self._start(port)

    def totals(self) -> Totals:
        """Return the proxy's totals; zeros if it cannot be reached."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"{self.url}/healthz", timeout=5) as answer:
                return msgspec.convert(json.load(answer), Totals)
        except (OSError, ValueError):
            return Totals()

    def __enter__(self) -> Supervised:
        """Use it until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the proxy."""
        with self._lock:
            self._is_ending = True
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._watcher.join(10)
        self._close_output()

    def _close_output(self) -> None:
        if self._process.stdout:
            self._process.stdout.close()
