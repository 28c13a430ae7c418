"""The ranking of search results over code and notes, the same on every store.

Engines weigh words differently. So a store returns its best matches, and how many chunks have each
word; they are ranked here: BM25 over the whole index. A word in the name of what a chunk defines
counts for more, the best chunks of one file add a share to each other's scores, and an exact match
of a name comes first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Generic, NamedTuple, TypeVar

import msgspec

from marksweep.search.bm25 import B, frequency, rarity
from marksweep.search.words import MAX_QUERY_WORDS, stemmed, stems

CANDIDATES = 160
"""Matches that are ranked, or twice the limit if that is higher.

Larger gives the same order on every store for more common words, and takes longer.
"""

MAX_POSTINGS = 20_000
"""Total matches of the words that find candidates; rarer words come first.

Higher uses more common words and takes longer: about 2 ms for each thousand.
"""

COMMON_SHARE = 0.4
"""Share of all texts above which a word does not find candidates, unless no word is rarer.

It still counts in the score. Lower is faster and gives the same order on every store less often.
"""

CONSIDERED = 50
"""Best matches, or as many as the limit, among which names and siblings decide.

Larger needs more candidates for the same order on every store.
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

_IDENTIFIER = re.compile(r"(?:[^\W\d]\w*(?:\.|::))*[^\W\d]\w*")
_WRITTEN_AS_NAME = re.compile(r"\w_\w|[.:]|[^\W\d_A-Z][A-Z]")

Key = TypeVar("Key", bound=Hashable)


class Fields(NamedTuple):
    """The search words of a chunk, separated by spaces."""

    words: str
    """Of its text."""
    named: str
    """Of the symbol that it defines, and of its tags."""
    placed: str
    """Of its path."""

    @property
    def sizes(self) -> tuple[int, int]:
        """How many words there are, and how often the most common one occurs."""
        times = Counter(" ".join(self).split())
        return times.total(), max(times.values(), default=1)


def fields(text: str, symbol: str, place: str, mark: str = "", words: str = "") -> Fields:
    """Write the search words of a chunk; `mark` is a prefix of each word.

    `words` are those of the text, if they are known.
    """
    parts = (words or stemmed(text), stemmed(symbol), stemmed(place))
    return Fields(*(marked(part, mark) for part in parts))


def marked(words: str, mark: str) -> str:
    """Prefix each word with a mark."""
    return mark + words.replace(" ", f" {mark}") if words else ""


class Asked(NamedTuple):
    """A tokenized query."""

    words: tuple[str, ...]
    names: tuple[str, ...]
    """Identifiers: words written as one, or the only word of the query."""

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

    @property
    def name_words(self) -> tuple[str, ...]:
        """The search word of each name's whole last part."""
        return tuple(word for name in self.names for word in stems(name.rpartition(".")[2])[:1])


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


def candidates(limit: int) -> int:
    """Return how many matches to rank for so many hits."""
    return max(CANDIDATES, 2 * limit)


def finding(holders: Sequence[tuple[str, int]], texts: int) -> list[str]:
    """Choose the words that find candidates: the rarest, while their matches are few enough."""
    common = max(CANDIDATES, COMMON_SHARE * texts)
    chosen: list[str] = []
    postings = 0
    for word, count in sorted(holders, key=lambda each: each[1]):
        postings += count
        if chosen and (postings > MAX_POSTINGS or count > common):
            break
        chosen.append(word)
    return chosen


class Posting(NamedTuple):
    """The chunks that have a word, as columns: keys, lengths, how often each has the word."""

    weight: float
    keys: Sequence[int]
    lengths: Sequence[int]
    times: Sequence[int]
    once: int
    """The value in `times` of a chunk that has the word once."""
    named: Collection[int]
    """Keys of chunks that have the word in their name."""


def estimates(postings: Iterable[Posting]) -> dict[int, float]:
    """Score chunks without reading them: as `_score` does when nothing else is known."""
    scores: defaultdict[int, float] = defaultdict(float)
    for weight, keys, lengths, times, once, named in postings:
        least, by_length = once * K1 * (1 - B), once * K1 * B / MEAN_WORDS
        most, extra = weight * (K1 + 1), once * (NAME_WEIGHT - 1)
        for key, length, often in zip(keys, lengths, times, strict=True):
            found = often + extra if key in named else often
            scores[key] += most * found / (found + least + by_length * length)
    return scores


def likely(scores: Mapping[int, float], most: int) -> list[int]:
    """Return the keys of so many highest scores, best first, with all ties."""
    if len(scores) > most:
        least = nlargest(most, scores.values())[-1]
        scores = {key: score for key, score in scores.items() if score >= least}
    return sorted(scores, key=lambda key: (-scores[key], key))


def ranked(
    matches: Iterable[Match[Key]],
    asked: Asked,
    holders: Sequence[tuple[str, int]],
    texts: int,
    limit: int,
) -> dict[Key, float]:
    """Return the scores of the best, best first; of equal chunks in several roots, one.

    `holders` says, for each word as the fields write it, how many of so many texts have it.
    """
    weights = {word: rarity(max(texts, count), count) for word, count in holders}
    scores: dict[Key, float] = {}
    first: dict[tuple[str, str, str, str], Match[Key]] = {}
    for match in sorted(matches, key=lambda match: (match.memory_id, match.position)):
        if match.key in scores:
            continue
        scores[match.key] = _score(match, weights)
        where = (match.path, "") if match.path else (match.memory_id, str(match.position))
        first.setdefault((*where, match.symbol, match.words), match)
    exact = {match.key: _exactness(match.symbol, asked.names) for match in first.values()}
    found = sorted(
        first.values(),
        key=lambda m: (-exact[m.key], -scores[m.key], m.memory_id, m.position),
    )[: max(CONSIDERED, limit)]
    total = _with_siblings(found, scores)
    best = max(total.values(), default=0.0)
    for match in found:
        total[match.key] += best * exact[match.key]
    order = sorted(found, key=lambda m: (-total[m.key], m.memory_id, m.position))
    return {match.key: total[match.key] for match in order[:limit]}


def _score(match: Match[Key], weights: Mapping[str, float]) -> float:
    words, named = f"{match.words} {match.placed}".split(), match.named.split()
    length = len(words) + len(named)
    times: dict[str, int] = {}
    for field, each in ((words, 1), (named, NAME_WEIGHT)):
        for word in filter(weights.__contains__, field):
            times[word] = times.get(word, 0) + each
    return sum(
        weight * frequency(times[word], length, MEAN_WORDS, K1)
        for word, weight in weights.items()
        if word in times
    )


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


def _exactness(symbol: str, names: Sequence[str]) -> int:
    """Return how exactly a symbol matches a name: 2 exactly, 1 ignoring case, 0 not."""
    if not symbol or not names:
        return 0
    if any(symbol == name or symbol.endswith(f".{name}") for name in names):
        return 2
    folded = symbol.casefold()
    lower = [name.casefold() for name in names]
    return int(any(folded == name or folded.endswith(f".{name}") for name in lower))
