"""Installed strategies as collectors: driven through the Conversation that a program would have."""

from __future__ import annotations

from marksweep.conversation import Conversation
from marksweep.replay.records import CHAT, Count, Wire, price
from marksweep.settings import Settings
from marksweep.strategies.last_resort import FitByDropping
from marksweep.strategies.registry import Choice


class ConversationCollector:
    """A Conversation sent messages as they come, and asked for the next request."""

    def __init__(self, count: Count, settings: Settings, strategy: Choice | None = None) -> None:
        """Take settings, and a strategy if settings cannot name it."""
        self._count = count
        self._settings = settings
        self._strategy = strategy

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a conversation."""
        self._talk = Conversation.from_settings(
            self._settings,
            limit=limit,
            strategy=self._strategy,
            counter=self._tokens,
            dialect=CHAT,
        )
        self._trims = self._talk.last_resort
        self._talk.last_resort = FitByDropping(lambda _: (), lambda *_: None)
        self._talk.extend(pinned, pin=True)

    def trim_what_waits(self) -> None:
        """Let what the model has not answered be trimmed too, as a program's conversation does."""
        self._talk.last_resort = self._trims

    def add(self, messages: list[Wire]) -> None:
        """Take new messages."""
        self._talk.extend(messages)

    def context(self) -> list[Wire]:
        """The messages for the next request, collected when due, and when they do not fit."""
        messages: list[Wire] = self._talk.messages
        if self._talk.tokens > self._talk.budget.limit:
            self._talk.collect()
            messages = self._talk.messages
        return messages

    def recall(self, query: str, limit: int) -> list[str]:
        """Passages of what was swept that answer a query, within a limit in tokens."""
        return [str(passage) for passage in self._talk.recall(query, limit)]

    def _tokens(self, message: Wire) -> int:
        return price(message, self._count)
