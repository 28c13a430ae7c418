"""Tokens: how much of the window a text takes.

    from marksweep.tokens import count, default_counter

    count("def hello(): ...")            # exact where a vocabulary is at hand, else an estimate
    default_counter().label(12_000)      # "12,000", or "≈12,000" when it is an estimate

1. exact.py        o200k_base from rs-bpe, or from tiktoken if its ranks lie on this disk already.
2. estimator.py    The same cutting without a vocabulary, for everyone else.
3. counter.py      What a counter is; counts of long texts, remembered by content.
4. calibration.py  From our figures to those a provider reports.
5. inline.py       Images and other data that are not text.

Nothing here goes to the network, and nothing heavy is imported before the first count.
"""

from __future__ import annotations

from functools import cache

from marksweep.tokens.calibration import Calibration
from marksweep.tokens.counter import TokenCounter, cached, in_whole
from marksweep.tokens.estimator import estimate
from marksweep.tokens.inline import IMAGE_TOKENS, data_tokens

__all__ = [
    "ESTIMATOR",
    "IMAGE_TOKENS",
    "Calibration",
    "TokenCounter",
    "cached",
    "count",
    "data_tokens",
    "default_counter",
    "estimate",
    "in_whole",
]

ESTIMATOR = TokenCounter(name="estimate", exact=False, count=estimate)
"""Counts without a vocabulary. Within 15 % on average for code, prose, JSON and CJK."""


@cache
def default_counter() -> TokenCounter:
    """Choose the best counter there is: rs-bpe, tiktoken with ranks on disk, our estimator."""
    from marksweep.tokens import exact

    return cached(exact.from_rs_bpe() or exact.from_tiktoken() or ESTIMATOR)


def count(text: str) -> int:
    """Count the tokens of a text with the default counter. Text of special tokens is plain text."""
    return default_counter().count(text)
