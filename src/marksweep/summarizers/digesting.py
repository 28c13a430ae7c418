"""Summaries of segments by their text: what a strategy that summarises needs of any heap.

Conversation(limit=100_000, strategy=Summarize(digesting(my_summarizer)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

from marksweep.errors import MarksweepError
from marksweep.model import GCPolicy, Link, Reference, Segment
from marksweep.summarizers.base import Summarizer
from marksweep.summarizers.extractive import Extractive
from marksweep.tokens import count

SUMMARY = "summary"
"""The type of segments that stand for others."""

FRAME = 4
"""Tokens that providers add around each message."""


def weight(text: str) -> int:
    """Tokens of a text as a message."""
    return count(text) + FRAME


def texts_of(segments: Sequence[Segment]) -> str:
    """Tell segments by their text, a paragraph each."""
    return "\n\n".join(segment.text for segment in segments)


def digesting(
    summarizer: Summarizer | None = None,
    weigh: Callable[[str], int] = weight,
    tell: Callable[[Sequence[Segment]], str] = texts_of,
) -> Callable[[Sequence[Segment], Sequence[Segment]], Segment | None]:
    """Make a function from segments to one that stands for them; None if none would be shorter.

    It is given the summaries before them too, to go on from. A summary among the segments is merged
    into the new one. The new segment is named after what it stands for, so the same segments give
    the same name.
    """
    chosen = summarizer or Extractive()

    def digest(segments: Sequence[Segment], earlier: Sequence[Segment]) -> Segment | None:
        merged = [segment.text.partition("\n")[2] for segment in segments if _is_summary(segment)]
        told = tell([segment for segment in segments if not _is_summary(segment)])
        try:
            summary = chosen.summarize(
                "\n\n".join([*merged, told]), "\n".join(each.text for each in earlier)
            )
        except MarksweepError:
            return None
        originals = tuple(dict.fromkeys(name for s in segments for name in _originals(s)))
        text = f"[Summary of {len(originals)} earlier messages]\n{summary.text}"
        tokens = weigh(text)
        if tokens >= sum(segment.tokens for segment in segments):
            return None
        ids = "\n".join(segment.segment_id for segment in segments)
        first = segments[0]
        return Segment(
            segment_id=f"summary-{blake2b(ids.encode(), digest_size=8).hexdigest()}",
            type=SUMMARY,
            created_at=first.created_at,
            text=text,
            tokens=tokens,
            position=first.position,
            policy=GCPolicy.PRESERVABLE,
            references=tuple(Reference(name, Link.DERIVED) for name in originals),
        )

    return digest


def _is_summary(segment: Segment) -> bool:
    return segment.type == SUMMARY


def _originals(segment: Segment) -> tuple[str, ...]:
    """Name the messages that a segment stands for."""
    if not _is_summary(segment):
        return (segment.segment_id,)
    return tuple(each.target for each in segment.references if each.link is Link.DERIVED)
