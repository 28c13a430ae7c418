"""Counts remembered by content, in bounded memory, without keeping any text alive."""

from __future__ import annotations

import hashlib
from threading import Lock

from marksweep.tokens.counter import TokenCounter

CACHE_BYTES = 4 * 1024 * 1024
"""Memory for remembered counts. Higher remembers more texts: about 6,500 per megabyte."""

WORTH_CACHING = 512
"""Characters from which a count is remembered. Below, counting is as quick as looking up."""

_ENTRY_BYTES = 160
"""What one count takes: a digest, a number, and their place in the table."""


def cached(counter: TokenCounter, max_bytes: int = CACHE_BYTES) -> TokenCounter:
    """Remember the counts of a counter, least recently used first to go."""
    remembered = _Counts(counter, max_bytes // _ENTRY_BYTES)
    return TokenCounter(counter.name, counter.exact, remembered.count)


class _Counts:
    """Counts by digest of the text, in order of use. Safe to share between threads."""

    def __init__(self, counter: TokenCounter, capacity: int) -> None:
        self._compute = counter.count
        self._capacity = capacity
        self._counts: dict[bytes, int] = {}
        self._lock = Lock()

    def count(self, text: str) -> int:
        """Look the count up, or take it."""
        if len(text) < WORTH_CACHING:
            return self._compute(text)
        content = text.encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(content, digest_size=16).digest()
        with self._lock:
            known = self._counts.pop(key, None)
            if known is not None:
                self._counts[key] = known
                return known
        tokens = self._compute(text)
        with self._lock:
            self._counts[key] = tokens
            while len(self._counts) > self._capacity:
                del self._counts[next(iter(self._counts))]
        return tokens
