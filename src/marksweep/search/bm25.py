"""BM25: which of the texts that contain words of a query matches best.

Each word adds its rarity times its frequency in the text. FTS5 computes the same in SQLite, with
the same K1 and B; `fts5_rarity` weighs words as it does, for stores that must rank the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from math import log
from typing import Generic, TypeVar

K1 = 1.2
"""How much a word's repetition counts. Higher: repeated words keep adding to the score."""

B = 0.75
"""How much length lowers a text's score, 0 to 1. Higher prefers short ones."""

MIN_RARITY = 1e-6
"""Rarity in FTS5 of a word that most texts have: it still matches, but hardly affects the rank."""

Key = TypeVar("Key", bound=Hashable)


def rarity(texts: int, holders: int) -> float:
    """Weigh a word: the fewer texts have it, the higher. Always above 0."""
    return log(1 + (texts - holders + 0.5) / (holders + 0.5))


def fts5_rarity(texts: int, holders: int) -> float:
    """Weigh a word as FTS5 does: one that more than half of the texts have counts for nothing."""
    return max(MIN_RARITY, log((texts - holders + 0.5) / (holders + 0.5)))


def half_point(length: float, mean: float, k1: float = K1) -> float:
    """Return how many occurrences weigh half of what any number can, in a text of this length."""
    return k1 * (1 - B + B * length / mean)


def frequency(times: float, half: float, k1: float = K1) -> float:
    """Weigh `times` occurrences in a text with this half point."""
    return times * (k1 + 1) / (times + half)


def score(
    postings: Iterable[tuple[float, Mapping[Key, float]]],
    lengths: Mapping[Key, int],
    mean: float,
    k1: float = K1,
) -> dict[Key, float]:
    """Score texts by words: each word's weight and who has it how often; how long each text is.

    Each of the texts has some of the words.
    """
    halves = {key: half_point(length, mean, k1) for key, length in lengths.items()}
    found = dict.fromkeys(halves, 0.0)
    for weight, holders in postings:
        for key, times in holders.items():
            found[key] += weight * frequency(times, halves[key], k1)
    return found


class WordIndex(Generic[Key]):
    """An inverted index in memory: which texts have which words, how often. Ranks as FTS5 does."""

    def __init__(self) -> None:
        self._postings: dict[str, dict[Key, int]] = {}
        self._words: dict[Key, Mapping[str, int]] = {}
        self._lengths: dict[Key, int] = {}
        self._total = 0

    def add(self, key: Key, words: Iterable[str]) -> None:
        """Index a text; replace one under the same key."""
        self.discard(key)
        counted = Counter(words)
        self._words[key] = counted
        self._lengths[key] = length = counted.total()
        self._total += length
        for word, times in counted.items():
            self._postings.setdefault(word, {})[key] = times

    def discard(self, key: Key) -> None:
        """Remove a text; unknown keys are not an error."""
        for word in self._words.pop(key, ()):
            holders = self._postings[word]
            del holders[key]
            if not holders:
                del self._postings[word]
        self._total -= self._lengths.pop(key, 0)

    def scores(self, words: Iterable[str]) -> dict[Key, float]:
        """Score every text that has any of these words; high is better."""
        postings = [self._postings[word] for word in words if word in self._postings]
        texts = len(self._lengths)
        mean = self._total / max(1, texts) or 1.0
        weighed = ((fts5_rarity(texts, len(holders)), holders) for holders in postings)
        lengths = {key: self._lengths[key] for holders in postings for key in holders}
        return score(weighed, lengths, mean)
