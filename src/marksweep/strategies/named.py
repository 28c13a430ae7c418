"""Strategies by name, for those who configure rather than program.

"truncate"                               one of them
("superseded", "mask", "truncate")       tiers: each only if those before it fell short
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from marksweep.core.plan import Strategy
from marksweep.errors import UnknownName
from marksweep.messages import Outcome, Place, Text
from marksweep.model import Segment
from marksweep.strategies.budget import ByPolicy
from marksweep.strategies.coverage import Coverage
from marksweep.strategies.coverage_price import ECONOMY, QUALITY, Setting
from marksweep.strategies.garbage import Garbage
from marksweep.strategies.hybrid import Hybrid
from marksweep.strategies.mask import Mask
from marksweep.strategies.scored import Scored
from marksweep.strategies.summarize import Summarize
from marksweep.strategies.superseded import Superseded
from marksweep.strategies.tiers import Tiers
from marksweep.strategies.truncate import Truncate
from marksweep.summarizers.digesting import digesting


class Messages(Protocol):
    """How a strategy looks at messages, shortens them, and makes new ones. A heap is one."""

    def outcomes(self, segment: Segment) -> Sequence[Outcome]:
        """Give the results that a message carries."""
        ...

    def masked(self, segment: Segment, texts: Mapping[int, str]) -> Segment | None:
        """Put texts in the place of results, by their index; None if that is not shorter."""
        ...

    def texts(self, segment: Segment) -> Sequence[Text]:
        """Give the texts of a message."""
        ...

    def trimmed(self, segment: Segment, texts: Mapping[Place, str]) -> Segment | None:
        """Put shorter texts in their places; None if that is not shorter."""
        ...

    def note(self, text: str, before: Segment) -> Segment:
        """Make a note that stands right in front of a message."""
        ...


Make = Callable[[Messages], Strategy]
"""Make a strategy for messages."""


def _coverage(setting: Setting) -> Make:
    return lambda m: Coverage(m.texts, m.trimmed, setting, note=m.note)


NAMED: dict[str, Make] = {
    "budget": lambda _: ByPolicy(),
    "coverage": _coverage(ECONOMY),
    "coverage_quality": _coverage(QUALITY),
    "garbage": lambda _: Garbage(),
    "hybrid": lambda _: Hybrid(digesting()),
    "mask": lambda m: Mask(m.outcomes, m.masked),
    "scored": lambda _: Scored(),
    "summarize": lambda _: Summarize(digesting()),
    "superseded": lambda m: Superseded(m.outcomes, m.masked),
    "truncate": lambda _: Truncate(),
}

Choice = str | Strategy | Make | Sequence["str | Strategy | Make"]
"""What callers may pass for a strategy; several make tiers."""


def strategy_of(choice: Choice, messages: Messages) -> Strategy:
    """Make the strategy somebody chose; UnknownName lists the names there are."""
    if isinstance(choice, str):
        make = NAMED.get(choice)
        if make is None:
            raise UnknownName(
                f"no strategy named {choice!r}; known are {', '.join(sorted(NAMED))}. "
                "Pass a name, several names in order, or a strategy object."
            )
        return make(messages)
    if isinstance(choice, Sequence):
        return Tiers(*(strategy_of(each, messages) for each in choice))
    if callable(choice):
        return choice(messages)
    return choice
