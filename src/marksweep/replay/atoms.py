"""Atoms: what can be needed again. Names and lines, found in a text by an extractor.

Three extractors, so that a figure shows how much of it comes from knowing the measure: `names`
finds identifiers by their look and lines freed of numbers; `tokens` takes what is between
blanks, and raw lines; `values` takes what a person would underline: quoted strings, amounts with
their units, what went wrong, and the words that identifiers are made of.
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

_QUOTED = re.compile(r"""(?<!\w)(["'`])(?=\S)(.+?)(?<=\S)\1(?!\w)""")
_UNIT = (
    r"(?:%|°[CF]?|[A-Za-zµ]{1,3}\b|(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?"
    r"|bytes|tokens|lines)\b)"
)
_AMOUNT = re.compile(rf"[$€£¥]\s?\d[\d.,]*\d|[$€£¥]\s?\d|(?<![\w.])\d+(?:[.,]\d+)*\s?{_UNIT}")
_FAILURE = re.compile(
    r"\b(?:\w*(?:error|exception|warning)|traceback|fail(?:ed|ure|s)?|fatal|panic|denied|refused"
    r"|cannot|could not|unable to|not found|no such|invalid|undefined|unexpected|missing)\b.*",
    re.IGNORECASE,
)
_COMPOUND = re.compile(r"\w+(?:[./:\-]\w+)*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")

NAME_LENGTH = range(5, 121)
LINE_LENGTH = 24
TOKEN_LENGTH = range(4, 161)
RAW_LINE_LENGTH = 12
QUOTED_LENGTH = range(2, 81)
FAILURE_LENGTH = range(8, 161)
PART_LENGTH = 4


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


def values(line: str) -> set[str]:
    """Quoted strings, amounts with their units, phrases of failure, and parts of identifiers."""
    flat = squeeze(line)
    found = {match[2] for match in _QUOTED.finditer(flat) if len(match[2]) in QUOTED_LENGTH}
    found.update(match.group() for match in _AMOUNT.finditer(flat))
    found.update(
        match.group() for match in _FAILURE.finditer(flat) if len(match.group()) in FAILURE_LENGTH
    )
    for match in _COMPOUND.finditer(flat):
        parts = _PART.findall(match.group())
        if len(parts) > 1:
            found.update(part for part in parts if len(part) >= PART_LENGTH)
    return found


EXTRACTORS: dict[str, Extractor] = {"names": names, "tokens": tokens, "values": values}


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
