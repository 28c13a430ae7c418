"""Cost: what a sweep does to the prompt cache, and when it pays.

A provider caches the longest prefix that did not change. Everything behind the first change is read
uncached once; in return, what was swept is not read again on any later turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from marksweep.model import Cost


class Prices(msgspec.Struct, frozen=True):
    """Price of a token, relative to plain input."""

    input: float = 1.0
    cached: float = 0.1
    write: float = 1.25
    """Input that is written to the cache while it is read."""


def price(sizes: Sequence[int], changed: Sequence[int], freed: int, prices: Prices) -> Cost:
    """Price a sweep that changes the segments at these indices and frees so many tokens.

    `sizes` are the tokens of the segments in order, before the sweep.
    """
    if not changed:
        return Cost(None)
    edits_from = min(changed)
    reread = max(0, sum(sizes[edits_from:]) - freed)
    saved_per_turn = freed * prices.cached
    if saved_per_turn <= 0:
        return Cost(edits_from, reread)
    extra = reread * (prices.write - prices.cached)
    return Cost(edits_from, reread, extra / saved_per_turn)
