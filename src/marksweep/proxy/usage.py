"""Reads the token usage that an answer reports, while the answer streams through."""

from __future__ import annotations

import re

import msgspec

MAX_HELD_BYTES = 65_536
"""Bytes at the start and at the end of an answer that are searched for its usage.

Anthropic reports at the start, the others at the end. Higher finds it in longer answers that
arrive in one piece.
"""

_CACHED = re.compile(
    rb'"(?:cache_read_input_tokens|cached_tokens|cachedContentTokenCount)":\s*(\d{1,12})'
)
_WRITTEN = re.compile(rb'"cache_creation_input_tokens":\s*(\d{1,12})')
_FRESH = re.compile(rb'"input_tokens":\s*(\d{1,12})')
_WHOLE = re.compile(rb'"(?:prompt_tokens|promptTokenCount)":\s*(\d{1,12})')


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one request, as counted by its provider."""

    input_tokens: int
    """All input tokens, cached or not."""
    cached_tokens: int | None
    """Those from the provider's cache; None: not reported, which says nothing about the cache."""


class UsageReader:
    """Reads a streaming answer; keeps its start and its end."""

    def __init__(self, dialect: str) -> None:
        """Read an answer in a dialect; empty: not a model's."""
        self._dialect = dialect
        self._start = b""
        self._end = b""

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes."""
        room = MAX_HELD_BYTES - len(self._start)
        if room > 0:
            self._start += chunk[:room]
            chunk = chunk[room:]
        self._end = (self._end + chunk)[-MAX_HELD_BYTES:]

    def take(self) -> Usage | None:
        """Return the usage, and forget it."""
        found = self.usage()
        self._start = self._end = b""
        return found

    def usage(self) -> Usage | None:
        """Return the usage; None if the answer reports none, or is not a model's."""
        if not self._dialect:
            return None
        data = self._start + self._end
        if self._dialect == "anthropic":
            return _first_report(data)
        cached = _CACHED.findall(data)
        counts = (_FRESH if self._dialect == "openai_responses" else _WHOLE).findall(data)
        if not counts or not int(counts[-1]):
            return None
        return Usage(int(counts[-1]), int(cached[-1]) if cached else None)


def _first_report(data: bytes) -> Usage | None:
    """Return what Anthropic reports: at the start of an answer, and at its end as a sum.

    Servers that imitate it begin with zeros, as long as they know nothing.
    """
    before, *reports = data.split(b'"usage"')
    for report in reports or [before]:
        fresh, cached, written = (
            int(found[1]) if (found := pattern.search(report)) else None
            for pattern in (_FRESH, _CACHED, _WRITTEN)
        )
        if fresh is not None and (whole := fresh + (cached or 0) + (written or 0)):
            return Usage(whole, cached)
    return None
