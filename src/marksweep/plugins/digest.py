"""Summaries on demand: one message that stands for a range of others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from marksweep.errors import MarksweepError
from marksweep.ledger import InstructionBudget
from marksweep.messages import Counter, Message, Part, Role
from marksweep.messages.turns import SUMMARY
from marksweep.model import GCPolicy, Link, Reference, Segment
from marksweep.plugins.view import View
from marksweep.summarizers import Summarizer, transcript

_HEAD = re.compile(rf"\[{SUMMARY}\d+\][^\n]*\n")


class Digester:
    """Makes summaries of a view's messages, and remembers them and what went wrong."""

    def __init__(
        self, view: View, summarizer: Summarizer, ledger: InstructionBudget, counter: Counter
    ) -> None:
        self._view = view
        self._summarizer = summarizer
        self._ledger = ledger
        self._counter = counter
        self.made: dict[str, Message] = {}
        self.made_by: list[str] = []
        self.notes: list[str] = []

    def __call__(self, segments: Sequence[Segment], earlier: Sequence[Segment]) -> Segment | None:
        """Make a segment that stands for these messages; None if none would be shorter."""
        view, first = self._view, segments[0]
        before = [self.made.get(s.segment_id) or view.messages[s.position] for s in earlier]
        try:
            summary = self._summarizer.summarize(
                transcript([view.messages[segment.position] for segment in segments]),
                "\n".join(_HEAD.sub("", message.text) for message in before),
            )
        except MarksweepError as error:
            self.notes.append(str(error))
            return None
        name = f"{SUMMARY}{self._ledger.next_summary()}"
        text = f"[{name}] Summary of {len(segments)} earlier messages:\n{summary.text}"
        message = Message(Role.USER, (Part(text=text),), name)
        tokens = self._counter(message)
        weight = sum(segment.tokens for segment in segments)
        if tokens >= weight:
            self.notes.append(
                f"the summary by {summary.made_by} has {tokens} tokens, the messages {weight}: "
                "it would not shrink. The messages stay."
            )
            return None
        self.made[name] = message
        self.made_by.append(summary.made_by)
        self.notes += [summary.note] if summary.note else []
        return Segment(
            segment_id=name,
            type="turn summary",
            created_at=first.created_at,
            text=text,
            tokens=tokens,
            policy=GCPolicy.PRESERVABLE,
            position=first.position,
            references=tuple(Reference(segment.segment_id, Link.DERIVED) for segment in segments),
        )
