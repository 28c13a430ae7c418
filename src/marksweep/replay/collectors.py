"""What a program would have: strategies as collectors, each driving a `Conversation`.

Nothing is decided here. What the lab measures is what `Conversation(limit=…, strategy=…)` does.
"""

from __future__ import annotations

from marksweep.conversation import Conversation
from marksweep.core.budget import Budget
from marksweep.replay.counting import exact
from marksweep.replay.records import Count, Wire, price
from marksweep.strategies.named import Choice

LINE = 100.0
"""Where a conversation starts to collect and lands, in percent of its limit."""


class Installed:
    """An installed strategy, or tiers of them, as the conversation of a program has it."""

    def __init__(self, count: Count, strategy: Choice) -> None:
        self._count = count
        self._strategy = strategy

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a conversation that lands at its limit."""
        self._talk = Conversation(
            limit=limit,
            budget=Budget.of(
                limit, threshold_percent=LINE, target_percent=LINE, pressure_percent=LINE
            ),
            strategy=self._strategy,
            counter=self._tokens,
            dialect="openai_chat",
        )
        self._talk.extend(pinned, pin=True)

    def add(self, messages: list[Wire]) -> None:
        """Take the new messages since the last call."""
        self._talk.extend(messages)

    def context(self) -> list[Wire]:
        """The full context for the next request."""
        return self._talk.messages

    def recall(self, query: str, limit: int) -> list[str]:
        """Passages that answer a query and were swept, within a limit in tokens."""
        return [found.text for found in self._talk.recall(query, limit)]

    def _tokens(self, message: Wire) -> int:
        return price(message, self._count)


def economy(count: Count | None = None) -> Installed:
    """Coverage in its default setting: sweeps wait until they pay, and leave the front alone."""
    return Installed(count or exact(), "coverage")


def quality(count: Count | None = None) -> Installed:
    """Coverage that sweeps whenever it must, wherever the least is lost."""
    return Installed(count or exact(), "coverage_quality")
