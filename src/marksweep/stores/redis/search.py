"""Search in Redis: one hash per word, ranked in the client; nouns are fetched in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

from marksweep.model import Segment
from marksweep.search.bm25 import fts5_rarity, score
from marksweep.search.words import query_words, segment_words
from marksweep.stores.base import Hit
from marksweep.stores.codec import Codec
from marksweep.stores.redis.client import Client, Pipeline
from marksweep.stores.redis.statements import WordKeys

FETCHED_AT_ONCE = 256
"""Values fetched per round trip until enough pass the filters. Higher: fewer trips, more bytes."""

Noun = TypeVar("Noun")


def index(pipe: Pipeline, keys: WordKeys, key: bytes, segment: Segment) -> None:
    """Queue the words of a document that is not indexed yet."""
    counted = Counter(segment_words(segment).split())
    for word, times in counted.items():
        pipe.hset(keys.having(word), key, times)
    pipe.hset(keys.lengths, key, counted.total())
    pipe.incrby(keys.total, counted.total())


def unindex(pipe: Pipeline, keys: WordKeys, key: bytes, segment: Segment) -> None:
    """Queue the removal of a document from the words it was indexed under."""
    counted = Counter(segment_words(segment).split())
    for word in counted:
        pipe.hdel(keys.having(word), key)
    pipe.hdel(keys.lengths, key)
    pipe.decrby(keys.total, counted.total())


def ranked_by_words(client: Client, keys: WordKeys, words: str) -> list[tuple[bytes, float]]:
    """Rank the documents that have any of the words, best first."""
    wanted = query_words(words)
    if not wanted:
        return []

    def queue(pipe: Pipeline) -> None:
        pipe.hlen(keys.lengths)
        pipe.get(keys.total)
        for word in wanted:
            pipe.hgetall(keys.having(word))

    documents, total, *having = client.read_all(queue)
    counts = [{key: int(times) for key, times in word.items()} for word in having if word]
    candidates = list(dict.fromkeys(key for word in counts for key in word))
    if not candidates:
        return []
    with client.reading() as server:
        found = server.hmget(keys.lengths, candidates)
    lengths = {key: int(length or 1) for key, length in zip(candidates, found, strict=True)}
    mean = int(total or 0) / max(1, documents) or 1.0
    weighed = ((fts5_rarity(documents, len(holders)), holders) for holders in counts)
    scores = score(weighed, lengths, mean)
    return sorted(scores.items(), key=lambda each: -each[1])


def hits(
    client: Client, where: bytes, ranked: Sequence[tuple[bytes, float]], codec: Codec[Noun]
) -> Iterator[Hit[Noun]]:
    """Fetch the values of ranked keys of a hash, in order, skipping those deleted meanwhile."""
    for start in range(0, len(ranked), FETCHED_AT_ONCE):
        some = ranked[start : start + FETCHED_AT_ONCE]
        with client.reading() as server:
            bodies = server.hmget(where, [key for key, _ in some])
        for body, (_, worth) in zip(bodies, some, strict=True):
            if body is not None:
                yield Hit(read(client, codec, [body])[0], worth)


def read(client: Client, codec: Codec[Noun], bodies: Sequence[bytes]) -> list[Noun]:
    """Decode values; StoreCorrupt if that fails."""
    try:
        return codec.decode_all(bodies)
    except ValueError as error:
        raise client.unreadable(error) from error
