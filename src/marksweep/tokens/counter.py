"""What a token counter is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class TokenCounter(msgspec.Struct, frozen=True):
    """A way of counting tokens: its name, and whether its figures are exact."""

    name: str
    exact: bool
    count: Callable[[str], int]

    def label(self, tokens: int) -> str:
        """Write a figure for people to read; an estimate is marked as one."""
        return f"{tokens:,}" if self.exact else f"≈{tokens:,}"
