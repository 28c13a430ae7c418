"""Strategies by name, for those who configure rather than program.

"truncate"                               one of them
("superseded", "mask", "truncate")       tiers: each only if those before it fell short
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from marksweep.core.plan import Strategy
from marksweep.errors import UnknownName
from marksweep.strategies.garbage import Garbage
from marksweep.strategies.mask import Mask, Masked, Outcomes
from marksweep.strategies.scored import Scored
from marksweep.strategies.superseded import Superseded
from marksweep.strategies.tiers import Tiers
from marksweep.strategies.truncate import Truncate

Make = Callable[[Outcomes, Masked], Strategy]
"""Make a strategy, given how to look at results and how to shorten them."""

NAMED: dict[str, Make] = {
    "garbage": lambda *_: Garbage(),
    "mask": Mask,
    "scored": lambda *_: Scored(),
    "superseded": Superseded,
    "truncate": lambda *_: Truncate(),
}

Choice = str | Strategy | Make | Sequence["str | Strategy | Make"]
"""What callers may pass for a strategy; several make tiers."""


def strategy_of(choice: Choice, outcomes: Outcomes, masked: Masked) -> Strategy:
    """Make the strategy somebody chose; UnknownName lists the names there are."""
    if isinstance(choice, str):
        make = NAMED.get(choice)
        if make is None:
            raise UnknownName(
                f"no strategy named {choice!r}; known are {', '.join(sorted(NAMED))}. "
                "Pass a name, several names in order, or a strategy object."
            )
        return make(outcomes, masked)
    if isinstance(choice, Sequence):
        return Tiers(*(strategy_of(each, outcomes, masked) for each in choice))
    if callable(choice):
        return choice(outcomes, masked)
    return choice
