"""Atoms: what can be needed again. Names and lines, found in a text by an extractor.

Two extractors, so that a figure shows how much of it comes from knowing the measure: `names`
finds identifiers by their look and lines freed of numbers; `tokens` takes what is between
blanks, and raw lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Extractor = Callable[[str], Iterable[str]]
"""Atoms of one squeezed line."""

_BLANKS = re.compile(r"\s+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_#/~][A-Za-z0-9_\-./:@#+]*")
_EDGES = ".:/-+#@"
_TELLING = re.compile(r"._.|./.|\d|[a-z][A-Z]|[A-Za-z]\.[A-Za-z]", re.DOTALL)
_MARGIN = re.compile(r"^\s*\d+\s*[:|\t→]\s?|^[+\-]\s")
_NOT_LETTER = re.compile(r"[^A-Za-z]")

NAME_LENGTH = range(5, 121)
LINE_LENGTH = 24
TOKEN_LENGTH = range(4, 161)
RAW_LINE_LENGTH = 12


def squeeze(text: str) -> str:
    """The text with every run of white space as one blank, trimmed."""
    return _BLANKS.sub(" ", text).strip()


def names(line: str) -> set[str]:
    """Identifiers of a line, and the line without its number or diff mark if it is long enough."""
    flat = squeeze(line)
    found = set()
    for match in _IDENTIFIER.finditer(flat):
        name = match.group().strip(_EDGES)
        if len(name) in NAME_LENGTH and _TELLING.search(name):
            found.add(name)
    bare = squeeze(_MARGIN.sub("", line, count=1))
    if len(bare) >= LINE_LENGTH:
        found.add(bare)
    return found


def tokens(line: str) -> set[str]:
    """What is between blanks and holds more than letters, and the line if it is long enough."""
    flat = squeeze(line)
    found = {
        word for word in flat.split(" ") if len(word) in TOKEN_LENGTH and _NOT_LETTER.search(word)
    }
    if len(flat) >= RAW_LINE_LENGTH:
        found.add(flat)
    return found


EXTRACTORS: dict[str, Extractor] = {"names": names, "tokens": tokens}


def atoms_of(text: str, extract: Extractor) -> dict[str, list[str]]:
    """Every atom of a text with the squeezed lines that hold it."""
    held: dict[str, list[str]] = {}
    for line in text.split("\n"):
        if not line or line.isspace():
            continue
        flat = squeeze(line)
        for atom in extract(line):
            held.setdefault(atom, []).append(flat)
    return held
