"""Messages shortened in place: what a strategy needs to see their texts, and to put others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from marksweep.dialects.editing import with_texts
from marksweep.messages import Counter, Message, Outcome, Place, Text
from marksweep.messages.text import outcomes_of, texts_of
from marksweep.model import Plan, Segment
from marksweep.plugins.view import View


class Masker:
    """Shortens a view's messages, and remembers every form, by the `raw` of its segment."""

    def __init__(self) -> None:
        self._forms: dict[str, tuple[Message, str]] = {}
        """By id: the last message that had it, and the name of that form."""
        self._count = 0

    def begin(self, view: View, counter: Counter) -> None:
        """Work on another view from now on."""
        self._view = view
        self._counter = counter
        self.made: dict[str, Message] = {}

    def form(self, message: Message) -> str:
        """Name the form that a message has. No two different ones ever have the same.

        A host may give the id of a message that went to another one.
        """
        known = self._forms.get(message.message_id)
        if known is not None and (known[0] is message or known[0] == message):
            return known[1]
        return self._remember(message, self._new_form(message.message_id))

    def end(self, plan: Plan) -> None:
        """Let go of the view and of forms that were only planned; remember those that came to be.

        Forms of messages that went are forgotten once they are the most.
        """
        for step in plan.steps:
            if step.replacement is not None and step.replacement.raw in self.made:
                form = step.replacement.raw
                self._remember(self.made[form], form)
        if len(self._forms) > 2 * len(self._view.messages):
            present = [message.message_id for message in self._view.messages]
            self._forms = {name: self._forms[name] for name in present}
        self.made = {}
        del self._view

    def _remember(self, message: Message, form: str) -> str:
        self._forms[message.message_id] = message, form
        return form

    def _new_form(self, name: str) -> str:
        self._count += 1
        return f"{name} {self._count}"

    def outcomes(self, segment: Segment) -> Sequence[Outcome]:
        """Give the results a message carries, each with the call it answers."""
        message = self._message(segment)
        if message is None or not message.function_responses:
            return ()
        view = self._view
        unit = view.context.units.members(segment.position)
        calls = [call for i in unit for call in view.messages[i].function_calls]
        return tuple(outcomes_of(message, calls))

    def texts(self, segment: Segment) -> Sequence[Text]:
        """Give the texts of a message; what stands beside the history has none."""
        message = self._message(segment)
        return tuple(texts_of(message)) if message is not None else ()

    def trimmed(self, segment: Segment, texts: Mapping[Place, str]) -> Segment | None:
        """Put shorter texts in their places; None if that does not make the message shorter."""
        message = self._message(segment)
        if message is None:
            return None
        shorter = with_texts(message, texts, self._view.dialect)
        if shorter is None:
            return None
        tokens = self._counter(shorter)
        if tokens >= segment.tokens:
            return None
        form = self._new_form(segment.segment_id)
        self.made[form] = shorter
        return msgspec.structs.replace(segment, tokens=tokens, raw=form)

    def _message(self, segment: Segment) -> Message | None:
        at = segment.position
        return self._view.messages[at] if at < len(self._view.messages) else None
