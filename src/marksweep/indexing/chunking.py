"""Split a file's lines into chunks: every line that is not blank is in exactly one run of lines.

A definition owns its lines, except those of definitions inside it that have their own chunk.
Lines without an owner form blocks. Runs that are too long are split at blank lines where possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from marksweep.indexing.tree import Definition
from marksweep.stores.graph.nouns import Piece

MAX_CHUNK_LINES = 100
"""Maximum lines of a run. Higher gives search hits more context and less precision."""

MAX_CHUNK_CHARS = 8_000
"""Maximum characters of a run; a longer line is split, as in minified code."""


def cut(lines: Sequence[str], definitions: Sequence[Definition]) -> Iterator[Piece]:
    """Split lines of code, in order. `definitions` are sorted, outer before inner."""
    owners = [-1] * len(lines)
    for index, definition in enumerate(definitions):
        if definition.own_chunk:
            count = definition.last - definition.first + 1
            owners[definition.first : definition.last + 1] = [index] * count
    first = 0
    for row in range(1, len(lines) + 1):
        if row == len(lines) or owners[row] != owners[first]:
            kind, symbol = "block", ""
            if owners[first] >= 0:
                owner = definitions[owners[first]]
                kind = "block" if owner.kind == "scope" else owner.kind
                symbol = owner.qualified
            yield from _sized(lines, kind, symbol, first, row - 1)
            first = row


def blocks_of_text(lines: Sequence[str]) -> Iterator[Piece]:
    """Split lines of text, in order."""
    return _sized(lines, "text", "", 0, len(lines) - 1)


def _sized(lines: Sequence[str], kind: str, symbol: str, first: int, last: int) -> Iterator[Piece]:
    """Strip blank lines from both ends and split what is too long."""
    while True:
        while first <= last and not lines[first].strip():
            first += 1
        while first <= last and not lines[last].strip():
            last -= 1
        if first > last:
            return
        if len(lines[first]) > MAX_CHUNK_CHARS:
            for start in range(0, len(lines[first]), MAX_CHUNK_CHARS):
                part = lines[first][start : start + MAX_CHUNK_CHARS]
                if part.strip():
                    yield Piece(kind, symbol, first + 1, first + 1, part)
            first += 1
            continue
        end = _end(lines, first, last)
        stop = end
        while not lines[stop].strip():
            stop -= 1
        yield Piece(kind, symbol, first + 1, stop + 1, "\n".join(lines[first : stop + 1]))
        first = end + 1


def _end(lines: Sequence[str], first: int, last: int) -> int:
    """Find the last row of the chunk that starts at `first`."""
    chars = 0
    row = first
    while row <= last:
        chars += len(lines[row]) + 1
        if chars > MAX_CHUNK_CHARS + 1 or row - first >= MAX_CHUNK_LINES:
            break
        row += 1
    if row > last:
        return last
    for blank in range(row - 1, first + (row - first) // 2, -1):
        if not lines[blank].strip():
            return blank
    return max(first, row - 1)
