"""The ranking of search results over code and notes, the same on every store.

Engines weigh words differently. So a store only says which chunks have which words, how often, and
they are ranked here: BM25 over the whole index. A word in the name of what a chunk defines counts
for more, the best chunks of one file add a share to each other's scores, and an exact match of a
name comes first.

1. `counting` and `finding` choose words by how many chunks have them.
2. `scores` weighs the chunks that have these words, without reading them.
3. `best_matches` reads the best of them that the query's filters allow.
4. `ranked` puts those in order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, takewhile
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

import msgspec

from marksweep.search import bm25
from marksweep.search.bm25 import rarity
from marksweep.search.words import MAX_QUERY_WORDS, stemmed, stems

MAX_POSTINGS = 20_000
"""Total matches of the words that find candidates; rarer words come first.

Higher uses more common words and takes longer: about 2 ms for each thousand.
"""

COMMON_SHARE = 0.4
"""Share of all texts above which a word is ignored, unless rarer words find too little.

Lower is faster, and ignores more words that distinguish little.
"""

CONSIDERED = 50
"""Best matches that are read, or as many as the limit; among them names and siblings decide.

Larger gives the same order on every store more often, and takes longer.
"""

NAME_WEIGHT = 6
"""Weight of a word in a chunk's symbol or tags, compared with one in its text."""

K1 = 2.0
"""How much repetition counts. Code repeats its topic, so this is higher than for conversations."""

MEAN_WORDS = 60
"""Words of a typical chunk. A constant, so that a chunk's score does not depend on other chunks.

Higher penalizes long chunks less.
"""

SIBLINGS, SIBLING_SHARE = 3, 0.15
"""How many of a file's other best chunks add a share of their scores to a chunk, and how much.

Higher prefers files that are about the query as a whole.
"""

SCORE_STEPS = 1e9
"""Steps of a score from 0 to 1. Engines round differently, so scores that differ by less are equal.
"""

_IDENTIFIER = re.compile(r"(?:[^\W\d]\w*(?:\.|::))*[^\W\d]\w*")
_WRITTEN_AS_NAME = re.compile(r"\w_\w|[.:]|[^\W\d_A-Z][A-Z]")

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class Fields(NamedTuple):
    """The search words of a chunk, separated by spaces."""

    words: str
    """Of its text."""
    named: str
    """Of the symbol that it defines, and of its tags."""
    placed: str
    """Of its path."""

    @property
    def length(self) -> int:
        """How many words there are."""
        return sum(field.count(" ") + 1 for field in self if field)


_stemmed_path = lru_cache(maxsize=1)(stemmed)
"""The chunks of one file follow each other."""


def fields(text: str, symbol: str, place: str, mark: str = "", words: str = "") -> Fields:
    """Write the search words of a chunk; `mark` is a prefix of each word.

    `words` are those of the text, if they are known.
    """
    parts = (words or stemmed(text), stemmed(symbol), _stemmed_path(place))
    return Fields(*(marked(part, mark) for part in parts))


def marked(words: str, mark: str) -> str:
    """Prefix each word with a mark."""
    return mark + words.replace(" ", f" {mark}") if words else ""


class Asked(NamedTuple):
    """A tokenized query."""

    words: tuple[str, ...]
    names: tuple[str, ...]
    """Identifiers: words written as one, or the only word of the query."""

    @property
    def last_parts(self) -> tuple[str, ...]:
        """The last part of each name."""
        return tuple(name.rpartition(".")[2] for name in self.names)

    @classmethod
    def of(cls, query: str) -> Asked:
        """Split a query."""
        found = _IDENTIFIER.findall(query)
        alone = query.strip().removesuffix("()")
        names = [
            each.replace("::", ".")
            for each in found
            if (each == alone or _WRITTEN_AS_NAME.search(each)) and stems(each)
        ]
        words = tuple(dict.fromkeys(stems(query)))[:MAX_QUERY_WORDS]
        return cls(words, tuple(dict.fromkeys(names)))


class Match(msgspec.Struct, Generic[Key], frozen=True, gc=False):
    """A matching chunk: the fields that ranking needs."""

    key: Key
    memory_id: str
    position: int
    path: str
    symbol: str
    words: str
    named: str
    placed: str


Holders = tuple[tuple[str, int], ...]
"""Words and how many texts have each, rarest first."""


def considered(limit: int) -> int:
    """Return how many of the best matches to read for so many hits."""
    return max(CONSIDERED, limit)


def held(counts: Iterable[tuple[str, int]]) -> Holders:
    """Sort words, rarest first, without those that no text has."""
    return tuple(sorted(filter(itemgetter(1), counts), key=itemgetter(1)))


def counting(holders: Holders, texts: int) -> Holders:
    """Choose the words that count: not those that a large share of texts has."""
    common = max(CONSIDERED, COMMON_SHARE * texts)
    return tuple(each for each in holders if each[1] <= common) or holders[:1]


def finding(counted: Holders) -> Holders:
    """Choose the words that find candidates: the rarest, while their matches are few enough."""
    totals = accumulate(count for _, count in counted)
    few = sum(total <= MAX_POSTINGS for total in totals)
    return counted[: max(1, few)]


def weighed(counted: Holders, texts: int) -> dict[str, float]:
    """Weigh words by how few of so many texts have them."""
    return {word: rarity(max(texts, count), count) for word, count in counted}


def scores(
    postings: Iterable[tuple[float, Mapping[int, float]]], lengths: Mapping[int, int]
) -> dict[int, float]:
    """Score chunks by words: each word's weight, and how often each chunk has it.

    An occurrence in a name counts NAME_WEIGHT times.
    """
    return bm25.score(postings, lengths, MEAN_WORDS, K1)


def likely(scores: Mapping[int, float], most: int) -> list[int]:
    """Return the keys of so many highest scores, best first, with all ties."""
    order = sorted(sorted(scores), key=scores.__getitem__, reverse=True)
    least = scores[order[most - 1]] if len(order) > most else 0.0
    return [*order[:most], *takewhile(lambda key: scores[key] == least, order[most:])]


def best_matches(
    scores: Mapping[int, float],
    called: Sequence[int],
    limit: int,
    read: Callable[[Sequence[int]], Sequence[Found]],
) -> list[Found]:
    """Read the chunks of the highest scores, and those called by a name of the query.

    Read more if filters and hidden rows leave fewer than the limit.
    """
    found: list[Found] = []
    seen: set[int] = set()
    window = considered(limit)
    called = sorted(called, key=lambda key: (-scores.get(key, 0.0), key))
    while len(found) < limit:
        best = dict.fromkeys((*called[:window], *likely(scores, window)))
        some = [key for key in best if key not in seen]
        if not some:
            break
        found += read(some)
        seen.update(some)
        window *= 10
    return found


def ranked(
    scored: Iterable[tuple[Match[Key], float]], asked: Asked, limit: int
) -> dict[Key, float]:
    """Return the scores of the best, best first; of equal chunks in several roots, one."""
    scores: dict[Key, float] = {}
    first: dict[tuple[str, str, str, str], Match[Key]] = {}
    for match, score in sorted(scored, key=lambda each: (each[0].memory_id, each[0].position)):
        if match.key in scores:
            continue
        scores[match.key] = round(score * SCORE_STEPS) / SCORE_STEPS
        where = (match.path, "") if match.path else (match.memory_id, str(match.position))
        first.setdefault((*where, match.symbol, match.words), match)
    exact = _exactness(first.values(), asked.names)
    found = list(first.values())
    if len(found) > considered(limit):
        best = sorted(found, key=lambda m: (-exact.get(m.key, 0), -scores[m.key]))
        chosen = {match.key for match in best[: considered(limit)]}
        found = [match for match in found if match.key in chosen]
    total = _with_siblings(found, scores)
    highest = max(total.values(), default=0.0)
    for key in total.keys() & exact.keys():
        total[key] += highest * exact[key]
    order = sorted(total, key=total.__getitem__, reverse=True)
    return {key: total[key] for key in order[:limit]}


def score(match: Match[Key], weights: Mapping[str, float]) -> float:
    """Score a chunk that was read, as `scores` does without reading it."""
    if not weights:
        return 0.0
    words, named = f"{match.words} {match.placed}".split(), match.named.split()
    half = bm25.half_point(len(words) + len(named), MEAN_WORDS, K1)
    times: dict[str, int] = {}
    for field, each in ((words, 1), (named, NAME_WEIGHT)):
        for word in filter(weights.__contains__, field):
            times[word] = times.get(word, 0) + each
    total = 0.0
    for word, weight in weights.items():
        if word in times:
            total += weight * bm25.frequency(times[word], half, K1)
    return total


def _with_siblings(matches: Sequence[Match[Key]], scores: dict[Key, float]) -> dict[Key, float]:
    """Add to each chunk a share of the best other chunks of its memory."""
    by_memory: defaultdict[str, list[float]] = defaultdict(list)
    for match in matches:
        by_memory[match.memory_id].append(scores[match.key])
    best = {
        memory: sorted(each, reverse=True)[: SIBLINGS + 1] for memory, each in by_memory.items()
    }
    total = {}
    for match in matches:
        own, near = scores[match.key], best[match.memory_id]
        others = sum(near) - own if own in near else sum(near[:SIBLINGS])
        total[match.key] = own + SIBLING_SHARE * others
    return total


def _exactness(matches: Iterable[Match[Key]], names: Sequence[str]) -> dict[Key, int]:
    """Return how exactly the symbols that match a name do: 2 exactly, 1 ignoring case."""
    endings = tuple(f".{name}" for name in names)
    folded = tuple(ending.casefold() for ending in endings)
    symbols = ((match.key, f".{match.symbol}") for match in matches) if names else ()
    return {
        key: 2 if symbol.endswith(endings) else 1
        for key, symbol in symbols
        if symbol.casefold().endswith(folded)
    }
