"""Summaries of segments by their text: what a strategy that summarises needs of any heap.

Conversation(limit=100_000, strategy=Summarize(Digester(my_summarizer)))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b

from marksweep.errors import MarksweepError
from marksweep.messages import FRAME_TOKENS
from marksweep.model import GCPolicy, Link, Reference, Segment
from marksweep.summarizers.base import Summarizer
from marksweep.summarizers.extractive import Extractive
from marksweep.tokens import count

SUMMARY = "summary"
"""The type of segments that replace others."""

_COUNT = re.compile(r"Summary of (\d+) ")


def weight(text: str) -> int:
    """Tokens of a text as a message."""
    return count(text) + FRAME_TOKENS


def texts_of(segments: Sequence[Segment]) -> str:
    """Render segments by their text, a paragraph each."""
    return "\n\n".join(segment.text for segment in segments)


class Digester:
    """Makes one segment that replaces others, and remembers what was made and what went wrong.

    It also gets the earlier summaries, to continue from. A summary among the segments is merged
    into the new one. The new segment is named by `label`, and says so in its first line; without
    one it is named after what it replaces, so that the same segments give the same name.
    """

    def __init__(
        self,
        summarizer: Summarizer | None = None,
        weigh: Callable[[str], int] = weight,
        render: Callable[[Sequence[Segment]], str] = texts_of,
        label: Callable[[], str] | None = None,
    ) -> None:
        self._summarizer = summarizer or Extractive()
        self._weigh = weigh
        self._render = render
        self._label = label
        self.made_by: dict[str, str] = {}
        """Who made each summary, by its name."""
        self.notes: list[str] = []
        """What went wrong, for people to read."""

    def __call__(self, segments: Sequence[Segment], earlier: Sequence[Segment]) -> Segment | None:
        """Make a segment that replaces these; None if none would be shorter."""
        merged = [_body(segment) for segment in segments if segment.type == SUMMARY]
        rendered = self._render([segment for segment in segments if segment.type != SUMMARY])
        before = "\n".join(map(_body, earlier))
        try:
            summary = self._summarizer.summarize("\n\n".join([*merged, rendered]), before)
        except MarksweepError as error:
            self.notes.append(str(error))
            return None
        name, head = self._named(segments)
        text = f"{head}\n{summary.text}"
        tokens, replaced = self._weigh(text), sum(segment.tokens for segment in segments)
        if tokens >= replaced:
            self.notes.append(
                f"the summary by {summary.made_by} has {tokens} tokens, the messages {replaced}: "
                "it would not shrink. The messages stay."
            )
            return None
        self.made_by[name] = summary.made_by
        self.notes += [summary.note] if summary.note else []
        first = segments[0]
        return Segment(
            segment_id=name,
            type=SUMMARY,
            created_at=first.created_at,
            text=text,
            tokens=tokens,
            position=first.position,
            policy=GCPolicy.PRESERVABLE,
            references=tuple(
                Reference(name, Link.DERIVED)
                for name in dict.fromkeys(name for s in segments for name in _originals(s))
            ),
        )

    def _named(self, segments: Sequence[Segment]) -> tuple[str, str]:
        """Return the name and the first line of a summary of these segments."""
        count = sum(map(_messages_in, segments))
        if self._label is not None:
            name = self._label()
            return name, f"[{name}] Summary of {count} earlier messages:"
        ids = "\n".join(segment.segment_id for segment in segments)
        name = f"summary-{blake2b(ids.encode(), digest_size=8).hexdigest()}"
        return name, f"[Summary of {count} earlier messages]"


def _body(summary: Segment) -> str:
    """Return the text of a summary, without its first line."""
    return summary.text.partition("\n")[2]


def _originals(segment: Segment) -> tuple[str, ...]:
    """Return the messages that a segment replaces; itself if none are known."""
    named = [each.target for each in segment.references if each.link is Link.DERIVED]
    return tuple(named) if named and segment.type == SUMMARY else (segment.segment_id,)


def _messages_in(segment: Segment) -> int:
    """Count the messages that a segment replaces, as its first line says if it is a summary."""
    said = _COUNT.search(segment.text.partition("\n")[0]) if segment.type == SUMMARY else None
    return int(said[1]) if said else 1
