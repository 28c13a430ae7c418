"""Atoms: the parts of a text that may be needed again.

An atom is a line, a name or a word. Nothing here knows a format, a tool or a language: each kind is
a different guess at what the agent may need again, and a fact that only one guess finds is still
found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

from marksweep.messages import Text
from marksweep.sections import MAX_CHARACTERS


class Kind(StrEnum):
    """The guess by which an atom was found."""

    LINE = "line"
    """A whole line, as it is and from its first letter on: without numbers, marks and bullets."""
    NAME = "name"
    """A path, identifier, number, date or id: what is between blanks and separators, unless it is
    a plain word."""
    WORD = "word"
    """A word in any script, or a part of a name."""


Atoms = dict[str, Kind]
"""Atoms by their text, in the order in which they were found."""

_BLANKS = re.compile(r"\s+")
_FIRST_LETTER = re.compile(r"[^\W\d_]")
_BETWEEN_SEPARATORS = re.compile(r"\w(?:[^\s()\[\]{}<>\"'`,;:=|]*\w)?")
"""Begins and ends with a letter, digit or underscore; no brackets, quotes or separators inside."""
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")
_WORD = re.compile(r"\w{4,}")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)

SHORTEST = 4
"""Characters below which a name says too little to be searched for."""
LONGEST = 200
"""Characters above which a name is data that nobody types again."""
SHORTEST_LINE = 16
"""Characters below which a line is a bracket or a keyword, found in every file."""

DEDUPLICATED_FROM = 200
"""Characters from which it is faster to remove equal lines before searching for names."""

LONGEST_LINE = MAX_CHARACTERS
"""Characters of a line up to which its atoms are remembered; longer ones are cut."""

CACHED_LINES = 2048
"""Lines whose atoms are remembered, for all conversations together; none above LONGEST_LINE.

More finds the atoms of a file that is read again more quickly, at about a kilobyte each.
"""


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
    found: Atoms = dict.fromkeys(_WORD.findall(line), Kind.WORD)
    for name in _BETWEEN_SEPARATORS.findall(line):
        if _is_name(name):
            found[name] = Kind.NAME
    flat = _BLANKS.sub(" ", line).strip()
    letter = _FIRST_LETTER.search(flat)
    for text in (flat, flat[letter.start() :] if letter else ""):
        if len(text) >= SHORTEST_LINE:
            found[text] = Kind.LINE
    return found


def _is_name(text: str) -> bool:
    """Return whether a text between separators is more than a plain word."""
    if not SHORTEST <= len(text) <= LONGEST:
        return False
    return not text.isalpha() or _INNER_CAPITAL.search(text) is not None


def names_in(text: str) -> set[str]:
    """Find only the names in a text."""
    return set(filter(_is_name, maybe_names_in(text)))


def maybe_names_in(text: str) -> set[str]:
    """Find what is between separators, including plain words."""
    if len(text) > DEDUPLICATED_FROM:
        text = "\n".join(set(text.splitlines()))
    return set(_BETWEEN_SEPARATORS.findall(text))


def acted_on(texts: Sequence[Text]) -> Atoms:
    """Find what the agent acts on: all of its calls, else of its code, else the names it says."""
    calls = [_asked(text) for text in texts if text.is_call]
    if calls:
        return atoms_of("\n".join(calls))
    said = "\n".join(text.words for text in texts if not text.is_observed)
    blocks = _FENCED.findall(said)
    if blocks:
        return atoms_of("\n".join(blocks))
    return {atom: kind for atom, kind in atoms_of(said).items() if kind is Kind.NAME}


def calls_of(texts: Sequence[Text]) -> list[list[str]]:
    """Return each call: the name of its tool, then what it is called with."""
    calls: dict[int, list[str]] = {}
    for text in texts:
        if text.is_argument:
            calls.setdefault(text.part, []).append(text.words)
        elif text.is_call:
            calls[text.part] = [*text.words.split("\n", 1), *calls.get(text.part, ())]
    return [*calls.values()]


def _asked(text: Text) -> str:
    """Return what a call asks for, without the name of the tool, which comes first."""
    return text.words if text.is_argument else text.words.partition("\n")[2]
