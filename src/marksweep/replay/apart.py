"""GC plugins as collectors, each in a process of its own that is told the past only.

Plugins may be anybody's code. What one is sent is the prefix, the limit and the messages so far;
the transcript stays here. One that raises, hangs or dies fails its step, by name, and nothing else.
"""

from __future__ import annotations

import atexit
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from marksweep.dialects import read, written
from marksweep.errors import BadInput, MarksweepError
from marksweep.messages import Message
from marksweep.plugins import GCTriggerReason
from marksweep.plugins.base import ContextUsage
from marksweep.plugins.files import GCSpec, read_gc
from marksweep.replay.counting import exact
from marksweep.replay.drive import Collector
from marksweep.replay.records import Count, Wire, price

CHAT = "openai_chat"
SECONDS = 60.0
"""Time a plugin has for one call before its process is ended."""


class PluginFailed(MarksweepError):
    """A plugin raised, hung or died."""


def spec_of(name: str) -> GCSpec:
    """Read `gc_hybrid` or `gc_hybrid:preserve_recent_turns=2,notify_on_gc=false`."""
    plugin, _, said = name.partition(":")
    options: dict[str, object] = {}
    for pair in filter(None, said.split(",")):
        key, is_there, value = pair.partition("=")
        if not is_there:
            raise BadInput(f"{pair!r} in {name!r} is no option; expected key=value.")
        try:
            options[key.strip()] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            options[key.strip()] = value
    return read_gc({"type": plugin, **options}, name)


class Plugged:
    """A plugin as a collector. The pinned prefix is held apart; the rest is its history."""

    def __init__(self, count: Count, name: str) -> None:
        self._count = count
        self._name = name

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run with a new plugin."""
        self._plugin, self._config = spec_of(self._name).load()
        self._pinned = pinned
        self._limit = max(1, limit - sum(price(message, self._count) for message in pinned))
        self._history: list[Message] = []
        self._told = 0

    def add(self, messages: list[Wire]) -> None:
        """Take new messages."""
        self._history += read(messages, CHAT, start=self._told).messages
        self._told += len(messages)

    def context(self) -> list[Wire]:
        """Let the plugin collect if it wants to, or if it must."""
        usage = self._usage()
        due, reason = self._plugin.should_collect(usage, self._config)
        if due or usage["total_tokens"] > self._limit:
            history, _ = self._plugin.collect(
                self._history, usage, self._config, reason or GCTriggerReason.OVERFLOW
            )
            self._history = list(history)
        return [*self._pinned, *written(self._history, CHAT)]

    def _usage(self) -> ContextUsage:
        tokens = sum(price(message, self._count) for message in written(self._history, CHAT))
        return {
            "percent_used": 100 * tokens / self._limit,
            "total_tokens": tokens,
            "context_limit": self._limit,
            "tokens_remaining": max(0, self._limit - tokens),
        }


class Apart:
    """A plugin in a process of its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run."""
        _ask(self._name, "start", pinned, limit)

    def add(self, messages: list[Wire]) -> None:
        """Take new messages."""
        _ask(self._name, "add", messages)

    def context(self) -> list[Wire]:
        """The context for the next request."""
        given: list[Wire] = _ask(self._name, "context")
        return given


_children: dict[str, tuple[Any, Connection]] = {}


def _ask(name: str, call: str, *arguments: object) -> Any:  # noqa: ANN401 - what a plugin gives
    """Call the plugin's process, started at the first call."""
    if name not in _children:
        ours, theirs = get_context("spawn").Pipe()
        child = get_context("spawn").Process(target=_serve, args=(theirs, name), daemon=True)
        child.start()
        theirs.close()
        _children[name] = child, ours
    _, line = _children[name]
    try:
        line.send((call, arguments))
        is_there = line.poll(SECONDS)
        is_fine, answer = line.recv() if is_there else (False, "")
    except (OSError, EOFError) as error:
        _end(name)
        raise PluginFailed(f"the process of {name} died.") from error
    if not is_there:
        _end(name)
        raise PluginFailed(f"{name} did not answer within {SECONDS:g} seconds; it was ended.")
    if not is_fine:
        raise PluginFailed(f"{name}: {answer}")
    return answer


def _serve(line: Connection, name: str) -> None:
    """Answer calls until the other side is gone."""
    collector: Collector = Plugged(exact(), name)
    while True:
        try:
            call, arguments = line.recv()
        except EOFError:
            return
        try:
            answer = True, getattr(collector, call)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever a stranger's plugin raises
            answer = False, f"{type(error).__name__}: {error}"
        line.send(answer)


def _end(name: str) -> None:
    child, line = _children.pop(name)
    line.close()
    child.terminate()
    child.join()


@atexit.register
def _end_all() -> None:
    for name in list(_children):
        _end(name)
