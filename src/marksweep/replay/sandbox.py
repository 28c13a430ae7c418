"""Third-party strategies, each in a separate process that is sent the past only.

What one is sent is the prefix, the limit and the messages so far; the transcript stays here. One
that raises fails its step. One that hangs or dies fails its steps until the next transcript, by
name, and nothing else. Only JSON comes back. sandbox_worker.py is the other side.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from marksweep.errors import BadInput, MarksweepError
from marksweep.replay import sandbox_worker
from marksweep.replay.records import Wire
from marksweep.replay.sandbox_worker import Answer, Call, Hello
from marksweep.worker import ProcessWorker, WorkerEnded

CALL_SECONDS = 30.0
"""Seconds a strategy has for one call before its process is ended."""
START_SECONDS = 60.0
"""Seconds it has to start, which includes importing it on a busy machine."""

T = TypeVar("T")


class StrategyFailed(MarksweepError):
    """A strategy raised, hung or died."""


class SandboxedStrategy:
    """A strategy in a separate process, as a collector."""

    def __init__(self, name: str, patience: float = CALL_SECONDS) -> None:
        self._name = name
        self._patience = patience
        self._failed: StrategyFailed | None = None

    def check(self) -> None:
        """Refuse a strategy that cannot be loaded."""
        try:
            _sandbox(self._name)
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

    @property
    def recall(self) -> Callable[[str, int], list[str]] | None:
        """What finds texts that answer a query; None if the strategy cannot."""
        if not _sandbox(self._name).recalls:
            return None
        return lambda query, limit: self._ask("recall", [query, limit], list[str])

    def _ask(self, call: str, arguments: list[object], kind: type[T]) -> T:
        if self._failed is not None:
            raise self._failed
        sandbox = _sandbox(self._name)
        try:
            said = sandbox.ask(Call(call, arguments), self._patience)
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


class _Sandbox:
    """One strategy's process."""

    def __init__(self, name: str) -> None:
        self._name = name
        path = [*filter(None, sys.path), str(Path.cwd())]  # the user names what is imported
        self._worker = ProcessWorker(sandbox_worker.__name__, name, path=path)
        try:
            hello = _answer(self._worker.greeting(START_SECONDS))
        except WorkerEnded as ended:
            raise self._failure(ended, START_SECONDS) from None
        if hello.error is not None:
            self.close()
            raise StrategyFailed(hello.error)
        self.recalls = msgspec.json.decode(hello.value, type=Hello).recalls

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._worker.pid

    def ask(self, call: Call, patience: float) -> Answer:
        """Call the strategy; StrategyFailed if it does not answer."""
        try:
            return _answer(self._worker.ask(msgspec.json.encode(call), patience))
        except WorkerEnded as ended:
            raise self._failure(ended, patience) from None

    def close(self) -> None:
        """End the process."""
        self._worker.close()

    def _failure(self, ended: WorkerEnded, patience: float) -> StrategyFailed:
        if ended.late:
            return StrategyFailed(
                f"{self._name} did not answer within {patience:g} seconds; its process was ended"
            )
        return StrategyFailed(f"the process of {self._name} died ({ended})")


def _answer(message: bytes) -> Answer:
    return msgspec.json.decode(message, type=Answer)


_sandboxes: dict[str, _Sandbox] = {}


def _sandbox(name: str) -> _Sandbox:
    """Return the process of a strategy, started when it is first asked for."""
    if name not in _sandboxes:
        _sandboxes[name] = _Sandbox(name)
    return _sandboxes[name]


def _end(name: str) -> None:
    _sandboxes.pop(name).close()


@atexit.register
def _end_all() -> None:
    for name in list(_sandboxes):
        _end(name)
