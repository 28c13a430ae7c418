"""What coverage sees in a text: atoms, which may be needed again, and blocks, which hold them.

An atom is a name, a line, a token or a part of a name. Nothing here knows a format, a tool or a
language: each kind is another guess at what the agent may come back for, and a fact that only one
guess finds is still found.

A block is a part of a bulky text that is kept or dropped as one. It ends where a line ends. A line
too long for that, as a JSON result often is, is cut where a record ends. A value in such a line
says little without its surroundings, so an atom near a cut is held by the blocks on both sides
together: it is there only if both are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache

import msgspec

from marksweep.messages import Text


class Kind(StrEnum):
    """The guess by which an atom was found."""

    NAME = "name"
    """A path, identifier, number, date or id, without the punctuation around it."""
    LINE = "line"
    """A whole line; once as it is, once without a line number or diff mark."""
    TOKEN = "token"  # noqa: S105 - no password
    """What is between blanks and holds more than letters, punctuation included."""
    PART = "part"
    """A word in any script, or what comes before a colon: what names are made of."""


KEY_PREFIXES = {Kind.NAME: "", Kind.LINE: "", Kind.TOKEN: "\0", Kind.PART: "\1"}
"""What keys begin with, so that kinds cover only their own; a line that is a name covers the name.

A line that holds `"a_b",` holds the name a_b and not the token; one with `x/a_b:7` holds it as a
part and not as a name. Whoever looks for the one is not served by the other.
"""

Atoms = dict[str, Kind]
"""Atoms by their keys, in the order in which they were found."""

_BLANKS = re.compile(r"\s+")
_NAME = re.compile(r"[\w#/~][\w\-./:@#+]*")
_EDGES = ".:/-+#@"
_TELLING = re.compile(r"._.|./.|\d|[a-z][A-Z]|[^\W\d_]\.[^\W\d_]")
_NOT_LETTER = re.compile(r"[\W\d_]")
_WORD = re.compile(r"\w{4,}")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_MARGIN = re.compile(r"^\s*\d+\s*[:|\t→]\s?|^[+\-]\s")

SHORTEST_NAME, LONGEST_NAME = 5, 120
SHORTEST_TOKEN, LONGEST_TOKEN = 4, 160
SHORTEST_LINE = 12
"""Characters below which a line says too little to be looked for as a whole."""

DEDUPLICATED_FROM = 200
"""Characters from which it is quicker to look for equal lines before looking for names."""

BLOCK_CHARACTERS = 120
"""Characters at which a block of lines ends. Smaller keeps less by-catch and pays more markers."""
LONG_BLOCK_CHARACTERS = 400
"""Characters of a block within a long line. A record should fit, with what surrounds it."""
BEFORE, AROUND = 40, 200
"""A value in a long line needs AROUND characters of it, from BEFORE ahead of the value."""
ENDS = ("}, ", "},", "], ", "],", '", ', '",', "; ", ". ", ", ", ",", " ")
"""Where a long line may be cut, best first: the ends of records, of values, of words."""

LONGEST_LINE = int(1.5 * LONG_BLOCK_CHARACTERS)
"""Characters of a line from which it is cut."""

CACHED_LINES = 2048
"""Lines whose atoms are remembered, for all conversations together; none above LONGEST_LINE.

More finds the atoms of a file that is read again more quickly, at about a kilobyte each.
"""

MARKER = "(...)"
"""What replaces a run of dropped blocks."""


def squeeze(text: str) -> str:
    """The text with every run of white space as one blank, trimmed."""
    return _BLANKS.sub(" ", text).strip()


def shown(key: str) -> str:
    """The atom as it is in the text."""
    return key.lstrip("\0\1")


def atoms_of(text: str) -> Atoms:
    """Find the atoms of a text, line by line."""
    found: Atoms = {}
    for line in text.split("\n"):
        if line and not line.isspace():
            found.update(_atoms_of_line(line))
    return found


def _atoms_of_line(line: str) -> Atoms:
    return _remembered_atoms(line) if len(line) <= LONGEST_LINE else _find_atoms(line)


@lru_cache(maxsize=CACHED_LINES)
def _remembered_atoms(line: str) -> Atoms:
    return _find_atoms(line)


def _find_atoms(line: str) -> Atoms:
    flat = squeeze(line)
    found: Atoms = {}
    for match in _NAME.finditer(flat):
        name = match.group()
        _note_name(name, Kind.NAME, found)
        for part in name.split(":"):
            _note_name(part, Kind.PART, found)
    for token in flat.split(" "):
        if SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN and _NOT_LETTER.search(token):
            _note(token, Kind.TOKEN, found)
    for match in _WORD.finditer(flat):
        _note(match.group(), Kind.PART, found)
    for text in (squeeze(_MARGIN.sub("", line, count=1)), flat):
        if len(text) >= SHORTEST_LINE:
            found[text] = Kind.LINE
    return found


def _note(text: str, kind: Kind, found: Atoms) -> None:
    found.setdefault(KEY_PREFIXES[kind] + text, kind)


def _note_name(name: str, kind: Kind, found: Atoms) -> None:
    """Note a name if it looks like one, without the punctuation around it."""
    bare = name.strip(_EDGES)
    if _is_name(bare):
        _note(bare, kind, found)


def _is_name(bare: str) -> bool:
    return SHORTEST_NAME <= len(bare) <= LONGEST_NAME and _TELLING.search(bare) is not None


def names_in(text: str) -> set[str]:
    """Find the names in a text, and nothing else of it."""
    return set(filter(_is_name, maybe_names_in(text)))


def maybe_names_in(text: str) -> set[str]:
    """Find what has the letters of a name, plain words too."""
    if len(text) > DEDUPLICATED_FROM:
        text = "\n".join(set(text.splitlines()))
    return {name.strip(_EDGES) for name in set(_NAME.findall(text))}


class Piece(msgspec.Struct, frozen=True):
    """A part of a text, with the atoms that it holds alone."""

    text: str
    glued: bool
    """Whether it goes on in the line of the piece before it."""
    atoms: Atoms


class Shared(msgspec.Struct, frozen=True):
    """An atom that neighbouring pieces hold together."""

    atom: str
    kind: Kind
    pieces: tuple[int, ...]


class Cut(msgspec.Struct, frozen=True):
    """A text as pieces in order, which joined give the text again."""

    pieces: tuple[Piece, ...]
    shared: tuple[Shared, ...] = ()


def uncut(text: str) -> Cut:
    """A text as one piece."""
    return Cut((Piece(text, False, atoms_of(text)),))


def cut(text: str) -> Cut:
    """Cut a text into pieces."""
    pieces: list[Piece] = []
    shared: list[Shared] = []
    lines: list[str] = []
    size = 0

    def close() -> None:
        nonlocal size
        if lines:
            pieces.extend(uncut("\n".join(lines)).pieces)
            lines.clear()
            size = 0

    for line in text.split("\n"):
        if len(line) > LONGEST_LINE:
            close()
            _cut_line(line, pieces, shared)
            continue
        if lines and size + len(line) > 1.5 * BLOCK_CHARACTERS:
            close()
        lines.append(line)
        size += len(line) + 1
        if size >= BLOCK_CHARACTERS:
            close()
    close()
    return Cut(tuple(pieces), tuple(shared))


def _cut_line(line: str, pieces: list[Piece], shared: list[Shared]) -> None:
    """Cut a long line at record ends, and say which pieces hold each atom."""
    spans = list(_spans(line))
    first = len(pieces)
    alone: list[Atoms] = [{} for _ in spans]
    for atom, kind in _atoms_of_line(line).items():
        if kind is Kind.LINE:
            continue
        start = max(0, min(line.find(shown(atom)) - BEFORE, len(line) - AROUND))
        holders = [i for i, (a, b) in enumerate(spans) if a < start + AROUND and b > start]
        if len(holders) == 1:
            alone[holders[0]][atom] = kind
        else:
            shared.append(Shared(atom, kind, tuple(first + i for i in holders)))
    for i, (a, b) in enumerate(spans):
        pieces.append(Piece(line[a:b], i > 0, alone[i]))


def _spans(line: str) -> Iterator[tuple[int, int]]:
    """Where the pieces of a long line begin and end."""
    start = 0
    while len(line) - start > 1.3 * LONG_BLOCK_CHARACTERS:
        low = start + int(0.6 * LONG_BLOCK_CHARACTERS)
        room = line[low : start + int(1.3 * LONG_BLOCK_CHARACTERS)]
        end = next((low + at + len(e) for e in ENDS if (at := room.rfind(e)) >= 0), 0)
        end = end or start + LONG_BLOCK_CHARACTERS
        yield start, end
        start = end
    yield start, len(line)


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


def _asked(text: Text) -> str:
    """What a call asks for, without the name of the tool, which comes first."""
    return text.words if text.place[1] else text.words.partition("\n")[2]


def action_in(texts: Sequence[Text]) -> str:
    """What the agent does: its calls, else its code blocks, else its words with a digit."""
    calls = [_asked(text) for text in texts if text.is_call]
    if calls:
        return "\n".join(calls)
    said = "\n".join(text.words for text in texts if not text.is_observed)
    blocks = _FENCED.findall(said)
    if blocks:
        return "\n".join(blocks)
    return "\n".join(word for word in said.split() if any(map(str.isdigit, word)))
