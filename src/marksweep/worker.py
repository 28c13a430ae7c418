"""A worker: a Python process that answers one request at a time.

If it crashes or hangs, the caller continues. It imports nothing from the folder it is started in:
it has its own folder, no PYTHON* variables, and after Python's own search path only the folders
that are passed to it.

A message is its length in four bytes, followed by its content. `take_pipes` is the worker's side.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import IO

ENDING_SECONDS = 5.0
"""How long a worker that closed its output may take to exit, so that its exit code is known."""

_LENGTH_BYTES = 4

_START = (
    "import sys; from importlib import import_module; "
    "sys.path += filter(None, sys.argv[1].split('\\n')); "
    "import_module(sys.argv[2]).main(*sys.argv[3:])"
)
"""Extends the search path at its end, so that nothing there shadows Python's own modules."""


class WorkerEnded(Exception):
    """A worker ended instead of answering."""

    def __init__(self, code: int, *, late: bool) -> None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        super().__init__("did not answer in time" if late else how)
        self.code = code
        """Its exit code; negative for a signal."""
        self.late = late
        """Whether it was killed because it took too long."""


class ProcessWorker:
    """A process that runs `main` of a module and answers requests, until closed."""

    def __init__(self, module: str, *arguments: str, path: Iterable[str]) -> None:
        """Start it; `path` are the folders, beside Python's own, that it imports from."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self._folder = tempfile.TemporaryDirectory(prefix="marksweep-worker-")
        with _interrupts_blocked():
            self._process = subprocess.Popen(  # noqa: S603  (our own module)
                [sys.executable, "-P", "-s", "-c", _START, "\n".join(path), module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self._folder.name,
                env={**environment, "PYTHONHASHSEED": "0"},
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def ask(self, request: bytes, seconds: float | None = None) -> bytes:
        """Send a request and wait for its answer; WorkerEnded if none comes."""
        with self._watched(seconds):
            _send(self._process.stdin, request)
            return _receive(self._process.stdout)

    def greeting(self, seconds: float | None = None) -> bytes:
        """Wait for its first message; WorkerEnded if it does not start."""
        with self._watched(seconds):
            return _receive(self._process.stdout)

    def close(self) -> None:
        """Kill the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with contextlib.suppress(OSError):  # nobody is left to read what was not written
                pipe.close()
        self._folder.cleanup()

    @contextlib.contextmanager
    def _watched(self, seconds: float | None) -> Iterator[None]:
        """Kill it after a timeout; turn a broken pipe into its exit code, and close."""
        late = threading.Event()

        def kill() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, kill) if seconds is not None else None
        if timer is not None:
            timer.start()
        try:
            yield
        except (OSError, EOFError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDING_SECONDS)
            self.close()
            raise WorkerEnded(self._process.returncode, late=late.is_set()) from None
        finally:
            if timer is not None:
                timer.cancel()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start a process that Ctrl-C does not reach: a terminal sends it to all, even while it starts.

    The process inherits the mask. An interrupt of this process waits until the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def take_pipes() -> tuple[Iterator[bytes], Callable[[bytes], None]]:
    """Return the requests to this process, and a function that sends an answer.

    What anything else in the process prints goes to standard error, and what it reads from
    standard input is empty. When the caller is gone, the process exits, even in the middle of work.
    """
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    folder = Path.cwd()
    waiting: SimpleQueue[bytes] = SimpleQueue()

    def end() -> None:
        with contextlib.suppress(OSError):  # a caller that was killed could not remove it
            folder.rmdir()
        os._exit(0)

    def listen() -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                waiting.put(_receive(requests))
        end()

    def answer(message: bytes) -> None:
        try:
            _send(answers, message)
        except OSError:
            end()

    threading.Thread(target=listen, daemon=True).start()
    return iter(waiting.get, None), answer


def folders_of(*packages: str) -> list[str]:
    """Return the folders that packages of this process were imported from."""
    files = (sys.modules[name].__file__ for name in packages)
    return list(dict.fromkeys(str(Path(file).parents[1]) for file in files if file))


def _send(pipe: IO[bytes] | None, message: bytes) -> None:
    if pipe is None:
        raise EOFError
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> bytes:
    if pipe is None:
        raise EOFError
    head = pipe.read(_LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    message = pipe.read(size) if len(head) == _LENGTH_BYTES else b""
    if len(head) < _LENGTH_BYTES or len(message) < size:
        raise EOFError
    return message
