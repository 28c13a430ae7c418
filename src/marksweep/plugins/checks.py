"""What a setting may be, where its default comes from, and the error when it cannot be."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping

import msgspec

from marksweep.core.budget import HARD_PERCENT, SOFT_PERCENT, TARGET_PERCENT
from marksweep.errors import BadInput


class Variable(msgspec.Struct, frozen=True):
    """A percentage that the environment may set, under either of two names."""

    name: str
    default: float


THRESHOLD = Variable("GC_THRESHOLD", SOFT_PERCENT)
TARGET = Variable("GC_TARGET", TARGET_PERCENT)
PRESSURE = Variable("GC_PRESSURE", HARD_PERCENT)

PREFIXES = ("MARKSWEEP_", "JAATO_")
"""The first one that is set wins."""


MAX_TURNS = 10**9
"""Turns over which a number is a mistake: no conversation has as many."""


class Assumed(float):
    """A percentage that was not given in so many words: it may give way to one that was."""


class Default(Assumed):
    """A percentage that nobody gave at all: it gives way to the environment too."""


def from_environment(variable: Variable) -> Assumed:
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
        return Assumed(value)
    return Default(variable.default)


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


def check_keys(what: str, given: object, known: frozenset[str]) -> None:
    """Refuse keys nobody would read."""
    unknown = sorted(str(key) for key in given if key not in known)  # type: ignore[attr-defined]
    if unknown:
        raise BadInput(
            f"{what} has the unknown {'keys' if len(unknown) > 1 else 'key'} "
            f"{', '.join(map(repr, unknown))}; known are {', '.join(sorted(known))}."
        )


def _bound(value: float, meaning: str) -> str:
    return f"{value:g} (the {meaning})" if meaning else f"{value:g}"
