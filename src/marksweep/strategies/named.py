"""Strategies by name, for those who configure rather than program.

"truncate"                               one of them
("superseded", "mask", "truncate")       tiers: each only if those before it fell short
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from marksweep.core.plan import Strategy
from marksweep.errors import UnknownName
from marksweep.strategies.budget import ByPolicy
from marksweep.strategies.coverage import Coverage, Texts
from marksweep.strategies.coverage_price import ECONOMY, QUALITY
from marksweep.strategies.garbage import Garbage
from marksweep.strategies.hybrid import Hybrid
from marksweep.strategies.mask import Mask, Masked, Outcomes
from marksweep.strategies.scored import Scored
from marksweep.strategies.summarize import Summarize
from marksweep.strategies.superseded import Superseded
from marksweep.strategies.tiers import Tiers
from marksweep.strategies.truncate import Truncate
from marksweep.summarizers.digesting import digesting

Make = Callable[[Outcomes, Masked, Texts], Strategy]
"""Make a strategy, given how to look at results and texts, and how to shorten them."""

NAMED: dict[str, Make] = {
    "budget": lambda *_: ByPolicy(),
    "coverage": lambda _, masked, texts: Coverage(texts, masked, ECONOMY),
    "coverage_quality": lambda _, masked, texts: Coverage(texts, masked, QUALITY),
    "garbage": lambda *_: Garbage(),
    "hybrid": lambda *_: Hybrid(digesting()),
    "mask": lambda outcomes, masked, _: Mask(outcomes, masked),
    "scored": lambda *_: Scored(),
    "summarize": lambda *_: Summarize(digesting()),
    "superseded": lambda outcomes, masked, _: Superseded(outcomes, masked),
    "truncate": lambda *_: Truncate(),
}

Choice = str | Strategy | Make | Sequence["str | Strategy | Make"]
"""What callers may pass for a strategy; several make tiers."""


def strategy_of(choice: Choice, outcomes: Outcomes, masked: Masked, texts: Texts) -> Strategy:
    """Make the strategy somebody chose; UnknownName lists the names there are."""
    if isinstance(choice, str):
        make = NAMED.get(choice)
        if make is None:
            raise UnknownName(
                f"no strategy named {choice!r}; known are {', '.join(sorted(NAMED))}. "
                "Pass a name, several names in order, or a strategy object."
            )
        return make(outcomes, masked, texts)
    if isinstance(choice, Sequence):
        return Tiers(*(strategy_of(each, outcomes, masked, texts) for each in choice))
    if callable(choice):
        return choice(outcomes, masked, texts)
    return choice
