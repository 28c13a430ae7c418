"""Entities in a text, found by rules: the same text always gives the same entities.

URLs, paths, `#tags`, identifiers and capitalised names, in this order; later rules do not see what
an earlier rule matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

MOST_ENTITIES = 64
"""Entities per text. More link more notes, but by less important words."""

TAKEN = " , "
"""Replaces a match, so that the words around it do not join."""

_url = re.compile(r"https?://[^\s<>\"'`)\]}]+")
_path = re.compile(
    r"(?<![\w/])(?:~|\.{1,2})?/?(?:[\w.@-]+/)+[\w.@-]*\w"
    r"|\b[\w-]+\.(?:py|pyi|js|jsx|ts|tsx|go|rs|java|c|h|cc|cpp|hpp|rb|sh|sql|md|rst|txt|json|toml"
    r"|ya?ml|ini|cfg|html|css)\b"
)
_tag = re.compile(r"(?<![\w#&])#(\w*[^\W\d_][\w-]*)")
_identifier = re.compile(
    r"`([^\s`]{2,80})`"
    r"|\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\(\)"
    r"|\b([A-Za-z]\w*_\w+|_\w+)\b"
    r"|\b([a-z]+[a-z0-9]*[A-Z]\w*|(?:[A-Z][a-z0-9]+){2,})\b"
)
_word = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|[.!?:;\n]|,")
_breaks = frozenset(".!?:;\n")
_COMMON = """
a an and are as at but by for from he her his how i if in is it its my no not of on or our she so
that the their then there these they this those to was we were what when where which who why will
with yes you your"""
_common = frozenset(_COMMON.split())


class Found(msgspec.Struct, frozen=True, gc=False):
    """An entity that a text mentions."""

    kind: str
    name: str


def extract(text: str) -> tuple[Found, ...]:
    """Find the entities of a text, each once, in the order of the rules."""
    found = dict.fromkeys(_all(text))
    return tuple(found)[:MOST_ENTITIES]


def _all(text: str) -> Iterator[Found]:
    for kind, pattern in (("url", _url), ("path", _path), ("tag", _tag)):
        for match in pattern.finditer(text):
            name = (match[1] if kind == "tag" else match[0]).rstrip(".,;:!?")
            if kind != "path" or _is_path(name):
                yield Found(kind, name)
        text = pattern.sub(TAKEN, text)
    for match in _identifier.finditer(text):
        yield Found("identifier", next(group for group in match.groups() if group))
    text = _identifier.sub(TAKEN, text)
    for name in _names(text):
        yield Found("name", name)


def _is_path(name: str) -> bool:
    """Distinguish `src/app.py` and `./run` from `and/or` and `1/2`."""
    return name[0] in "/.~" or name.count("/") > 1 or "." in name


def _names(text: str) -> Iterator[str]:
    """Join capitalised words that follow each other.

    The first word of a sentence is always capitalised: alone, it counts only if it is also
    capitalised inside a sentence.
    """
    runs: list[tuple[tuple[str, ...], bool]] = []
    run: list[str] = []
    at_start = starts = True
    for word in _word.findall(text):
        if word[0].isupper() and (run or word.casefold() not in _common):
            if not run:
                starts = at_start
            run.append(word)
        elif run:
            runs.append((tuple(run), starts))
            run = []
        at_start = word in _breaks
    if run:
        runs.append((tuple(run), starts))
    certain = {word for words, opening in runs for word in words[opening:]}
    for words, opening in runs:
        if len(words) > 1 or not opening or words[0] in certain:
            yield " ".join(words)
