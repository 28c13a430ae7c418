"""A transcript: a provider's messages, each in an envelope of the program that wrote it down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from marksweep.dialects.base import Dialect, Json, Messages, Rule, Tying, Unreadable
from marksweep.messages import Message, Part, Role


class NotAMessage(Unreadable):
    """A line that is not part of the conversation. It is kept, in its place."""


class Enveloped:
    """Reads and writes a provider's messages inside envelopes.

    `open` takes the provider's message out or raises NotAMessage, `close` gives an envelope with
    another message in it, `wrap` makes a new envelope.
    """

    def __init__(
        self,
        name: str,
        inner: Dialect,
        *,
        open: Callable[[Json], Json],
        close: Callable[[Json, Json], Json],
        wrap: Callable[[Json], Json],
    ) -> None:
        self.name = name
        self.inner = inner
        self._open = open
        self._close = close
        self._wrap = wrap

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The provider's."""
        return self.inner.rules

    def unwrap(self, raw: Json) -> Json:
        """Take the provider's message out of its envelope."""
        return self._open(raw)

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Understand the message in an envelope."""
        if not isinstance(raw, dict):
            raise Unreadable(f"{type(raw).__name__} where an object was expected")
        return self.inner.read(self._open(raw))

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy envelope and message with these parts."""
        return self._close(raw, self.inner.rebuild(self._open(raw), parts))

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Make messages in new envelopes."""
        return [self._wrap(raw) for raw in self.inner.compose(role, parts)]

    def answer(self, asked: Part, text: str) -> Part:
        """Make a result for a call."""
        return self.inner.answer(asked, text)

    def with_call_id(self, part: Part, call_id: str) -> Part:
        """Give the same call or result under another id."""
        return self.inner.with_call_id(part, call_id)

    def with_result(self, part: Part, text: str) -> Part:
        """Replace what a result says."""
        return self.inner.with_result(part, text)

    def with_arguments(self, part: Part, arguments: Json) -> Part:
        """Replace what a call asks for."""
        return self.inner.with_arguments(part, arguments)

    def tying(self) -> Tying:
        """Tie what the provider wants together."""
        return self.inner.tying()

    def ties(self, messages: Messages) -> Iterator[tuple[int, int]]:
        """Tie what the provider wants together."""
        return self.inner.ties(messages)

    def joins(self, before: Message, after: Message) -> bool:
        """Join what the provider wants joined."""
        return self.inner.joins(before, after)
