"""Shortened segments: a shorter text that stands for a longer one."""

from __future__ import annotations

import re

import msgspec

from marksweep.model import GCPolicy, Link, Reference, Segment

_NUMBERED = re.compile(r"(.*)~(\d+)")


def shortened(segment: Segment, text: str, tokens: int) -> Segment:
    """Make the segment that takes a longer one's place: derived from it, with all its links."""
    return msgspec.structs.replace(
        segment,
        segment_id=_next_id(segment.segment_id),
        text=text,
        tokens=tokens,
        references=(*segment.references, Reference(segment.segment_id, Link.DERIVED)),
        refcount=0,
        policy=GCPolicy.PARTIAL,
    )


def _next_id(segment_id: str) -> str:
    """Number the versions of a segment: `a`, `a~1`, `a~2`."""
    match = _NUMBERED.fullmatch(segment_id)
    if match is None:
        return f"{segment_id}~1"
    return f"{match[1]}~{int(match[2]) + 1}"
