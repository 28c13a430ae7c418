"""Atoms: the parts of a text that may be needed again.

An atom is a name, a line, a token or a part of a name. Nothing here knows a format, a tool or a
language: each kind is a different guess at what the agent may need again, and a fact that only one
guess finds is still found.
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

    NAME = "name"
    """A path, identifier, number, date or id, without the punctuation around it."""
    LINE = "line"
    """A whole line, both as it is and without a line number or diff mark."""
    TOKEN = "token"  # noqa: S105 - no password
    """Text between blanks that contains more than letters, punctuation included."""
    PART = "part"
    """A word in any script, or a part of a name that is split at colons."""


KEY_PREFIXES = {Kind.NAME: "", Kind.LINE: "", Kind.TOKEN: "\0", Kind.PART: "\1"}
"""Prefixes of keys: a kind covers only itself, but a line that is a name covers the name.

A line that holds `"a_b",` holds the name a_b and not the token; one with `x/a_b:7` holds it as a
part and not as a name. A search for one does not match the other.
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

SHORTEST = 4
"""Characters below which a name, a token or a word says too little to be searched for."""
LONGEST = 200
"""Characters above which a name or a token is data that nobody types again."""
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


def squeeze(text: str) -> str:
    """Return the text with every run of white space as one blank, trimmed."""
    return _BLANKS.sub(" ", text).strip()


def shown(key: str) -> str:
    """Return the atom as it is in the text."""
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
        if SHORTEST <= len(token) <= LONGEST and _NOT_LETTER.search(token):
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
    return SHORTEST <= len(bare) <= LONGEST and _TELLING.search(bare) is not None


def names_in(text: str) -> set[str]:
    """Find only the names in a text."""
    return set(filter(_is_name, maybe_names_in(text)))


def maybe_names_in(text: str) -> set[str]:
    """Find what has the letters of a name, including plain words."""
    if len(text) > DEDUPLICATED_FROM:
        text = "\n".join(set(text.splitlines()))
    return {name.strip(_EDGES) for name in set(_NAME.findall(text))}


def _asked(text: Text) -> str:
    """Return what a call asks for, without the name of the tool, which comes first."""
    return text.words if text.is_argument else text.words.partition("\n")[2]


def action_in(texts: Sequence[Text]) -> str:
    """Return what the agent does: its calls, else its code blocks, else its words with a digit."""
    calls = [_asked(text) for text in texts if text.is_call]
    if calls:
        return "\n".join(calls)
    said = "\n".join(text.words for text in texts if not text.is_observed)
    blocks = _FENCED.findall(said)
    if blocks:
        return "\n".join(blocks)
    return "\n".join(word for word in said.split() if any(map(str.isdigit, word)))
