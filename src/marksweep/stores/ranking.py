"""Search for stores without an index of their own: filters, an inverted index, BM25.

The formula and its constants are those of SQLite's FTS5, so that stores rank alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from math import log
from typing import Generic, TypeVar

from marksweep.model import Segment
from marksweep.stores.base import Query

K1 = 1.2
"""How much a word's repetition counts. Higher: repeated words go on adding."""

B = 0.75
"""How much length is held against a document, 0 to 1. Higher prefers short ones."""

LEAST_WEIGHT = 1e-6
"""Weight of a word that most documents have: it still finds, but hardly ranks."""


def matches(query: Query, segment: Segment) -> bool:
    """Tell whether a segment passes every filter of a query. Words are not looked at."""
    return (
        (not query.types or segment.type in query.types)
        and (query.file_path is None or segment.file_path == query.file_path)
        and (query.task_id is None or segment.task_id == query.task_id)
        and (query.since is None or segment.created_at >= query.since)
        and (query.until is None or segment.created_at < query.until)
        and all(tag in segment.tags for tag in query.tags)
    )


def weight(documents: int, having: int) -> float:
    """Weigh a word: the fewer documents have it, the more it says."""
    return max(LEAST_WEIGHT, log((documents - having + 0.5) / (having + 0.5)))


def bm25(times: int, weight: float, length: int, average: float) -> float:
    """Score one word in one document, where it stands `times` times."""
    return weight * times * (K1 + 1) / (times + K1 * (1 - B + B * length / average))


Key = TypeVar("Key", bound=Hashable)


def score(
    having: Iterable[Mapping[Key, int]], lengths: Mapping[Key, int], documents: int, total: int
) -> dict[Key, float]:
    """Score documents by words: for each word, who has it how often; and how long each is."""
    found: dict[Key, float] = {}
    average = total / max(1, documents) or 1.0
    for word in having:
        heavy = weight(documents, len(word))
        for key, times in word.items():
            found[key] = found.get(key, 0.0) + bm25(times, heavy, lengths[key], average)
    return found


class WordIndex(Generic[Key]):
    """Which documents have which words, how often. In memory."""

    def __init__(self) -> None:
        self._having: dict[str, dict[Key, int]] = {}
        self._words: dict[Key, Mapping[str, int]] = {}
        self._lengths: dict[Key, int] = {}
        self._total = 0

    def add(self, key: Key, words: Iterable[str]) -> None:
        """Index a document; one under the same key is replaced."""
        self.discard(key)
        counted = Counter(words)
        self._words[key] = counted
        self._lengths[key] = length = counted.total()
        self._total += length
        for word, times in counted.items():
            self._having.setdefault(word, {})[key] = times

    def discard(self, key: Key) -> None:
        """Forget a document; unknown keys are no error."""
        for word in self._words.pop(key, ()):
            having = self._having[word]
            del having[key]
            if not having:
                del self._having[word]
        self._total -= self._lengths.pop(key, 0)

    def scores(self, words: Iterable[str]) -> dict[Key, float]:
        """Score every document that has any of these words; high is better."""
        having = [self._having[word] for word in words if word in self._having]
        return score(having, self._lengths, len(self._lengths), self._total)
