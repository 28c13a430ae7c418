"""Check the values of settings, wherever they come from."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from marksweep.core.budget import MAX_LIMIT
from marksweep.errors import BadInput

MAX_DAYS = 36_500
"""The longest time that can be set: a century."""

Percent = Annotated[float, Meta(ge=0, le=100)]
Share = Annotated[float, Meta(ge=0, le=1)]
Hours = Annotated[float, Meta(ge=0, le=24 * MAX_DAYS)]
Days = Annotated[float, Meta(gt=0, le=MAX_DAYS)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]
Price = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=MAX_LIMIT)]


class Group(msgspec.Struct, frozen=True):
    """Settings that belong together, checked when made."""

    def __post_init__(self) -> None:
        """Refuse values of the wrong type or outside their range."""
        name = type(self).__name__.lower()
        for field, kind in _kinds(type(self)).items():
            checked(f"{name}.{field}", getattr(self, field), kind)


def checked(key: str, value: object, kind: Any) -> Any:  # noqa: ANN401
    """Convert a value to its type; raise BadInput if that fails."""
    if get_origin(kind) is Mapping and isinstance(value, Mapping):
        inner = get_args(kind)[1]
        return {name: checked(f"{key}.{name}", each, inner) for name, each in value.items()}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        found = reprlib.repr(value)
        raise BadInput(f"{key} is {found}; expected {_in_words(kind)}.") from None


def _in_words(kind: Any) -> str:  # noqa: ANN401
    if get_origin(kind) is Annotated:
        number, meta = get_args(kind)
        noun = "a whole number" if number is int else "a number"
        least = f"above {meta.gt:g} up" if meta.gt is not None else f"from {meta.ge:g}"
        return f"{noun} {least} to {meta.le:,.16g}"
    if get_origin(kind) is Mapping:
        return f"a table, each {_in_words(get_args(kind)[1])}"
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        names = ", ".join(get_args(inner))
        return f"a list of {names}" if get_origin(inner) is Literal else "a list of texts"
    return {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}[kind]


@cache
def _kinds(group: type[Group]) -> dict[str, Any]:
    """Return the types of a group's plain fields; nested groups check themselves."""
    hints = get_type_hints(group, include_extras=True)
    return {
        field: kind
        for field, kind in hints.items()
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct))
    }
