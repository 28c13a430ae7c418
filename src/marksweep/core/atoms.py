"""Atoms: what in a text can be needed again.

Nothing here knows a format, a tool or a language. A line gives four kinds of atoms, each a
different guess at what the agent may come back for: the line itself, whatever stands between
blanks and is more than a plain word, names by their look, and words. A fact that only one guess
finds is still found.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache


class Kind(IntEnum):
    """The guess by which an atom was found."""

    NAME = 0
    """A path, identifier, number, date or id, freed of the punctuation around it."""
    LINE = 1
    """A whole line; once as it stands, once without a line number or diff mark."""
    TOKEN = 2
    """What stands between blanks and holds more than letters, punctuation and all."""
    WORD = 3
    """A run of letters, in any script."""


_BLANKS = re.compile(r"\s+")
_NAME = re.compile(r"[\w#/~][\w\-./:@#+]*")
_EDGES = ".:/-+#@"
_TELLING = re.compile(r"._.|./.|\d|[a-z][A-Z]|[^\W\d_]\.[^\W\d_]")
_NOT_LETTER = re.compile(r"[\W\d_]")
_WORD = re.compile(r"[^\W\d_]{4,}")
_MARGIN = re.compile(r"^\s*\d+\s*[:|\t→]\s?|^[+\-]\s")

SHORTEST_NAME, LONGEST_NAME = 5, 120
SHORTEST_TOKEN, LONGEST_TOKEN = 4, 160
SHORTEST_LINE = 12
"""Characters below which a line says too little to be looked for as a whole."""

Atoms = tuple[tuple[str, Kind], ...]
"""Atoms with the kind that found them; each key once. Keys of different kinds never meet."""

KEY = {Kind.NAME: "", Kind.LINE: "", Kind.TOKEN: "\0", Kind.WORD: ""}
"""What a key begins with. A token is no name even if it looks alike: quotes and commas count."""


def squeeze(text: str) -> str:
    """The text with every run of white space as one blank, trimmed."""
    return _BLANKS.sub(" ", text).strip()


@lru_cache(maxsize=1 << 16)
def atoms_of_line(line: str) -> Atoms:
    """Find the atoms of one line."""
    flat = squeeze(line)
    found: dict[str, Kind] = {}
    for match in _NAME.finditer(flat):
        name = match.group().strip(_EDGES)
        if SHORTEST_NAME <= len(name) <= LONGEST_NAME and _TELLING.search(name):
            found.setdefault(name, Kind.NAME)
    for token in flat.split(" "):
        if SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN and _NOT_LETTER.search(token):
            found.setdefault(KEY[Kind.TOKEN] + token, Kind.TOKEN)
    for match in _WORD.finditer(flat):
        found.setdefault(match.group(), Kind.WORD)
    for whole in (squeeze(_MARGIN.sub("", line, count=1)), flat):
        if len(whole) >= SHORTEST_LINE:
            found[whole] = Kind.LINE
    return tuple(found.items())


def atoms_of(text: str) -> dict[str, Kind]:
    """Find the atoms of a text, line by line."""
    found: dict[str, Kind] = {}
    for line in text.split("\n"):
        if line and not line.isspace():
            found.update(atoms_of_line(line))
    return found


def shown(atom: str) -> str:
    """The atom as it stands in the text."""
    return atom.removeprefix(KEY[Kind.TOKEN])
