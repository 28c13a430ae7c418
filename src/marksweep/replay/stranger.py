"""The other side of `apart`: a process that holds one strategy and is told the past only.

Calls come in as lines of JSON, answers go out the same way. What the strategy prints goes to
standard error, and what it reads from standard input is empty, so it cannot disturb either.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any, BinaryIO, cast

import msgspec

from marksweep.core.plan import Strategy
from marksweep.errors import BadInput, MarksweepError, UnknownName
from marksweep.replay.counting import exact
from marksweep.replay.drive import Collector
from marksweep.replay.installed import Installed
from marksweep.replay.plugged import Plugged
from marksweep.replay.records import Count
from marksweep.replay.spec import Spec, parse
from marksweep.settings import Settings

CALLS = ("start", "add", "context", "recall")


class Call(msgspec.Struct):
    """What is asked."""

    name: str
    arguments: list[Any] = []


class Answer(msgspec.Struct):
    """What came of it: a value, or what went wrong."""

    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None


class Hello(msgspec.Struct):
    """Said first: the strategy is there, and whether it can recall."""

    recalls: bool


def build(spec: Spec, count: Count) -> Collector:
    """Make a collector of what a name stands for: a plugin, a strategy, or a collector."""
    if not spec.is_imported:
        return Plugged(count, spec)
    thing = imported(spec.name)
    if isinstance(thing, type):
        thing = _made(thing, spec)
    elif spec.options:
        raise BadInput(f"{spec.name} is no class, so it takes no options.")
    if all(callable(getattr(thing, call, None)) for call in CALLS[:3]):
        return cast(Collector, thing)
    if callable(getattr(thing, "rank", None)):
        return Installed(count, Settings(), lambda *_: cast(Strategy, thing))
    raise BadInput(
        f"{spec.name} is a {type(thing).__name__}; expected a strategy with rank(scene), or a "
        "collector with start(pinned, limit), add(messages) and context()."
    )


def imported(name: str) -> object:
    """Import `package.module:Name`."""
    module, _, attribute = name.partition(":")
    try:
        return cast(object, getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise UnknownName(f"{name} cannot be imported: {error}.") from error


def _made(kind: type, spec: Spec) -> object:
    try:
        return kind(**spec.options)
    except TypeError as error:
        raise BadInput(f"{spec.name} cannot be made with {spec.options}: {error}.") from error


def serve(name: str, calls: Iterable[bytes], out: BinaryIO) -> None:
    """Answer calls until there are no more."""
    built: list[Collector] = []

    def begin() -> object:
        built.append(build(parse(name), exact()))
        return Hello(recalls=callable(getattr(built[0], "recall", None)))

    _answer(out, begin)
    for line in calls:
        _answer(out, partial(_call, built, msgspec.json.decode(line, type=Call)))


def _call(built: list[Collector], call: Call) -> object:
    return cast(object, getattr(built[0], call.name)(*call.arguments))


def _answer(out: BinaryIO, ask: Callable[[], object]) -> None:
    try:
        said = Answer(msgspec.Raw(msgspec.json.encode(ask())))
    except MarksweepError as error:
        said = Answer(error=str(error))
    except Exception as error:  # noqa: BLE001 - whatever a stranger's code raises
        said = Answer(error=f"{type(error).__name__}: {error}")
    out.write(msgspec.json.encode(said) + b"\n")
    out.flush()


def main() -> None:
    """Serve the strategy that the command names, on pipes that it cannot reach."""
    calls = os.fdopen(os.dup(0), "rb")
    out = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process ends it
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(calls, waiting), daemon=True).start()
    serve(sys.argv[1], iter(waiting.get, b""), out)


def _listen(calls: BinaryIO, waiting: queue.SimpleQueue[bytes]) -> None:
    """Pass calls on; end the process when nobody can ask any more, even if the strategy hangs."""
    for line in calls:
        waiting.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
