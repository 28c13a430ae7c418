"""Ranges: what a number may be, checked however a group of settings was made."""

from __future__ import annotations

from functools import cache
from math import isfinite
from typing import Annotated, get_type_hints

import msgspec
from msgspec import Meta

from marksweep.errors import BadInput

Percent = Annotated[float, Meta(ge=0, le=100)]
Hours = Annotated[float, Meta(ge=0, le=24 * 36_500)]
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Group(msgspec.Struct, frozen=True):
    """Settings that belong together, checked against their ranges when made."""

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        name = type(self).__name__.lower()
        for field, meta in _ranges(type(self)):
            check_number(f"{name}.{field}", getattr(self, field), meta)


def check_number(key: str, value: float, meta: Meta) -> None:
    """Refuse what is no number, or out of range."""
    fine = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if fine and meta.ge is not None:
        fine = value >= meta.ge
    if fine and meta.gt is not None:
        fine = value > meta.gt
    if fine and meta.le is not None:
        fine = value <= meta.le
    if not fine:
        raise BadInput(f"{key} is {value!r}; expected {expected_number(meta)}.")


def expected_number(meta: Meta) -> str:
    """Put a range into words."""
    if meta.gt is not None:
        return f"a number above {meta.gt:g}"
    if meta.le is None:
        return f"a number, {meta.ge:g} or more"
    return f"a number from {meta.ge:g} to {meta.le:g}"


@cache
def _ranges(group: type[Group]) -> tuple[tuple[str, Meta], ...]:
    """Give the fields of a group that have a range."""
    hints = get_type_hints(group, include_extras=True)
    return tuple(
        (field, hint.__metadata__[0])
        for field, hint in hints.items()
        if hasattr(hint, "__metadata__")
    )
