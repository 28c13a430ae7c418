"""How to count each message only once."""

from __future__ import annotations

from collections.abc import Iterable

from marksweep.messages import Counter, Message, count_message


class CountOnce:
    """A counter that remembers. Messages are frozen, so a count holds as long as the message."""

    def __init__(self, counter: Counter = count_message) -> None:
        self._counter = counter
        self._known: dict[str, tuple[Message, int]] = {}

    def __call__(self, message: Message) -> int:
        """Tokens of a message, counted when it is first seen."""
        known = self._known.get(message.message_id)
        if known is not None and known[0] is message:
            return known[1]
        tokens = self._counter(message)
        self._known[message.message_id] = (message, tokens)
        return tokens

    def keep_only(self, messages: Iterable[Message]) -> None:
        """Evict all messages but these."""
        kept = {message.message_id for message in messages}
        self._known = {name: each for name, each in self._known.items() if name in kept}

    def forget(self, message: Message) -> None:
        """Evict a message that has left the history."""
        self._known.pop(message.message_id, None)
