"""The order of what a search found, which is the same on every store.

Engines weigh words in their own ways, and by all they hold: other workspaces and hidden rows
too. So a store hands over the matches that it thinks best, and they are ranked here by nothing but
themselves: BM25, with the matches as the collection.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from marksweep.search.bm25 import score

CANDIDATES = 200
"""Matches that are ranked, or twice the limit if that is more.

Larger gives one order on every store for more common words, and takes longer.
"""

IN_TITLE = 2
"""What a word in the title counts, against one in the text."""

Key = TypeVar("Key", bound=Hashable)


class Match(msgspec.Struct, Generic[Key], frozen=True, gc=False):
    """A chunk that has words of a search, as far as ranking needs it."""

    key: Key
    memory_id: str
    position: int
    title: str
    text: str


def candidates(limit: int) -> int:
    """Say how many matches to rank for so many hits."""
    return max(CANDIDATES, 2 * limit)


def ranked(matches: Sequence[Match[Key]], wanted: Sequence[str], limit: int) -> dict[Key, float]:
    """Give the scores of the best, best first."""
    postings: list[dict[Key, int]] = [{} for _ in wanted]
    for match in matches:
        title, text = match.title.casefold(), match.text.casefold()
        for word, holders in zip(wanted, postings, strict=True):
            if times := IN_TITLE * _times(word, title) + _times(word, text):
                holders[match.key] = times
    lengths = {match.key: len(match.title) + len(match.text) for match in matches}
    mean = sum(lengths.values()) / max(1, len(lengths)) or 1.0
    scores = score(postings, lengths, len(matches), mean)
    best = sorted(matches, key=lambda m: (-scores.get(m.key, 0.0), m.memory_id, m.position))
    return {match.key: scores.get(match.key, 0.0) for match in best[:limit]}


def joined(found: Mapping[Key, float], more: Mapping[Key, float], limit: int) -> dict[Key, float]:
    """Add hits that are not there yet, none scored above those that are."""
    ceiling = min(found.values(), default=float("inf"))
    new = [(key, min(score, ceiling)) for key, score in more.items() if key not in found]
    return dict([*found.items(), *new][:limit])


def _times(word: str, text: str) -> int:
    """Count a word where it is a whole word: searching for it is far faster than splitting."""
    times = 0
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        begins = at == 0 or not text[at - 1].isalnum()
        times += begins and (end == len(text) or not text[end].isalnum())
        at = text.find(word, end)
    return times
