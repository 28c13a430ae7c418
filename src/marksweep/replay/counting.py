"""The token counter of replay: exact, and each distinct text counted once."""

from __future__ import annotations

from marksweep.errors import NotFound
from marksweep.replay.records import Count

MAX_REMEMBERED = 20_000
"""Texts whose counts are remembered. More counts less often, and takes memory."""


def exact() -> Count:
    """Count o200k_base tokens; figures made with an estimate could not be compared."""
    try:
        from rs_bpe import openai
    except ImportError as error:
        raise NotFound(
            "rs-bpe is not installed; figures need exact token counts. Install marksweep[exact]."
        ) from error
    count = openai.o200k_base().count
    known: dict[str, int] = {}

    def tokens(text: str) -> int:
        size = known.get(text)
        if size is None:
            if len(known) >= MAX_REMEMBERED:
                known.clear()
            size = known[text] = count(text)
        return size

    return tokens
