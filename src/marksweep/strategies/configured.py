"""Strategies as settings and command lines say them: names joined by +, and options.

with_options("superseded+mask+truncate", {"spare": 5})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from marksweep.core.strategy import Strategy
from marksweep.errors import BadInput, UnknownName
from marksweep.strategies.hybrid import Hybrid
from marksweep.strategies.mask import Mask
from marksweep.strategies.named import NAMED, Choice, Make

TIER = "+"
"""What stands between the names of strategies that are tried in turn."""

OPTIONS: Mapping[str, tuple[str, ...]] = {"hybrid": ("middle",), "mask": ("bulky", "spare")}
"""The options of each strategy that has any; all are whole numbers, 0 or more."""

_MADE: Mapping[str, Callable[..., Strategy]] = {
    "hybrid": lambda means, **options: Hybrid(means.digest, **options),
    "mask": lambda means, **options: Mask(means.outcomes, means.trimmed, **options),
}


def tiers_of(names: str) -> tuple[str, ...]:
    """The strategies that a text names, in turn; UnknownName lists what there is."""
    tiers = tuple(name.strip() for name in names.split(TIER))
    for name in tiers:
        if name not in NAMED:
            raise UnknownName(
                f"no strategy named {name!r}; known are {', '.join(sorted(NAMED))}, and several "
                "of them joined by +."
            )
    return tiers


def with_options(names: str, options: Mapping[str, int]) -> Choice:
    """The strategies of a text with options; each option goes to the tiers that know it."""
    tiers = tiers_of(names)
    known = sorted({option for name in tiers for option in OPTIONS.get(name, ())})
    for option, value in options.items():
        if option not in known:
            raise UnknownName(
                f"{names} has no option {option!r}; known are {', '.join(known) or 'none'}."
            )
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise BadInput(f"{option} of {names} is {value!r}; expected a whole number, 0 or more.")
    chosen = tuple(_configured(name, options) for name in tiers)
    return chosen if len(chosen) > 1 else chosen[0]


def _configured(name: str, options: Mapping[str, int]) -> str | Make:
    own = {key: value for key, value in options.items() if key in OPTIONS.get(name, ())}
    return (lambda means: _MADE[name](means, **own)) if own else name
