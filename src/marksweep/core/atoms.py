"""Atoms: what in a text can be needed again.

Nothing here knows a format, a tool or a language. A line gives four kinds of atoms, each a
different guess at what the agent may come back for: the line itself, whatever stands between
blanks and is more than a plain word, names by their look, and what names are made of. A fact that
only one guess finds is still found.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NewType

Kind = NewType("Kind", int)
"""The guess by which an atom was found.

A plain number: members of an enum would have Python's cycle collector look at every atom.
"""
NAME = Kind(0)
"""A path, identifier, number, date or id, freed of the punctuation around it."""
LINE = Kind(1)
"""A whole line; once as it stands, once without a line number or diff mark."""
TOKEN = Kind(2)
"""What stands between blanks and holds more than letters, punctuation and all."""
PART = Kind(3)
"""A word in any script, or what stands before a colon: what names are made of."""

_BLANKS = re.compile(r"\s+")
_NAME = re.compile(r"[\w#/~][\w\-./:@#+]*")
_EDGES = ".:/-+#@"
_TELLING = re.compile(r"._.|./.|\d|[a-z][A-Z]|[^\W\d_]\.[^\W\d_]")
_NOT_LETTER = re.compile(r"[\W\d_]")
_WORD = re.compile(r"\w{4,}")
_LONG = 200
"""Characters from which it is quicker to look for equal lines first."""
_MARGIN = re.compile(r"^\s*\d+\s*[:|\t→]\s?|^[+\-]\s")

SHORTEST_NAME, LONGEST_NAME = 5, 120
SHORTEST_TOKEN, LONGEST_TOKEN = 4, 160
SHORTEST_LINE = 12
"""Characters below which a line says too little to be looked for as a whole."""

Atoms = tuple[tuple[str, Kind], ...]
"""Atoms with the kind that found them; each key once. Keys of different kinds never meet."""

KEY = {NAME: "", LINE: "", TOKEN: "\0", PART: "\1"}
"""What a key begins with, so that kinds cover their own only.

A line that holds `"a_b",` holds the name a_b and not the token; one with `x/a_b:7` holds it as a
part and not as a name. Whoever looks for the one is not served by the other.
"""


def squeeze(text: str) -> str:
    """The text with every run of white space as one blank, trimmed."""
    return _BLANKS.sub(" ", text).strip()


@lru_cache(maxsize=1 << 16)
def atoms_of_line(line: str) -> Atoms:
    """Find the atoms of one line."""
    flat = squeeze(line)
    found: dict[str, Kind] = {}
    for match in _NAME.finditer(flat):
        name = match.group()
        _note(name, NAME, found)
        for part in name.split(":"):
            _note(part, PART, found)
    for token in flat.split(" "):
        if SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN and _NOT_LETTER.search(token):
            found.setdefault(KEY[TOKEN] + token, TOKEN)
    for match in _WORD.finditer(flat):
        found.setdefault(KEY[PART] + match.group(), PART)
    for text in (squeeze(_MARGIN.sub("", line, count=1)), flat):
        if len(text) >= SHORTEST_LINE:
            found[text] = LINE
    return tuple(found.items())


def _note(name: str, kind: Kind, found: dict[str, Kind]) -> None:
    """Take note of a name if it looks like one, freed of what stands around it."""
    bare = name.strip(_EDGES)
    if _is_name(bare):
        found.setdefault(KEY[kind] + bare, kind)


def _is_name(bare: str) -> bool:
    return SHORTEST_NAME <= len(bare) <= LONGEST_NAME and _TELLING.search(bare) is not None


def atoms_of(text: str) -> dict[str, Kind]:
    """Find the atoms of a text, line by line."""
    found: dict[str, Kind] = {}
    for line in text.split("\n"):
        if line and not line.isspace():
            found.update(atoms_of_line(line))
    return found


def names_in(text: str) -> set[str]:
    """Find the names in a text, and nothing else of it."""
    return set(filter(_is_name, maybe_names_in(text)))


def maybe_names_in(text: str) -> set[str]:
    """Find what has the letters of a name, plain words too.

    In a long text, lines that come again are read once.
    """
    if len(text) > _LONG:
        text = "\n".join(set(text.splitlines()))
    return {name.strip(_EDGES) for name in set(_NAME.findall(text))}


def shown(atom: str) -> str:
    """The atom as it stands in the text."""
    return atom.lstrip("\0\1")
