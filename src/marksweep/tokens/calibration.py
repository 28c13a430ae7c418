"""From our figures to a provider's: a ratio learned from the usage it reports."""

from __future__ import annotations

import msgspec

WINDOW = 15
"""Reports that are remembered. Higher is steadier; lower follows a change of model sooner."""

FEWEST_TOKENS = 100
"""Requests below this teach nothing: what a provider adds to each one outweighs them."""

LARGEST_RATIO = 4.0
"""Factor beyond which a report is not about the same text, such as one without cached tokens.

Higher believes more; no tokeniser in use is that far from o200k.
"""


class Calibration(msgspec.Struct, frozen=True):
    """What a provider's token is in ours. The median of recent reports, so a few wild ones pass."""

    ratios: tuple[float, ...] = ()
    """Reported over counted, oldest first."""

    @property
    def ratio(self) -> float:
        """Provider's tokens per token of ours; 1 until there is a report."""
        ordered = sorted(self.ratios)
        middle = len(ordered) // 2
        if len(ordered) % 2:
            return ordered[middle]
        return (ordered[middle - 1] + ordered[middle]) / 2 if ordered else 1.0

    def observe(self, estimated: int, reported: int) -> Calibration:
        """Take in what we counted and what the provider reported for one request."""
        if estimated < FEWEST_TOKENS or reported <= 0:
            return self
        ratio = reported / estimated
        if not 1 / LARGEST_RATIO <= ratio <= LARGEST_RATIO:
            return self
        return Calibration((*self.ratios, ratio)[-WINDOW:])

    def apply(self, tokens: int) -> int:
        """Turn a count of ours into what the provider will report."""
        return round(tokens * self.ratio)
