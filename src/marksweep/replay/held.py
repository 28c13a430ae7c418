"""A wire message held in blocks, and written back with what is left of them.

Long content is cut into blocks, and so are long strings in the arguments of a call, which stay
valid JSON. What else a call says is its frame: it goes only when nothing else of the call and its
results is left, so that pairs stay whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from marksweep.core.blocks import MARKER, cut, join, whole
from marksweep.replay.records import Count, Wire, calls_of, content_of, leaves, price
from marksweep.strategies.coverage_index import Block, Index

BULKY = 100
"""Tokens from which a text is cut into blocks. Smaller texts go whole."""

Path = tuple[str | int, ...]


class Field:
    """A text of a message that was cut: its content, or a string in a call's arguments."""

    __slots__ = ("blocks", "call", "path")

    def __init__(self, blocks: list[Block], call: int | None = None, path: Path = ()) -> None:
        self.blocks = blocks
        self.call = call
        self.path = path


class Held:
    """A message, its blocks, and what is shown of it now."""

    def __init__(self, wire: Wire, tokens: int) -> None:
        self.wire = wire
        self.shown: Wire | None = wire
        """None: dropped whole."""
        self.tokens = tokens
        self.unit: list[Held] = [self]
        """The message that calls and its results; shared by all of them."""
        self.fields: list[Field] = []
        self.frame: Block | None = None
        self.arguments: list[Any] = []

    @property
    def head(self) -> Held:
        """The message that the whole unit hangs on."""
        return self.unit[0]

    def blocks(self) -> Iterator[Block]:
        """The blocks that stand here now, without the frame."""
        for field in self.fields:
            for block in field.blocks:
                if block.alive and block.home is self:
                    yield block

    def may_lose_frame(self) -> bool:
        """Whether the frame is all that is left of the unit."""
        return self.frame is not None and all(
            next(held.blocks(), None) is None for held in self.unit
        )


def hold(wire: Wire, index: Index, count: Count) -> Held:
    """Take a new message into an index."""
    held = Held(wire, price(wire, count))
    observed = wire["role"] != "assistant"
    rest: list[str] = []
    split = 0

    def field(text: str, call: int | None = None, path: Path = ()) -> None:
        nonlocal split
        tokens = count(text)
        if tokens < BULKY:
            rest.append(text)
            return
        blocks = index.add(cut(text), count, observed=observed)
        for block in blocks:
            block.home = held
        held.fields.append(Field(blocks, call, path))
        split += tokens

    content = content_of(wire)
    if isinstance(wire.get("content"), str):
        field(content)
    elif content:
        rest.append(content)
    for number, (name, arguments) in enumerate(calls_of(wire)):
        rest.append(name)
        tree = _tree(arguments)
        held.arguments.append(tree)
        if isinstance(tree, dict | list):
            for path, leaf in _leaves(tree):
                field(leaf, number, path)
        else:
            rest.extend(leaves(arguments))
    if held.arguments or not held.fields:
        block = index.add_whole(
            whole("\n".join(rest)), max(held.tokens - split, 1), observed=observed
        )
        block.home = held
        if held.arguments:
            held.frame = block
        else:
            held.fields.append(Field([block]))
    return held


def write(held: Held) -> Wire | None:
    """The message with what is left of it; None if nothing is."""
    frame = held.head.frame
    if frame is not None:
        if not frame.alive:
            return None
    elif next(held.blocks(), None) is None:
        return None
    wire = held.wire
    trees: list[Any] | None = None
    for field in held.fields:
        if all(block.alive and block.home is held for block in field.blocks):
            continue
        text = join(
            [(b.text, b.glued) if b.alive and b.home is held else None for b in field.blocks]
        )
        if field.call is None:
            nothing = text == MARKER and held.frame is not None
            wire = {**wire, "content": None if nothing else text}
        else:
            trees = trees or [_copy(tree) for tree in held.arguments]
            _put(trees[field.call], field.path, text)
    if trees is not None:
        wire = {**wire, "tool_calls": _with_arguments(held, trees)}
    return wire


def _with_arguments(held: Held, trees: list[Any]) -> list[Wire]:
    """The calls, those with a cut field with new arguments."""
    cut_calls = {field.call for field in held.fields}
    calls: list[Wire] = []
    for number, call in enumerate(held.wire["tool_calls"]):
        if number in cut_calls:
            arguments = msgspec.json.encode(trees[number]).decode()
            call = {**call, "function": {**call["function"], "arguments": arguments}}  # noqa: PLW2901
        calls.append(call)
    return calls


def _tree(arguments: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:  # noqa: ANN401 - JSON
    """Strings and numbers of a JSON tree, with the way to them."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(tree, list):
        for at, value in enumerate(tree):
            yield from _leaves(value, (*path, at))
    elif isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield path, str(tree)


def _copy(tree: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_copy(value) for value in tree]
    return tree


def _put(tree: Any, path: Path, text: str) -> None:  # noqa: ANN401 - JSON
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = text
