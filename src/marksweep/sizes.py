"""Sizes as people write them: `32000`, `32k`, `1m`, `60%`."""

from __future__ import annotations

import re

import msgspec

from marksweep.errors import BadInput

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([kKmM%]?)")
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}


class Size(msgspec.Struct, frozen=True):
    """A number of tokens, or a share of something."""

    tokens: int | None = None
    percent: float | None = None

    @classmethod
    def read(cls, text: str) -> Size:
        """Read a size."""
        found = _SIZE.fullmatch(text.strip())
        if found is None:
            raise BadInput(f"{text!r} is not a size; expected for example 32000, 32k or 60%.")
        number, unit = float(found[1]), found[2].lower()
        return cls(percent=number) if unit == "%" else cls(tokens=int(number * _FACTORS[unit]))

    def of(self, whole: int) -> int:
        """Return the tokens; a share is taken of `whole`."""
        if self.percent is not None:
            return int(whole * self.percent / 100)
        return self.tokens or 0
