"""Fingerprint: one number for the content of a heap, kept up to date by adding and subtracting.

Each segment has a digest; the fingerprint is their sum. So a heap of a million segments knows its
fingerprint after every change without reading itself again. It guards against accidents, not
against someone who forges segments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from marksweep.model import Segment
from marksweep.tokens.counter import detached_copy

_MODULUS = 1 << 128
_encode = msgspec.msgpack.Encoder().encode


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
