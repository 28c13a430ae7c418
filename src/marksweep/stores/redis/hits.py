"""Ranked keys to nouns, a few at a time: who asks for the first is not given all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from marksweep.stores.base import Hit
from marksweep.stores.codec import Codec
from marksweep.stores.redis.client import Client

FETCHED_AT_ONCE = 256
"""Values fetched per round trip until enough pass the filters. Higher: fewer trips, more bytes."""

Noun = TypeVar("Noun")


def hits(
    client: Client, where: bytes, ranked: Sequence[tuple[bytes, float]], codec: Codec[Noun]
) -> Iterator[Hit[Noun]]:
    """Fetch what is behind ranked keys of a hash, in order. What went meanwhile is left out."""
    for start in range(0, len(ranked), FETCHED_AT_ONCE):
        some = ranked[start : start + FETCHED_AT_ONCE]
        with client.reading() as server:
            bodies = server.hmget(where, [key for key, _ in some])
        for body, (_, score) in zip(bodies, some, strict=True):
            if body is not None:
                yield Hit(read(client, codec, [body])[0], score)


def read(client: Client, codec: Codec[Noun], bodies: Sequence[bytes]) -> list[Noun]:
    """Decode values, or say that they cannot be read."""
    try:
        return codec.decode_all(bodies)
    except ValueError as error:
        raise client.unreadable(error) from error
