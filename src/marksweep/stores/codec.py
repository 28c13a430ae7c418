"""Encode nouns as JSON bytes and decode them, for every store that keeps bytes.

Text that is not valid Unicode (a lone surrogate, as `os.fsdecode` returns for odd file names) is
escaped by `json`, so that it is read back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

import msgspec

from marksweep.model import Entry, Segment, Stashed

Noun = TypeVar("Noun")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Codec(Generic[Noun]):
    """JSON encoder and decoder for one kind of noun."""

    def __init__(self, kind: type[Noun]) -> None:
        self._kind = kind
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(kind).decode
        self._decode_list = msgspec.json.Decoder(list[kind]).decode  # type: ignore[valid-type]

    def encode(self, noun: Noun) -> bytes:
        """Encode a noun as JSON."""
        try:
            return self._encode(noun)
        except UnicodeEncodeError:
            return json.dumps(msgspec.to_builtins(noun), separators=(",", ":")).encode()

    def decode(self, body: bytes) -> Noun:
        """Decode a noun; ValueError if it is invalid."""
        try:
            return self._decode(body)
        except (msgspec.DecodeError, RecursionError):
            return msgspec.convert(parse_json(body), self._kind)

    def decode_all(self, bodies: Sequence[bytes]) -> list[Noun]:
        """Decode many nouns at once, which is faster than one by one."""
        try:
            return self._decode_list(b"[" + b",".join(bodies) + b"]")
        except (msgspec.DecodeError, RecursionError):
            return [self.decode(body) for body in bodies]


def parse_json(text: bytes) -> object:
    """Parse JSON of any origin; ValueError if it is invalid."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


SEGMENT = Codec(Segment)
STASHED = Codec(Stashed)
ENTRY = Codec(Entry)


def microseconds(at: datetime) -> int:
    """Return the exact microseconds since 1970; a naive time is read as UTC."""
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND
