"""Strategies by name, for those who configure rather than program.

"truncate"                               one of them
("superseded", "mask", "truncate")       tiers: each only if those before it fell short
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from marksweep.core.strategy import Strategy
from marksweep.errors import BadInput, UnknownName
from marksweep.strategies.budget import ByPolicy
from marksweep.strategies.coverage import Coverage, Note
from marksweep.strategies.coverage_held import Texts
from marksweep.strategies.coverage_price import ECONOMY, QUALITY, Setting
from marksweep.strategies.dead import Dead
from marksweep.strategies.garbage import Garbage
from marksweep.strategies.hybrid import Hybrid
from marksweep.strategies.mask import Mask, Outcomes, Trimmed
from marksweep.strategies.scored import Scored
from marksweep.strategies.summarize import Digest, Summarize
from marksweep.strategies.superseded import Superseded
from marksweep.strategies.tiers import Tiers
from marksweep.strategies.truncate import Truncate
from marksweep.strategies.unreachable import Unreachable


class Means(msgspec.Struct, frozen=True):
    """What a heap of messages lends a strategy: how to look at messages, shorten and make them."""

    outcomes: Outcomes
    digest: Digest
    texts: Texts
    trimmed: Trimmed
    note: Note | None = None
    """Where there is none, nothing comes back by itself."""


Make = Callable[[Means], Strategy]


def _coverage(setting: Setting) -> Make:
    return lambda means: Coverage(means.texts, means.trimmed, setting, note=means.note)


def _superseded(means: Means) -> Superseded:
    return Superseded(means.outcomes, means.trimmed)


def _unreachable(means: Means) -> Unreachable:
    return Unreachable(means.outcomes, means.texts, means.trimmed)


NAMED: dict[str, Make] = {
    "budget": lambda _: ByPolicy(),
    "coverage": _coverage(ECONOMY),
    "coverage_quality": _coverage(QUALITY),
    "dead": lambda means: Dead(_superseded(means), _unreachable(means)),
    "garbage": lambda _: Garbage(),
    "hybrid": lambda means: Hybrid(means.digest),
    "mask": lambda means: Mask(means.outcomes, means.trimmed),
    "scored": lambda _: Scored(),
    "summarize": lambda means: Summarize(means.digest),
    "superseded": _superseded,
    "truncate": lambda _: Truncate(),
    "unreachable": _unreachable,
}

Choice = str | Strategy | Make | Sequence["str | Strategy | Make"]
"""What callers may pass for a strategy; several make tiers."""


def strategy_of(choice: Choice, means: Means) -> Strategy:
    """Make the strategy somebody chose; UnknownName lists the names there are."""
    if isinstance(choice, str):
        make = NAMED.get(choice)
        if make is None:
            raise UnknownName(
                f"no strategy named {choice!r}; known are {', '.join(sorted(NAMED))}. "
                "Pass a name, several names in order, or a strategy object."
            )
        return make(means)
    if isinstance(choice, Sequence) and choice:
        return Tiers(*(strategy_of(each, means) for each in choice))
    made = choice(means) if callable(choice) else choice
    if isinstance(made, Sequence) or not hasattr(made, "rank"):
        raise BadInput(
            f"{choice!r} is no strategy; expected one of {', '.join(sorted(NAMED))}, several names "
            "in order, or an object with `name` and `rank`."
        )
    return made
