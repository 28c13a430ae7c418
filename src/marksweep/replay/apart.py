"""Strategies that are not ours, each in a process of its own that is told the past only.

What one is sent is the prefix, the limit and the messages so far; the transcript stays here. One
that raises fails its step. One that hangs or dies fails its steps until the next transcript, by
name, and nothing else. Only JSON comes back. stranger.py is the other side.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import BinaryIO, TypeVar

import msgspec

from marksweep.errors import BadInput, MarksweepError
from marksweep.replay.records import Wire
from marksweep.replay.stranger import Answer, Call, Hello

PATIENCE = 30.0
"""Seconds a strategy has for one call before its process is ended."""
STARTING = 60.0
"""Seconds it has to start, which includes importing it on a busy machine."""

T = TypeVar("T")


class StrategyFailed(MarksweepError):
    """A strategy raised, hung or died."""


class NoRecall(MarksweepError):
    """A strategy has no `recall`."""


class Apart:
    """A strategy in a process of its own, as a collector."""

    def __init__(self, name: str, patience: float = PATIENCE) -> None:
        self._name = name
        self._patience = patience
        self._failed: StrategyFailed | None = None

    def check(self) -> None:
        """Refuse a strategy that cannot be loaded."""
        try:
            _process(self._name)
        except StrategyFailed as error:
            raise BadInput(str(error)) from error

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run."""
        self._failed = None
        self._ask("start", [pinned, limit], object)

    def add(self, messages: list[Wire]) -> None:
        """Take new messages."""
        self._ask("add", [messages], object)

    def context(self) -> list[Wire]:
        """The context for the next request."""
        return self._ask("context", [], list[Wire])

    def recall(self, query: str, limit: int) -> list[str]:
        """Texts that answer a query; NoRecall if the strategy cannot."""
        if not _process(self._name).recalls:
            raise NoRecall(f"{self._name} has no recall(query, limit).")
        return self._ask("recall", [query, limit], list[str])

    def _ask(self, call: str, arguments: list[object], kind: type[T]) -> T:
        if self._failed is not None:
            raise self._failed
        process = _process(self._name)
        try:
            said = process.ask(Call(call, arguments), self._patience)
        except StrategyFailed as error:
            self._failed = error
            _end(self._name)
            raise
        if said.error is not None:
            raise StrategyFailed(f"{self._name} failed: {said.error}")
        try:
            return msgspec.json.decode(said.value, type=kind)
        except msgspec.ValidationError as error:
            raise StrategyFailed(f"{self._name} gave no messages: {error}") from error


class Process:
    """One strategy's process and the lines to it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._child = subprocess.Popen(  # noqa: S603 - the user named it
            [sys.executable, "-m", "marksweep.replay.stranger", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "PYTHONHASHSEED": "0",
            },
        )
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=(self._child.stdout,), daemon=True).start()
        hello = self._hear(STARTING)
        if hello.error is not None:
            self.end()
            raise StrategyFailed(hello.error)
        self.recalls = msgspec.json.decode(hello.value, type=Hello).recalls

    def ask(self, call: Call, patience: float) -> Answer:
        """Call the strategy; StrategyFailed if it does not answer."""
        line = msgspec.json.encode(call) + b"\n"
        # a strategy that hangs does not read either, so writing must not wait for it
        writer = threading.Thread(target=self._tell, args=(line,), daemon=True)
        writer.start()
        return self._hear(patience)

    def end(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not written has nobody to read it
                    pipe.close()

    def _tell(self, line: bytes) -> None:
        pipe = self._child.stdin
        try:
            if pipe is not None:
                pipe.write(line)
                pipe.flush()
        except (OSError, ValueError):
            pass  # it died or was ended; whoever listens is told so

    def _listen(self, pipe: BinaryIO) -> None:
        try:
            for line in pipe:
                self._said.put(line)
        except (OSError, ValueError):
            pass  # ended while listening
        self._said.put(b"")

    def _hear(self, patience: float) -> Answer:
        try:
            line = self._said.get(timeout=patience)
        except queue.Empty:
            self.end()
            raise StrategyFailed(
                f"{self._name} did not answer within {patience:g} seconds; its process was ended"
            ) from None
        if not line:
            raise StrategyFailed(f"the process of {self._name} died ({self._death()})")
        return msgspec.json.decode(line, type=Answer)

    def _death(self) -> str:
        code = self._child.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


_processes: dict[str, Process] = {}


def _process(name: str) -> Process:
    """The process of a strategy, started when it is first asked for."""
    if name not in _processes:
        _processes[name] = Process(name)
    return _processes[name]


def _end(name: str) -> None:
    _processes.pop(name).end()


@atexit.register
def _end_all() -> None:
    for name in list(_processes):
        _end(name)
