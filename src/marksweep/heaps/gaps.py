"""Gaps: one line replaces a run of swept messages, in the user's voice.

The text of the line is defined with the other stand-ins (`sections.LeftOut`); the planner decides
where it is placed (`core.runs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from marksweep.heaps.forms import MessageForm
from marksweep.heaps.stash_search import GAP
from marksweep.heaps.staying import MESSAGE, SPOKEN, SUMMARY
from marksweep.messages import Counter, Message, left_out_in, missing_in
from marksweep.model import GCPolicy, Segment
from marksweep.sections import LeftOut

LINE_SHARE = 0.03
"""Maximum tokens of a line as a share of what it stands for: 25 tokens for 800 swept.

Higher adds a line for smaller runs; at a twentieth, in a window of a thousand tokens, lines take
space from what a model needs.
"""

LEAST_MESSAGES = 2
"""Minimum messages of a run. For a single answer between two questions, the questions suffice."""


class Gaps:
    """Makes the lines of one conversation."""

    def __init__(
        self, message: Callable[[Segment], Message], form: MessageForm, counter: Counter
    ) -> None:
        self._message = message
        self._form = form
        self._counter = counter

    def is_said(self, segment: Segment) -> bool:
        """Whether it is a message, whoever made it."""
        return segment.type in SPOKEN

    def is_line(self, segment: Segment) -> bool:
        """Whether it is a gap line."""
        return segment.type == GAP

    def line(self, run: Sequence[Segment]) -> Segment | None:
        """Make the line for a run. Notes in it only repeat what is elsewhere."""
        said = [s for s in run if s.type in (MESSAGE, SUMMARY, GAP)]
        grows = any(map(self.is_line, said))
        if not grows and len(said) < LEAST_MESSAGES:
            return None
        whole = LeftOut.joined([self._left_out(segment) for segment in said])
        name = f"{GAP}-{whole.first}-{whole.messages}"
        weight = self._counter(self._form.say(whole.line, name))
        if weight > LINE_SHARE * whole.tokens and not grows:
            return None
        return Segment(
            segment_id=name,
            type=GAP,
            created_at=said[0].created_at,
            text=whole.line,
            tokens=weight,
            policy=GCPolicy.EPHEMERAL,
            position=said[0].position,
            project_id=said[0].project_id,
        )

    def _left_out(self, segment: Segment) -> LeftOut:
        message = self._message(segment)
        line = left_out_in(message) if segment.type == GAP else None
        if line is not None:
            return line
        calls = tuple([call.name for call in message.function_calls])
        return LeftOut(1, segment.tokens + missing_in(message), segment.segment_id, calls)
