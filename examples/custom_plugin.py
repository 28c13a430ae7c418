"""A GC plugin of your own: keep the first request and the last few messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from marksweep import GCConfig, GCResult, GCTriggerReason, Session
from marksweep.messages import Message
from marksweep.plugins import ContextUsage


class KeepLast:
    """Forgets the middle of a conversation."""

    name = "gc_keep_last"

    def initialize(self, config: Mapping[str, object] | None = None) -> None:
        """Nothing to set."""

    def shutdown(self) -> None:
        """Nothing to let go of."""

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Collect above the threshold."""
        if context_usage.get("percent_used", 0.0) > config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(
        self,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
    ) -> tuple[list[Message], GCResult]:
        """Keep the first message and the last few."""
        kept = [history[0], *history[-config.preserve_recent_turns :]]
        before = context_usage.get("total_tokens", 0)
        result = GCResult(
            success=True,
            items_collected=len(history) - len(kept),
            tokens_before=before,
            tokens_after=before * len(kept) // len(history),
            plugin_name=self.name,
            trigger_reason=reason,
        )
        return kept, result


session = Session(lambda messages: f"That is {len(messages)} messages.", context_limit=200)
session.set_gc_plugin(KeepLast(), GCConfig(preserve_recent_turns=3))  # type: ignore[arg-type]
for number in range(12):
    print(session.send_message(f"Message {number}").text)
for result in session.get_gc_history():
    print(f"{result.plugin_name}: {result.items_collected} messages gone")
