"""What values a setting may have, where its default comes from, and the error for other values."""

from __future__ import annotations

import logging
import os
import reprlib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import msgspec

from marksweep.errors import BadInput


class Variable(msgspec.Struct, frozen=True):
    """A percentage that the environment may set, under either of two names."""

    name: str
    default: float


THRESHOLD = Variable("GC_THRESHOLD", 80.0)
TARGET = Variable("GC_TARGET", 60.0)
PRESSURE = Variable("GC_PRESSURE", 90.0)

PREFIXES = ("MARKSWEEP_", "JAATO_")
"""The first one that is set wins."""


MAX_TURNS = 10**9
"""The largest number of turns that is accepted: no conversation has as many."""


COMMENT = "_"
"""What a key of a configuration starts with that is a comment, such as `_comment`."""

_log = logging.getLogger(__name__)


class Default(float):
    """A default percentage: given ones win over it."""


class FromEnvironment(float):
    """A percentage from the environment: the program or a file wins over it."""

    name: str


def from_environment(variable: Variable) -> Default | FromEnvironment:
    """Read a percentage from the environment, or take its default."""
    for prefix in PREFIXES:
        name = prefix + variable.name
        text = os.environ.get(name, "").strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            raise BadInput(f"{name} is {text!r}; expected a number from 0 to 100.") from None
        check_percent(name, value)
        given = FromEnvironment(value)
        given.name = name
        return given
    return Default(variable.default)


def is_given(percent: float) -> bool:
    """Whether the program or a file gave a percentage."""
    return not isinstance(percent, Default | FromEnvironment)


def clamp(value: float, low: float, high: float, beside: str) -> float:
    """Bring a percentage within bounds; one that the environment gave, with a warning."""
    fitting = min(max(value, low), high)
    if isinstance(value, FromEnvironment) and fitting != value:
        _log.warning("%s is %g and does not fit %s; %g is used", value.name, value, beside, fitting)
    return fitting


def check_percent(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float = 0.0,
    most: float = 100.0,
    least_is: str = "",
    most_is: str = "",
) -> None:
    """Refuse a value that is not a percentage in its range."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and least <= value <= most and (above is None or value > above):  # type: ignore[operator]
        return
    low = f"above {above:g}" if above is not None else f"at least {_bound(least, least_is)}"
    raise BadInput(
        f"{name} is {reprlib.repr(value)}; expected a number {low} and at most "
        f"{_bound(most, most_is)}."
    )


def check_turns(name: str, value: object, *, least: int = 0) -> None:
    """Refuse a value that is not a count of turns."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_TURNS:
        raise BadInput(
            f"{name} is {reprlib.repr(value)}; expected a whole number of at least {least} and at "
            f"most {MAX_TURNS:,}."
        )


def check_object(name: str, value: object) -> None:
    """Refuse a value that is not an object of keys and values."""
    if not isinstance(value, Mapping):
        raise BadInput(f"{name} is {value!r}; expected an object.")


def check_positive(name: str, value: object) -> None:
    """Refuse a value that is not a number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise BadInput(f"{name} is {value!r}; expected a number above 0.")


def check_flag(name: str, value: object) -> None:
    """Refuse a value that is neither true nor false."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} is {value!r}; expected true or false.")


def check_keys(what: str, given: Iterable[object], known: frozenset[str]) -> None:
    """Refuse unknown keys. Those that start with an underscore are comments."""
    unknown = sorted(k for k in map(str, given) if k not in known and not k.startswith(COMMENT))
    if not unknown:
        return
    close = [match for key in unknown for match in get_close_matches(key, known, n=1)]
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    raise BadInput(
        f"{what} has the unknown {'keys' if len(unknown) > 1 else 'key'} "
        f"{', '.join(map(repr, unknown))}; known are {', '.join(sorted(known))}.{hint}"
    )


def without_comments(given: Mapping[str, object]) -> dict[str, object]:
    """Leave out the keys that are comments, and those without a value."""
    return {k: v for k, v in given.items() if v is not None and not str(k).startswith(COMMENT)}


def _bound(value: float, meaning: str) -> str:
    return f"{value:g} (the {meaning})" if meaning else f"{value:g}"
