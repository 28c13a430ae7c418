"""Find definitions, calls and imports in a syntax tree.

Nothing here recurses: a query walks the tree in C and returns flat lists, which are sorted by
position. Code nested ten thousand levels deep is read like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from operator import attrgetter

import msgspec
import tree_sitter
from tree_sitter import Node, Parser, Query, QueryCursor

from marksweep.indexing.languages import Language

MAX_NAME_CHARS = 200
"""Maximum characters of a symbol or module name. Real names are far shorter."""

_MAX_NAME_BYTES = 4 * MAX_NAME_CHARS
_MAX_COMMENT_ROWS = 100
"""Maximum rows of comment above a definition that belong to it."""


class Definition(msgspec.Struct, gc=False):
    """A function, a class, or a scope that only qualifies names. Rows count from 0."""

    kind: str
    name: str
    row: int
    first: int
    """First row that belongs to it, with decorators and the comment above."""
    last: int
    """Last row, inclusive."""
    start: int
    """First byte, not counting decorators."""
    end: int
    qualified: str = ""
    parent: int = -1
    """Index of the innermost definition around it; -1 for none."""
    own_chunk: bool = True
    """Whether it has its own chunk, or is part of the one around it."""


class Use(msgspec.Struct, gc=False):
    """A module that is imported, or a class or interface that another inherits from."""

    start: int
    """First byte: of the name, or of the class that inherits."""
    row: int
    name: str


class Call(Use, gc=False):
    """A name that is called."""

    is_new: bool
    """Whether the call creates an object, so that the name is a class."""
    on_self: bool
    """Whether it is called on `self`, `this` or the like."""
    has_receiver: bool
    """Whether it is called on anything."""


class Findings(msgspec.Struct):
    """What a file defines, calls, imports and inherits, each sorted by position."""

    definitions: list[Definition]
    calls: list[Call]
    imports: list[Use]
    bases: list[Use]


_SELF = re.compile(rb"(?<!\w)((self|Self|this|cls)\.|this->|(Self|self|static)::)$")
"""Receivers that mean the same object or class."""

_RECEIVER = (b".", b"->", b"::")
"""What comes before the name of a method that is called on something."""

_MAX_RECEIVER_BYTES = 80
"""Bytes before a name in which a receiver is looked for: spaces may come between."""


_BEFORE_BRACE = re.compile(rb"(?<=[^\s{;]) (?=\})")
"""The space before a closing brace on the same line as the body."""


@cache
def _grammar(grammar: str, query: str) -> tuple[Parser, Query]:
    """Load a grammar once, with its query compiled."""
    module, function = grammar.split(":")
    language = tree_sitter.Language(getattr(import_module(module), function)())
    return tree_sitter.Parser(language), tree_sitter.Query(language, query)


def find(language: Language, source: bytes, lines: list[str]) -> Findings:
    """Parse a file and sort the matches of its language's query."""
    parser, query = _grammar(language.grammar, language.query)
    tree = parser.parse(source)
    if language.wants_semicolons and tree.root_node.has_error:
        other = parser.parse(_BEFORE_BRACE.sub(b";", source))
        tree = tree if other.root_node.has_error else other
    definitions: dict[tuple[int, int], Definition] = {}
    calls: list[Call] = []
    imports: list[Use] = []
    bases: list[Use] = []
    bare: dict[int, Node] = {}
    variables: list[Node] = []
    for _, found in QueryCursor(query).matches(tree.root_node):
        if "callee" in found:
            (node,) = found["callee"]
            if all(after.start_byte == node.end_byte for after in found.get("right_after", ())):
                calls.append(_call(node, source, is_new=False))
        elif "new" in found:
            calls.append(_call(found["new"][0], source, is_new=True))
        elif "module" in found:
            imports.append(_import(found["module"][0], source))
        elif "base" in found:
            heir = found["heir"][0].start_byte
            bases += [
                Use(heir, node.start_point[0], _last_name(node, source)) for node in found["base"]
            ]
        elif "bare" in found:
            bare[found["bare"][0].start_byte] = found["bare"][0]
        elif "local" in found:
            variables.append(found["local"][0])
        else:
            definition = _definition(found, language, source, lines)
            definitions.setdefault((definition.start, definition.end), definition)
    ordered = sorted(definitions.values(), key=lambda d: (d.start, -d.end))
    _nest(ordered)
    calls += _bare_calls(ordered, bare, variables, {call.start for call in calls}, source)
    calls.sort(key=attrgetter("start"))
    imports.sort(key=attrgetter("start"))
    bases.sort(key=attrgetter("start", "row"))
    return Findings(ordered, calls, imports, bases)


def _text(node: Node, source: bytes) -> str:
    start = node.start_byte
    raw = source[start : min(node.end_byte, start + _MAX_NAME_BYTES)]
    return " ".join(raw.decode("utf-8", "ignore").split())[:MAX_NAME_CHARS]


def _last_name(node: Node, source: bytes) -> str:
    """Return the last part of a name, without type arguments."""
    written = _text(node, source).partition("<")[0].partition("[")[0].partition("(")[0]
    for parted in ("::", ".", "\\"):
        written = written.rpartition(parted)[2]
    return written.strip() or _text(node, source)


def _call(node: Node, source: bytes, *, is_new: bool) -> Call:
    start = node.start_byte
    name = source[start : min(node.end_byte, start + MAX_NAME_CHARS)].decode("utf-8", "ignore")
    before = source[max(0, start - _MAX_RECEIVER_BYTES) : start].rstrip()
    on_self = _SELF.search(before) is not None
    return Call(start, node.start_point[0], name, is_new, on_self, before.endswith(_RECEIVER))


def _bare_calls(
    definitions: list[Definition],
    bare: dict[int, Node],
    variables: list[Node],
    called: set[int],
    source: bytes,
) -> Iterator[Call]:
    """Yield the names alone that are calls: no variable of the definition around them has the name.

    That a name was assigned only further below, and is a call above, is not seen.
    """
    variables.sort(key=attrgetter("start_byte"))
    starts = [node.start_byte for node in variables]
    taken = {
        (around, _text(node, source))
        for node, around in zip(variables, innermost(definitions, starts), strict=True)
    }
    others = sorted(bare.keys() - called - set(starts))
    for start, around in zip(others, innermost(definitions, others), strict=True):
        if (around, _text(bare[start], source)) not in taken:
            yield _call(bare[start], source, is_new=False)


def innermost(definitions: list[Definition], starts: Iterable[int]) -> Iterator[int]:
    """Yield the innermost definition around each of some sorted positions; -1 for none."""
    around: list[int] = []
    following = 0
    for start in starts:
        while following < len(definitions) and definitions[following].start <= start:
            around.append(following)
            following += 1
        while around and definitions[around[-1]].end <= start:
            around.pop()
        yield around[-1] if around else -1


def _import(node: Node, source: bytes) -> Use:
    """Reduce an import to the module: no quotes, no list of imported names."""
    written = _text(node, source)
    module = written.removeprefix("import ").removesuffix("._").strip("\"'`<>")
    for cut in ("::{", "::*", " as ", ".{", ".*", " =>"):
        module = module.partition(cut)[0]
    return Use(node.start_byte, node.start_point[0], module.strip() or written)


def _definition(
    found: dict[str, list[Node]], language: Language, source: bytes, lines: list[str]
) -> Definition:
    kind = next(kind for kind in ("function", "class", "scope") if kind in found)
    node = found[kind][0]
    outer = node
    while (around := outer.parent) is not None and around.type in language.wrappers:
        outer = around
    name = _text(found["name"][0], source).replace("::", ".")
    if "owner" in found:
        name = f"{_text(found['owner'][0], source)}.{name}"
    row, (last, column) = node.start_point[0], node.end_point
    if column == 0 and last > row:
        last -= 1
    first = lowest = outer.start_point[0]
    while first > max(0, lowest - _MAX_COMMENT_ROWS) and lines[first - 1].lstrip().startswith(
        language.comments
    ):
        first -= 1
    return Definition(
        kind, name, row, first, min(last, len(lines) - 1), node.start_byte, node.end_byte
    )


def _nest(definitions: list[Definition]) -> None:
    """Set the parent and qualified name of each, and whether it has its own chunk.

    What is inside a function is part of it, and what shares its first row with something else
    cannot be split from it.
    """
    around: list[int] = []
    taken = -1
    for index, definition in enumerate(definitions):
        while around and (closed := definitions[around[-1]]).end <= definition.start:
            taken = max(taken, closed.last if closed.own_chunk else -1)
            around.pop()
        definition.qualified = definition.name
        definition.own_chunk = definition.row > taken
        definition.first = max(definition.first, min(taken + 1, definition.row))
        if around:
            outer = definitions[around[-1]]
            definition.parent = around[-1]
            definition.qualified = f"{outer.qualified}.{definition.name}"[-MAX_NAME_CHARS:]
            definition.first = max(definition.first, min(outer.row + 1, definition.row))
            definition.own_chunk &= (
                outer.own_chunk and outer.kind != "function" and definition.row > outer.row
            )
        around.append(index)
