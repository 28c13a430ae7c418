"""What is driven over a transcript: a Conversation with a strategy, or a GC plugin, as hosts do."""

from __future__ import annotations

import warnings

from marksweep.conversation import Conversation
from marksweep.dialects import read, written
from marksweep.errors import OverLimitWarning
from marksweep.messages import Message
from marksweep.plugins import GCTriggerReason
from marksweep.plugins.base import ContextUsage
from marksweep.plugins.files import GCSpec, read_gc
from marksweep.replay.records import CHAT, Count, Wire, price
from marksweep.replay.strategy_spec import Spec
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
        """The messages for the next request, collected when due, and when they do not fit.

        What waits and does not fit is no news here: it was sent, and so it is measured.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverLimitWarning)
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


def plugin_spec(spec: Spec) -> GCSpec:
    """What the name and options of a plugin mean."""
    return read_gc({"type": spec.name, **spec.options}, spec.name)


class PluginCollector:
    """Asks a plugin whether to collect, as a host would, and lets it.

    The pinned prefix is kept separately; the rest is its history.
    """

    def __init__(self, count: Count, spec: Spec) -> None:
        self._count = count
        self._spec = plugin_spec(spec)
        self._spec.load()

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run with a new plugin."""
        self._plugin, self._config = self._spec.load()
        self._pinned = pinned
        self._limit = max(1, limit - sum(price(message, self._count) for message in pinned))
        self._history: list[Message] = []
        self._sent = 0

    def add(self, messages: list[Wire]) -> None:
        """Take new messages."""
        self._history += read(messages, CHAT, start=self._sent).messages
        self._sent += len(messages)

    def context(self) -> list[Wire]:
        """Let the plugin collect if it wants to, or if it must."""
        usage = self._usage()
        due, reason = self._plugin.should_collect(usage, self._config)
        if due or usage["total_tokens"] > self._limit:
            history, _ = self._plugin.collect(
                self._history, usage, self._config, reason or GCTriggerReason.OVERFLOW
            )
            self._history = list(history)
        return [*self._pinned, *written(self._history, CHAT)]

    def _usage(self) -> ContextUsage:
        tokens = sum(price(message, self._count) for message in written(self._history, CHAT))
        return {
            "percent_used": 100 * tokens / self._limit,
            "total_tokens": tokens,
            "context_limit": self._limit,
            "tokens_remaining": max(0, self._limit - tokens),
        }
