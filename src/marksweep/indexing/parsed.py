"""What reading a file gives: its chunks, the names in it, and how they relate."""

from __future__ import annotations

import msgspec


class Name(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An entity before it has an id."""

    kind: str
    """function, class, module or path."""
    name: str


class Piece(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A range of lines, the first being 1, and the names that occur in it."""

    kind: str
    """function, class, block or text."""
    symbol: str
    start_line: int
    end_line: int
    text: str
    names: tuple[int, ...] = ()
    """Indexes into the file's names, sorted."""


class Tie(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A relation between two names of the file, by index."""

    source: int
    target: int
    relation: str
    """calls or imports."""


class Parsed(msgspec.Struct, frozen=True, array_like=True):
    """One file, read. The same path and content always give the same."""

    language: str
    lines: int
    functions: int = 0
    classes: int = 0
    pieces: tuple[Piece, ...] = ()
    names: tuple[Name, ...] = ()
    ties: tuple[Tie, ...] = ()
