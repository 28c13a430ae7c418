"""What a token counter is."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from marksweep.errors import BadInput


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
