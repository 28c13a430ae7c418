"""Recall: which texts of a sequence answer a query. Pure; the same ranking everywhere.

`Conversation.recall`, `stash search` and `context_recall` all use it; stores only preselect the
texts where there are very many.

A conversation answers a question over several turns, so a turn's own score (BM25 over word stems)
is joined by its neighbours', by the best of the stretch around it, and by how well the whole region
around it answers. A word that names a topic occurs in clusters and is long; a function word is
spread evenly and short, so it counts less, without a stop-word list. If the query names a speaker,
what others say counts less. Texts are selected by score per size, until the limit is reached.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Container, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeVar

from marksweep.search.bm25 import frequency, half_point, rarity
from marksweep.search.words import stems

CLUSTER_SPAN = 10
"""Distance in texts beyond which a repeated word no longer belongs to the same cluster.

Higher finds wide clusters, as in long discussions, and fewer short ones.
"""
EVEN_WEIGHT = 0.3
"""Weight of an evenly spread word; clustering raises it to 1. Higher: function words count more."""
FULL_WEIGHT_CHARS = 5
"""Letters of a stem from which a word counts in full. Higher discounts more short words."""
NEIGHBOURS = (0.4, 0.2, 0.1)
"""Share of its score that a text adds to those at distance 1, 2, … on both sides."""
STRETCH_TEXTS = 12
"""Texts on both sides that count as the same stretch of the conversation."""
STRETCH_SHARE, STRETCH_BEST = 0.5, 3
"""Share of the mean of the stretch's best texts that each of its texts gets."""
REGION, REGION_SHARE = 25, 1.0
"""Texts on both sides that are scored as if they were one text, and the share each gets of that.

A wide region finds where a topic was discussed at length; its short turns count too.
"""
OTHERS_WEIGHT = 0.6
"""Weight of what others say, if the query names a speaker."""
SIZE_POWER = 0.3
"""Texts are selected by score / tokens ** SIZE_POWER. Higher favours short texts."""
PASSAGE_TOKENS = 4
"""Overhead of each passage in tokens."""
BREAK_TOKENS = 1
"""Tokens that a line break between texts may cost."""

N = TypeVar("N", int, float)


class Posting(NamedTuple):
    """Which texts contain a word of a query, by number, and how often; and the word's weight."""

    held: list[tuple[int, int]]
    weight: float


_WORD = re.compile(r"\w+")
_SPEAKER = re.compile(r"^(?:\([^)\n]{1,60}\)\s*)?([^\W\d_][\w .'-]{0,30}):\s")


def speaker_of(text: str) -> str | None:
    """The speaker, if the text begins with a name and a colon, with or without a date before."""
    match = _SPEAKER.match(text)
    return match[1] if match else None


class Recall:
    """A searchable sequence of texts, added one by one."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._speakers: list[str | None] = []
        self._stems: list[list[str]] = []
        self._lengths: list[int] = []
        self._words = 0
        self._runs: list[int] = [0]
        """Numbers of the texts that begin a run: a run is texts that were adjacent."""

    def __len__(self) -> int:
        """The number of texts."""
        return len(self._texts)

    def add(self, text: str) -> None:
        """Add the next text."""
        found = stems(text)
        self._texts.append(text)
        self._speakers.append(speaker_of(text))
        self._stems.append(found)
        self._lengths.append(len(found))
        self._words += len(found)

    def leave_gap(self) -> None:
        """Start a new run: the next text was not adjacent to the last, so they share no score."""
        if self._runs[-1] < len(self._texts):
            self._runs.append(len(self._texts))

    def scores(self, query: str) -> list[float]:
        """How well each text answers a query, including its neighbours; high is better."""
        return self._scores(query, self._postings(query))

    def _scores(self, query: str, postings: Sequence[Posting]) -> list[float]:
        spread = self._in_runs(_spread, self._bm25(postings))
        regions = self._regions(postings)
        scores = [own + REGION_SHARE * region for own, region in zip(spread, regions, strict=True)]
        return self._by_speaker(query, scores)

    def best(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Numbers and scores of the texts that contain a word of the query, best first.

        Of texts with equal scores the last comes first.
        """
        postings = self._postings(query)
        holders = {number for posting in postings for number, _ in posting.held}
        found = [
            (score / (length + PASSAGE_TOKENS) ** SIZE_POWER, number)
            for number, (score, length) in enumerate(
                zip(self._scores(query, postings), self._lengths, strict=True)
            )
            if number in holders
        ]
        return [(number, score) for score, number in heapq.nlargest(max(0, limit), found)]

    def find(
        self,
        query: str,
        limit: int,
        count: Callable[[str], int],
        skip: Container[int] = frozenset(),
    ) -> list[int]:
        """Numbers of the texts to select within a limit in tokens, in order.

        Neighbours are returned as one passage, so only the first of them costs PASSAGE_TOKENS.
        Skipped texts still add to the scores of their neighbours.
        """
        order: list[tuple[float, int]] = []
        sizes = {}
        for number, score in enumerate(self.scores(query)):
            if score > 0 and number not in skip:
                sizes[number] = count(self._texts[number]) + BREAK_TOKENS
                order.append((-score / (sizes[number] + PASSAGE_TOKENS) ** SIZE_POWER, number))
        order.sort()
        taken: set[int] = set()
        for _, number in order:
            beside = (number - 1 in taken) + (number + 1 in taken)
            cost = sizes[number] + PASSAGE_TOKENS * (1 - beside)
            if cost <= limit:
                limit -= cost
                taken.add(number)
        return sorted(taken)

    def passages(self, numbers: Sequence[int]) -> list[str]:
        """The texts with these numbers, in order; neighbours joined by a line break."""
        found: list[str] = []
        before = -2
        for number in numbers:
            if number == before + 1:
                found[-1] += f"\n{self._texts[number]}"
            else:
                found.append(self._texts[number])
            before = number
        return found

    def text(self, number: int) -> str:
        """The text with a number."""
        return self._texts[number]

    def _postings(self, query: str) -> list[Posting]:
        """Look up the words of a query. Only they matter, so no others are ever indexed."""
        asked_for: dict[str, list[tuple[int, int]]] = {word: [] for word in stems(query)}
        for number, found in enumerate(self._stems):
            held = [word for word in found if word in asked_for]
            for word in dict.fromkeys(held):
                asked_for[word].append((number, held.count(word)))
        return [
            Posting(held, _weight(word, [number for number, _ in held], len(self._texts)))
            for word, held in asked_for.items()
            if held
        ]

    def _bm25(self, postings: Sequence[Posting]) -> list[float]:
        scores = [0.0] * len(self._texts)
        mean = self._words / len(self._texts) if self._texts else 1.0
        for held, weight in postings:
            worth = weight * rarity(len(self._texts), len(held))
            for number, times in held:
                scores[number] += worth * frequency(times, half_point(self._lengths[number], mean))
        return scores

    def _regions(self, postings: Sequence[Posting]) -> list[float]:
        """BM25 of the region around each text."""
        count = len(self._texts)
        scores = [0.0] * count
        lengths = self._in_runs(_around, self._lengths)
        mean = sum(lengths) / count if count else 1.0
        for held, weight in postings:
            own = [0] * count
            for number, times in held:
                own[number] = times
            around = self._in_runs(_around, own)
            worth = weight * rarity(count, sum(1 for times in around if times))
            for number, times in enumerate(around):
                if times:
                    scores[number] += worth * frequency(times, half_point(lengths[number], mean))
        return scores

    def _in_runs(self, lend: Callable[[Sequence[N]], list[N]], values: Sequence[N]) -> list[N]:
        """Spread the values of texts within each run."""
        found: list[N] = []
        for first, last in pairwise((*self._runs, len(values))):
            found += lend(values[first:last])
        return found

    def _by_speaker(self, query: str, scores: list[float]) -> list[float]:
        words = set(_WORD.findall(query))
        named = {who for who in set(self._speakers) if who and words.issuperset(who.split())}
        if not named:
            return scores
        return [
            score if who in named else OTHERS_WEIGHT * score
            for who, score in zip(self._speakers, scores, strict=True)
        ]


def _weight(word: str, holders: Sequence[int], count: int) -> float:
    """The weight of a word, by how clustered it is among `count` texts, and by its length.

    If a word is spread evenly, its share of the texts predicts the distance to its next occurrence;
    in clusters that is shorter. A word in one text only counts as half clustered.
    Distances are by number, across gaps too.
    """
    share = len(holders) / count
    expected = (1 - (1 - share) ** CLUSTER_SPAN) / share
    strewn = sum(min(next_ - last, CLUSTER_SPAN) for last, next_ in pairwise(holders)) / expected
    clustered = max(0.0, 1 - (strewn + 0.5) / len(holders))
    is_short = word.isalpha() and len(word) < FULL_WEIGHT_CHARS
    return (EVEN_WEIGHT + clustered) * (
        math.sqrt(len(word) / FULL_WEIGHT_CHARS) if is_short else 1.0
    )


def _around(values: Sequence[int]) -> list[int]:
    """Per text, the sum of the values of all texts at most REGION places away."""
    sums = list(accumulate(values, initial=0))
    last = len(values)
    return [sums[min(last, at + REGION + 1)] - sums[max(0, at - REGION)] for at in range(last)]


def _spread(own: Sequence[float]) -> list[float]:
    """Add to each text a share of its neighbours' scores and of the best of its stretch."""
    count = len(own)
    scores = list(own)
    for number, score in enumerate(own):
        if score > 0:
            for distance, share in enumerate(NEIGHBOURS, 1):
                if number >= distance:
                    scores[number - distance] += share * score
                if number + distance < count:
                    scores[number + distance] += share * score
    for at in range(count):
        stretch = own[max(0, at - STRETCH_TEXTS) : at + STRETCH_TEXTS + 1]
        best = sorted(stretch, reverse=True)[:STRETCH_BEST]
        scores[at] += STRETCH_SHARE * sum(best) / STRETCH_BEST
    return scores
