"""How text becomes words to search by. Every store splits alike, so every store finds alike.

A word is indexed whole and in its parts: `readConfigFile` and `read_config_file` both give
`readconfigfile read config file`, and `src/app.py` gives `src app py`. Scripts that write no spaces
(Chinese, Japanese, Korean, Thai, …) are indexed by characters and by pairs of neighbours, and
asked for by pairs.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from marksweep.model import Segment

LONGEST_WORD = 64
"""Characters after which a word is cut: longer ones are hashes, base64 or noise.

Higher lets whole blobs be found, at the price of an index full of them.
"""

MOST_ASKED = 64
"""Different words of a query that count; the rest are ignored.

Higher lets whole paragraphs be asked for, and each word costs a look into the index.
"""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_ASCII_WORD = re.compile(rf"\w{{1,{LONGEST_WORD}}}", re.ASCII)
_RUN = re.compile(rf"((?:(?=[{_UNSPACED}])\w)+)|((?:(?![{_UNSPACED}])\w){{1,{LONGEST_WORD}}})")
_PART = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[^\WA-Z_]+")


def document(segment: Segment) -> str:
    """Spell the words a segment is found by."""
    return spell(said(segment))


def said(segment: Segment) -> str:
    """All that a segment is found by: its text, file, symbol, type and tags."""
    named = (segment.text, segment.file_path or "", segment.symbol or "", segment.type)
    return "\n".join(named + segment.tags)


def spell(text: str) -> str:
    """Write text as the words it is indexed under, with a space between."""
    if text.isascii():
        return " ".join(map(_spelled, _ASCII_WORD.findall(text)))
    runs = _RUN.findall(unicodedata.normalize("NFKC", text))
    return " ".join(
        _spelled(word) if word else " ".join((*unspaced, *_pairs(unspaced)))
        for unspaced, word in runs
    )


def asked(words: str) -> list[str]:
    """Split a query into the different words to look up."""
    if words.isascii():
        found = spell(words).split()
    else:
        found = []
        for unspaced, word in _RUN.findall(unicodedata.normalize("NFKC", words)):
            found += _spelled(word).split() if word else _pairs(unspaced) or [unspaced]
    return list(dict.fromkeys(found))[:MOST_ASKED]


@lru_cache(maxsize=1 << 16)
def _spelled(word: str) -> str:
    """Spell a word whole and, if it has several parts, in its parts."""
    if word.isascii() and word.isalnum() and word.lower() == word:
        return word
    parts = [part.casefold() for part in _PART.findall(word)]
    return " ".join(parts if len(parts) < 2 else ("".join(parts), *parts))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]
