"""What a token counter is, and one that remembers its counts by content, in bounded memory."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from threading import Lock

import msgspec

from marksweep.errors import BadInput

CACHE_BYTES = 4 * 1024 * 1024
"""Memory for remembered counts. Higher remembers more texts: about 6,500 per megabyte."""

WORTH_CACHING = 512
"""Characters from which a count is remembered. Below, counting is as quick as looking up."""

_ENTRY_BYTES = 160
"""What one count takes: a digest, a number, and their place in the table."""


class TokenCounter(msgspec.Struct, frozen=True):
    """A way of counting tokens: its name, and whether its figures are exact."""

    name: str
    exact: bool
    count: Callable[[str], int]

    def label(self, tokens: int) -> str:
        """Write a figure for people to read; an estimate is marked as one."""
        return f"{tokens:,}" if self.exact else f"≈{tokens:,}"


def in_whole(counter: Callable[..., float]) -> Callable[..., int]:
    """Let a counter of somebody's own give whole tokens: a fraction is rounded up."""

    def count(*given: object) -> int:
        figure = counter(*given)
        if type(figure) is int and figure >= 0:
            return figure
        if isinstance(figure, int | float) and 0 <= figure < math.inf:
            return math.ceil(figure)
        raise BadInput(
            f"the token counter gave {figure!r}; expected a number of tokens, 0 or more."
        )

    return count


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


def detached_copy(text: str) -> str:
    """Give a text that is equal, and another object if it is beyond ASCII.

    Python keeps the UTF-8 form of such a text beside it, once C code has asked for it, for as long
    as the text lives: half as much memory again. This one's goes with it.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
