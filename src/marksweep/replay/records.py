"""Recorded runs: trajectories of agents, and conversations with questions.

A record is kept as it was written: chat-completions messages, one JSON object per line, plain or
compressed. `text_of` and `price` say what a message says and what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from marksweep.dialects.transcripts import unpacked
from marksweep.errors import BadInput

T = TypeVar("T")

Wire = dict[str, Any]
"""A message as it goes over the wire, in chat-completions form."""

CHAT = "openai_chat"
"""The dialect in which collectors see messages."""

Count = Callable[[str], int]
"""Tokens of a text."""

PER_MESSAGE = 4
"""Tokens that a message costs besides its texts: role and separators."""


class Trajectory(msgspec.Struct, frozen=True):
    """One run of an agent. The first `pinned` messages must never change."""

    id: str
    messages: tuple[Wire, ...]
    pinned: int


class Turn(msgspec.Struct, frozen=True):
    """One thing said in a conversation."""

    speaker: str
    text: str


class Question(msgspec.Struct, frozen=True):
    """A question asked after the last turn, with the turns that answer it."""

    q: str
    evidence: tuple[int, ...]
    category: str | int | None = None


class Conversation(msgspec.Struct, frozen=True):
    """A long conversation and the questions asked about it."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def read_records(path: Path, kind: type[T]) -> list[T]:
    """Read the records of a `.jsonl` file, which may be compressed with xz or gzip."""
    found = []
    for number, line in enumerate(unpacked(path.read_bytes()).text.splitlines(), 1):
        try:
            found += [msgspec.json.decode(line, type=kind)] if line.strip() else []
        except msgspec.DecodeError as error:
            raise BadInput(
                f"{path.name}, line {number}, is not a {kind.__name__.lower()}: {error}. "
                "Expected one JSON object per line."
            ) from error
    return found


def leaves(arguments: str) -> list[str]:
    """Strings and numbers of a call's JSON arguments, in order; the raw text if it is not JSON."""
    try:
        tree = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return [arguments]
    return list(_walk(tree))


def calls_of(message: Wire) -> list[tuple[str, str]]:
    """Name and arguments of each call that a message makes."""
    return [
        (call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]


def content_of(message: Wire) -> str:
    """Content of a message as one text; the text parts if it comes in parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content or ""


def text_of(message: Wire) -> str:
    """All that a message says: content, then each call's name and argument leaves, by lines."""
    pieces = [content_of(message)]
    for name, arguments in calls_of(message):
        pieces.append(name)
        pieces.extend(leaves(arguments))
    return "\n".join(pieces)


def price(message: Wire, count: Count) -> int:
    """Tokens of a message: of its content, each call's name and arguments, and PER_MESSAGE."""
    tokens = PER_MESSAGE + count(content_of(message))
    return tokens + sum(count(name) + count(args) for name, args in calls_of(message))


def _walk(tree: object) -> Iterator[str]:
    if isinstance(tree, dict):
        for value in tree.values():
            yield from _walk(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _walk(value)
    elif isinstance(tree, str):
        yield tree
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield str(tree)
