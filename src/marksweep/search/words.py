"""Tokenization: how text becomes search words. All stores use it, so all find the same.

A word is indexed whole and in its parts: `readConfigFile` and `read_config_file` both give
`readconfigfile read config file`, and `src/app.py` gives `src app py`. Scripts that write no spaces
(Chinese, Japanese, Korean, Thai, …) are indexed by characters and by pairs of neighbours, and
queried by pairs. Recall, which ranks what people said, also compares words by their stems.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from operator import attrgetter

from marksweep.model import Segment

MAX_WORD_CHARS = 64
"""Maximum characters of a word: longer ones are hashes, base64 or noise.

Higher makes whole blobs searchable, at the cost of an index full of them.
"""

MAX_QUERY_WORDS = 64
"""Maximum distinct words of a query; the rest are ignored.

Higher allows whole paragraphs as queries, and each word costs an index lookup.
"""

STEM_CHARS = 6
"""Letters of a stem that count: `adopt` and `adoption` match."""

_FOUND_BY = attrgetter("text", "file_path", "symbol", "type", "tags", "task_id")
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_ASCII_WORD = re.compile(rf"\w{{1,{MAX_WORD_CHARS}}}", re.ASCII)
_RUN = re.compile(rf"((?:(?=[{_UNSPACED}])\w)+)|((?:(?![{_UNSPACED}])\w){{1,{MAX_WORD_CHARS}}})")
_WORD = re.compile(r"\w+")
_SUFFIX = re.compile(r"(?:ingly|edly|ings|ing|ies|ied|ely|ed|es|ly|s|e)\Z")
_PART = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[^\WA-Z_]+")

CACHED_WORDS = 1 << 15
"""Words whose spellings and stems are cached, for all stores together.

More indexes and ranks long texts faster, at about two hundred bytes each.
"""


def segment_words(segment: Segment) -> str:
    """Write the search words of a segment, separated by spaces."""
    return index_words(segment_text(segment))


def segment_text(segment: Segment) -> str:
    """All searchable text of a segment: its text, file, symbol, type and tags."""
    named = (segment.text, segment.file_path or "", segment.symbol or "", segment.type)
    return "\n".join(named + segment.tags)


def found_alike(one: Segment, other: Segment) -> bool:
    """Return whether two segments have the same search words: most writes only change counts."""
    return _FOUND_BY(one) == _FOUND_BY(other)


def index_words(text: str) -> str:
    """Write text as the words it is indexed under, separated by spaces."""
    if text.isascii():
        return " ".join(map(_spelled, _ASCII_WORD.findall(text)))
    runs = _RUN.findall(unicodedata.normalize("NFKC", text))
    return " ".join(
        _spelled(word) if word else " ".join((*unspaced, *_pairs(unspaced)))
        for unspaced, word in runs
    )


def query_words(query: str) -> list[str]:
    """Split a query into the distinct words to look up."""
    if query.isascii():
        found = index_words(query).split()
    else:
        found = []
        for unspaced, word in _RUN.findall(unicodedata.normalize("NFKC", query)):
            found += _spelled(word).split() if word else _pairs(unspaced) or [unspaced]
    return list(dict.fromkeys(found))[:MAX_QUERY_WORDS]


@lru_cache(maxsize=CACHED_WORDS)
def _spelled(word: str) -> str:
    """Return a word and, if it has several parts, its parts."""
    if word.isascii() and word.isalnum() and word.lower() == word:
        return word
    parts = [part.casefold() for part in _PART.findall(word)]
    return " ".join(parts if len(parts) < 2 else ("".join(parts), *parts))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def stem(word: str) -> str:
    """A word without its endings, so that `planned`, `plans` and `planning` match."""
    word = word.lower()
    while suffix := _SUFFIX.search(word, 3):
        word = word[: suffix.start()] + ("y" if suffix[0] in ("ies", "ied") else "")
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou":
        word = word[:-1]
    if word.endswith("i"):  # `cookie` matches `cookies`
        word = f"{word[:-1]}y"
    return word[:STEM_CHARS]


def stems(text: str) -> list[str]:
    """The stems of a text's words, in order.

    A plain word is found by its stem, a name such as `read_config2` whole and by its parts, a
    number whole, and a script without spaces by pairs of characters.
    """
    return stemmed(text).split()


def stemmed(text: str) -> str:
    """Write the stems of a text, separated by spaces."""
    return " ".join(filter(None, map(_forms, _WORD.findall(text))))


@lru_cache(maxsize=CACHED_WORDS)
def _forms(word: str) -> str:
    if word.isascii() and word.isalnum() and word.islower() and len(word) <= MAX_WORD_CHARS:
        return _form(word)
    first, *parts = query_words(word) or [""]  # underscores alone give none
    whole = first if first == "".join(parts) else _form(first)
    return " ".join((whole, *map(_form, parts)))


def _form(word: str) -> str:
    return stem(word) if word.isalpha() else word
