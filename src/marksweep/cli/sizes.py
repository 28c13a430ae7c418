"""Sizes on the command line: `32000`, `32k`, `1m`, `60%`."""

from __future__ import annotations

import re

from marksweep.errors import BadInput

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmM%]?)")
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}


def tokens(text: str, whole: int) -> int:
    """Read a number of tokens, or a share of `whole`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"{text!r} is no size; expected for example 32000, 32k or 60%.")
    number, unit = float(found[1]), found[2].lower()
    return int(whole * number / 100) if unit == "%" else int(number * _FACTORS[unit])
