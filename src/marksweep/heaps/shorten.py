"""Shortened segments: a shorter text that replaces a longer one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from itertools import count

import msgspec

from marksweep.model import GCPolicy, Link, Reference, Segment

_log = logging.getLogger(__name__)

_NUMBERED = re.compile(r"(.*)~([1-9]\d*)", re.DOTALL)

Taken = Callable[[str], bool]
"""Whether an id is in use, live or in the stash."""


def shortened(segment: Segment, text: str, tokens: int, taken: Taken) -> Segment:
    """Make the segment that replaces a longer one: derived from it, with all its links."""
    return msgspec.structs.replace(
        segment,
        segment_id=_free_id(segment.segment_id, taken),
        text=text,
        tokens=tokens,
        references=(*segment.references, Reference(segment.segment_id, Link.DERIVED)),
        refcount=0,
        policy=GCPolicy.PARTIAL,
    )


def _free_id(segment_id: str, taken: Taken) -> str:
    """Number the versions of a segment: `a`, `a~1`, `a~2`; if that id is taken: `a~1~`, `a~2~`.

    No two segments get the same id, so that all segments of a plan may be shortened at once.
    """
    match = _NUMBERED.fullmatch(segment_id)
    name = f"{match[1]}~{int(match[2]) + 1}" if match else f"{segment_id}~1"
    numbers = count(1)
    while taken(name):
        name = f"{segment_id}~{next(numbers)}~"
    return name


def shortening(
    shorten: Callable[[str], str], weigh: Callable[[str], int], taken: Taken
) -> Callable[[Segment], Segment | None]:
    """Turn a function that shortens texts into one that shortens segments.

    If it fails or returns nothing, the segment stays unchanged.
    """

    def shorter(segment: Segment) -> Segment | None:
        try:
            text = shorten(segment.text)
        except Exception:  # noqa: BLE001  whatever a third-party function raises
            _log.exception("%s could not be shortened", segment.segment_id)
            return None
        if not isinstance(text, str) or not text.strip():
            return None
        return shortened(segment, text, weigh(text), taken)

    return shorter
