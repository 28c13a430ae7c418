"""Fingerprint: one value for the state of a heap, by which a plan knows the heap it was made from.

ContentFingerprint   equal for equal content, in every process: for a heap that a store keeps
ChangeCount          how often it changed: for a heap that nobody else sees, held for one run

Of content, each segment has a digest and the fingerprint is their sum. So a heap of a million
segments knows its fingerprint after every change without reading itself again. It guards against
accidents, not against someone who forges segments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Protocol

import msgspec

from marksweep.model import Segment
from marksweep.tokens.counter import detached_copy

_MODULUS = 1 << 128
_encode = msgspec.msgpack.Encoder().encode


class Fingerprint(Protocol):
    """Kept up to date with the segments of one heap."""

    def put(self, segment: Segment) -> None:
        """Note that a segment came in, or took the place of the one with its id."""
        ...

    def drop(self, segments: Iterable[Segment]) -> None:
        """Note that segments went."""
        ...

    def clear(self) -> None:
        """Note that all went."""
        ...

    def __str__(self) -> str:
        """Write it as plans carry it."""
        ...


class ContentFingerprint:
    """The sum of the digests of all segments."""

    def __init__(self) -> None:
        self._sum = 0
        self._digests: dict[str, int] = {}
        """By id, so that a segment that goes is not digested again."""

    def put(self, segment: Segment) -> None:
        """Add the digest of a segment, for that of the one with its id."""
        made = digest(segment)
        self._sum += made - self._digests.get(segment.segment_id, 0)
        self._digests[segment.segment_id] = made

    def drop(self, segments: Iterable[Segment]) -> None:
        """Subtract the digests of segments."""
        self._sum -= sum(self._digests.pop(segment.segment_id) for segment in segments)

    def clear(self) -> None:
        """Start from nothing."""
        self._sum = 0
        self._digests.clear()

    def __str__(self) -> str:
        """Write the sum."""
        return as_text(self._sum)


class ChangeCount:
    """The number of changes so far."""

    def __init__(self) -> None:
        self._count = 0

    def put(self, segment: Segment) -> None:  # noqa: ARG002
        """Count a change."""
        self._count += 1

    def drop(self, segments: Iterable[Segment]) -> None:  # noqa: ARG002
        """Count a change."""
        self._count += 1

    def clear(self) -> None:
        """Count a change."""
        self._count += 1

    def __str__(self) -> str:
        """Write the number."""
        return f"v{self._count}"


def digest(segment: Segment) -> int:
    """Digest all that a segment holds, but for its reference count: that is derived."""
    if segment.refcount or not segment.text.isascii():
        segment = msgspec.structs.replace(segment, refcount=0, text=detached_copy(segment.text))
    return int.from_bytes(blake2b(packed(segment), digest_size=16).digest())


def packed(noun: object) -> bytes:
    """Pack all that nouns hold, also half characters and numbers beyond 64 bits."""
    try:
        return _encode(noun)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(msgspec.to_builtins(noun)).encode()


def fingerprint_of(segments: Iterable[Segment]) -> str:
    """Fingerprint segments from scratch."""
    return as_text(sum(digest(segment) for segment in segments))


def as_text(total: int) -> str:
    """Write a sum of digests as plans carry it."""
    return f"{total % _MODULUS:032x}"
