"""The other side of `sandbox`: a process that holds one strategy and is sent the past only.

Calls come in as JSON, and answers go out the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, cast

import msgspec

from marksweep.core.strategy import Strategy
from marksweep.errors import BadInput, MarksweepError, UnknownName
from marksweep.replay.collectors import ConversationCollector, PluginCollector
from marksweep.replay.counting import exact
from marksweep.replay.drive import Collector
from marksweep.replay.records import Count
from marksweep.replay.strategy_spec import Spec, parse
from marksweep.settings import Settings
from marksweep.worker import take_pipes

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
    """Make a collector of what a name means: a plugin, a strategy, or a collector."""
    if not spec.is_imported:
        return PluginCollector(count, spec)
    thing = imported(spec.name)
    if isinstance(thing, type):
        thing = _made(thing, spec)
    elif spec.options:
        raise BadInput(f"{spec.name} is not a class, so it takes no options.")
    if all(callable(getattr(thing, call, None)) for call in CALLS[:3]):
        return cast(Collector, thing)
    if callable(getattr(thing, "rank", None)):
        return ConversationCollector(count, Settings(), lambda *_: cast(Strategy, thing))
    raise BadInput(
        f"{spec.name} is a {type(thing).__name__}; expected a strategy with rank(context), or a "
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


def main(name: str) -> None:
    """Let a strategy answer the calls of another process, as a worker of it."""
    calls, send = take_pipes()
    built: list[Collector] = []

    def begin() -> object:
        built.append(build(parse(name), exact()))
        return Hello(recalls=callable(getattr(built[0], "recall", None)))

    send(_answer(begin))
    for encoded in calls:
        call = msgspec.json.decode(encoded, type=Call)
        send(_answer(partial(getattr(built[0], call.name), *call.arguments)))


def _answer(ask: Callable[[], object]) -> bytes:
    try:
        said = Answer(msgspec.Raw(msgspec.json.encode(ask())))
    except MarksweepError as error:
        said = Answer(error=str(error))
    except Exception as error:  # noqa: BLE001 - whatever foreign code raises
        said = Answer(error=f"{type(error).__name__}: {error}")
    return msgspec.json.encode(said)
