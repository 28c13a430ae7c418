"""What comes from outside, made fit to keep: checked when it is added, counted when it is met."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from marksweep.errors import BadInput
from marksweep.model import Segment

MOST_TOKENS = 2**53
"""What every store and every reader of JSON can hold; far beyond any heap."""


def checked(segments: Sequence[Segment]) -> list[Segment]:
    """Give the segments with all their values of the right kind, or refuse them all."""
    return [_checked(segment) for segment in segments]


def _checked(segment: Segment) -> Segment:
    try:
        sound = msgspec.convert(msgspec.to_builtins(segment), Segment)
    except (msgspec.ValidationError, TypeError) as error:
        raise BadInput(
            f"segment {segment.segment_id!r} cannot be kept: {error}. Nothing was added."
        ) from error
    if not 0 <= sound.tokens <= MOST_TOKENS:
        raise BadInput(
            f"tokens is {sound.tokens} in segment {segment.segment_id!r}; expected a number from 0 "
            f"to {MOST_TOKENS}, 0 to have them counted. Nothing was added."
        )
    return sound
