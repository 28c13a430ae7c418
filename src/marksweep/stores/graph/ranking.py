"""The order of what a search found, which is the same on every store.

Engines weigh words in ways of their own, and by all they hold: other workspaces and hidden rows
too. So a store hands over the matches that it thinks best, and they are ranked here by nothing but
themselves: BM25, with the matches as the collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Generic, TypeVar

import msgspec

CANDIDATES = 200
"""Matches that are ranked, or twice the limit if that is more.

Larger gives one order on every store for more common words, and takes longer.
"""

SATURATION = 1.2
"""How slowly a word that stands there again counts for less."""
LENGTH = 0.75
"""How much longer texts count for less: 0 not at all, 1 by all their length."""
IN_TITLE = 2
"""What a word in the title counts, against one in the text."""

Key = TypeVar("Key")


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
    counts = [_counts(match, wanted) for match in matches]
    sizes = [len(match.title) + len(match.text) for match in matches]
    mean = sum(sizes) / max(1, len(sizes)) or 1.0
    holders = [sum(times[at] > 0 for times in counts) for at in range(len(wanted))]
    weights = [log(1 + len(matches) / max(1, held)) for held in holders]
    scores = {}
    for match, times, size in zip(matches, counts, sizes, strict=True):
        damping = SATURATION * (1 - LENGTH + LENGTH * size / mean)
        scores[match.key] = sum(
            weight * often * (SATURATION + 1) / (often + damping)
            for weight, often in zip(weights, times, strict=True)
        )
    best = sorted(matches, key=lambda m: (-scores[m.key], m.memory_id, m.position))
    return {match.key: scores[match.key] for match in best[:limit]}


def joined(found: Mapping[Key, float], more: Mapping[Key, float], limit: int) -> dict[Key, float]:
    """Add hits that are not there yet, none scored above those that are."""
    ceiling = min(found.values(), default=float("inf"))
    new = [(key, min(score, ceiling)) for key, score in more.items() if key not in found]
    return dict([*found.items(), *new][:limit])


def _counts(match: Match[Key], wanted: Sequence[str]) -> list[int]:
    title, text = match.title.casefold(), match.text.casefold()
    return [IN_TITLE * _times(word, title) + _times(word, text) for word in wanted]


def _times(word: str, text: str) -> int:
    """Count a word where it stands by itself: searching for it is far faster than splitting."""
    times = 0
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        begins = at == 0 or not text[at - 1].isalnum()
        times += begins and (end == len(text) or not text[end].isalnum())
        at = text.find(word, end)
    return times
