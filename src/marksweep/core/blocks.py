"""Blocks: a bulky text cut into parts that can be kept or given up one by one.

A block ends where a line ends. A line too long for that, as a JSON result often is, is cut where a
record ends. A value in such a line says little without its surroundings, so an atom near a cut is
held by the blocks on both sides together: it is there only if both are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from marksweep.core.atoms import LINE, Kind, atoms_of_line, shown

BLOCK = 120
"""Characters at which a block of lines ends. Smaller keeps less by-catch and pays more markers."""
LONG_BLOCK = 400
"""Characters of a block within a long line. A record should fit, with what surrounds it."""
BEFORE, AROUND = 40, 200
"""A value in a long line needs AROUND characters of it, from BEFORE ahead of the value."""
ENDS = ("}, ", "},", "], ", "],", '", ', '",', "; ", ". ", ", ", ",", " ")
"""Where a long line may be cut, best first: the ends of records, of values, of words."""

MARKER = "(...)"
"""What stands in place of a run of dropped blocks: one token, and ASCII.

For one character beyond that Python would hold a whole text in twice the room.
"""


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A part of a text, with the atoms that it holds alone."""

    text: str
    glued: bool
    """Whether it goes on in the line of the piece before it."""
    atoms: tuple[tuple[str, Kind], ...]


class Joint(msgspec.Struct, frozen=True, gc=False):
    """An atom that neighbouring pieces hold together."""

    atom: str
    kind: Kind
    pieces: tuple[int, ...]


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A text as pieces in order, which joined give the text again."""

    pieces: tuple[Piece, ...]
    joints: tuple[Joint, ...]


@lru_cache(maxsize=4096)
def cut(text: str) -> Cut:
    """Cut a text into pieces. The same text is cut once."""
    pieces: list[Piece] = []
    joints: list[Joint] = []
    lines: list[str] = []
    size = 0

    def close() -> None:
        nonlocal size
        if lines:
            pieces.append(whole("\n".join(lines)))
            lines.clear()
            size = 0

    for line in text.split("\n"):
        if len(line) > 1.5 * LONG_BLOCK:
            close()
            _cut_line(line, pieces, joints)
            continue
        if lines and size + len(line) > 1.5 * BLOCK:
            close()
        lines.append(line)
        size += len(line) + 1
        if size >= BLOCK:
            close()
    close()
    return Cut(tuple(pieces), tuple(joints))


@lru_cache(maxsize=4096)
def whole(text: str) -> Piece:
    """A text as one piece."""
    found: dict[str, Kind] = {}
    for line in text.split("\n"):
        if line and not line.isspace():
            found.update(atoms_of_line(line))
    return Piece(text, False, tuple(found.items()))


def join(pieces: Sequence[tuple[str, bool] | None]) -> str:
    """Write pieces back, as (text, glued); None is a dropped one. One marker per dropped run."""
    out: list[str] = []
    in_gap = False
    for piece in pieces:
        if piece is None:
            if not in_gap:
                out.extend(["\n", MARKER] if out else [MARKER])
            in_gap = True
            continue
        text, glued = piece
        if out and (in_gap or not glued):
            out.append("\n")
        out.append(text)
        in_gap = False
    return "".join(out)


def _cut_line(line: str, pieces: list[Piece], joints: list[Joint]) -> None:
    """Cut a long line at record ends, and say which pieces hold each atom."""
    spans = list(_spans(line))
    first = len(pieces)
    alone: list[list[tuple[str, Kind]]] = [[] for _ in spans]
    for atom, kind in atoms_of_line(line):
        if kind == LINE:
            continue
        start = max(0, min(line.find(shown(atom)) - BEFORE, len(line) - AROUND))
        held = [i for i, (a, b) in enumerate(spans) if a < start + AROUND and b > start]
        if len(held) == 1:
            alone[held[0]].append((atom, kind))
        else:
            joints.append(Joint(atom, kind, tuple(first + i for i in held)))
    for i, (a, b) in enumerate(spans):
        pieces.append(Piece(line[a:b], i > 0, tuple(alone[i])))


def _spans(line: str) -> Iterator[tuple[int, int]]:
    """Where the pieces of a long line begin and end."""
    start = 0
    while len(line) - start > 1.3 * LONG_BLOCK:
        low = start + int(0.6 * LONG_BLOCK)
        room = line[low : start + int(1.3 * LONG_BLOCK)]
        end = next((low + at + len(e) for e in ENDS if (at := room.rfind(e)) >= 0), 0)
        end = end or start + LONG_BLOCK
        yield start, end
        start = end
    yield start, len(line)
