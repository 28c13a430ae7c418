"""Results shortened in place: what a strategy needs to see them, and to put a line instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from marksweep.dialects.base import with_parts
from marksweep.heaps.conversation_text import outcomes_of
from marksweep.messages import Counter, Message, Outcome, Part
from marksweep.model import Segment
from marksweep.plugins.view import View


class Masker:
    """Shortens the results of a view's messages, and remembers the shorter messages."""

    def __init__(self, view: View, counter: Counter) -> None:
        self._view = view
        self._counter = counter
        self.made: dict[str, Message] = {}

    def outcomes(self, segment: Segment) -> Sequence[Outcome]:
        """Give the results a message carries, each with the call it answers."""
        message = self._message(segment)
        if message is None or not message.function_responses:
            return ()
        view = self._view
        unit = view.scene.units.members(segment.position)
        calls = [call for i in unit for call in view.messages[i].function_calls]
        return tuple(outcomes_of(message, calls))

    def masked(self, segment: Segment, texts: Mapping[int, str]) -> Segment | None:
        """Put texts in the place of results, by their index; None if that is not shorter."""
        message = self._message(segment)
        if message is None:
            return None
        parts = [
            self._with_text(part, texts[at]) if at in texts else part
            for at, part in enumerate(message.parts)
        ]
        if self._view.dialect is not None and message.raw is not None:
            shorter = with_parts(self._view.dialect, message, parts)
        else:
            shorter = Message(message.role, tuple(parts), message.message_id)
        tokens = self._counter(shorter)
        if tokens >= segment.tokens:
            return None
        self.made[segment.segment_id] = shorter
        return msgspec.structs.replace(segment, tokens=tokens)

    def _message(self, segment: Segment) -> Message | None:
        at = segment.position
        return self._view.messages[at] if at < len(self._view.messages) else None

    def _with_text(self, part: Part, text: str) -> Part:
        old = part.function_response
        if old is None:
            return part
        if self._view.dialect is not None and part.raw is not None:
            return self._view.dialect.with_result(part, text)
        return Part(function_response=msgspec.structs.replace(old, result=text))
