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

    It is given the summaries before them too, to go on from. The new segment is named after what
    it stands for, so the same segments give the same name.
    """
    chosen = summarizer or Extractive()

    def digest(segments: Sequence[Segment], earlier: Sequence[Segment]) -> Segment | None:
        try:
            summary = chosen.summarize(tell(segments), "\n".join(each.text for each in earlier))
        except MarksweepError:
            return None
        text = f"[Summary of {len(segments)} earlier messages]\n{summary.text}"
        tokens = weigh(text)
        if tokens >= sum(segment.tokens for segment in segments):
            return None
        ids = "\n".join(segment.segment_id for segment in segments)
        first = segments[0]
        return Segment(
            segment_id=f"summary-{blake2b(ids.encode(), digest_size=8).hexdigest()}",
            type="summary",
            created_at=first.created_at,
            text=text,
            tokens=tokens,
            position=first.position,
            policy=GCPolicy.PRESERVABLE,
            references=tuple(Reference(segment.segment_id, Link.DERIVED) for segment in segments),
        )

    return digest
