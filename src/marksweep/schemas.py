"""JSON Schema as text: what the generated references say of a type."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a JSON Schema says of a value, as far as it is put into words."""

    ref: str = msgspec.field(name="$ref", default="")
    any_of: tuple[Shape, ...] = msgspec.field(name="anyOf", default=())
    enum: tuple[object, ...] = ()
    type: str = ""
    format: str = ""
    description: str = ""
    default: object = None
    items: Shape | bool | None = None
    properties: dict[str, Shape] = {}
    required: tuple[str, ...] = ()
    other_properties: Shape | bool | None = msgspec.field(name="additionalProperties", default=None)
    minimum: int | float | None = None
    above: int | float | None = msgspec.field(name="exclusiveMinimum", default=None)
    maximum: int | float | None = None
    defs: dict[str, Shape] = msgspec.field(name="$defs", default_factory=dict)

    @classmethod
    def read(cls, schema: object) -> Shape:
        """Read a schema as a library gives it; what has no text is skipped."""
        return msgspec.convert(schema, cls)

    def default_in_words(self) -> str:
        """Give the value that is taken when none is given."""
        return f"`{json.dumps(self.default)}`"

    def in_words(self, named: Callable[[str], str]) -> str:
        """Say what values fit; `named` gives the text for a type with a name."""
        if self.ref:
            return named(self.ref.rpartition("/")[2])
        if self.enum:
            return " ".join(f"`{value}`" for value in self.enum)
        if self.any_of:
            return " or ".join(each.in_words(named) for each in self.any_of)
        if self.properties:
            return f"object ({', '.join(self.properties)})"
        return self._plain(named)

    def _plain(self, named: Callable[[str], str]) -> str:
        held = {"array": self.items, "object": self.other_properties}.get(self.type)
        if isinstance(held, Shape) and held != Shape():
            return f"{_WORDS[self.type]} of {held.in_words(named)}"
        bounds = (("≥", self.minimum), (">", self.above), ("≤", self.maximum))
        limits = [f"{sign} {bound:,}" for sign, bound in bounds if bound is not None]
        return " ".join([_WORDS.get(self.format or self.type, "anything"), *limits])


_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "nothing",
    "array": "list",
    "object": "object",
    "date-time": "time",
    "duration": "duration",
}
