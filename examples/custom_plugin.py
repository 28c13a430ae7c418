"""A custom GC plugin: keep the first request and the newest turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from marksweep import GCConfig, GCResult, GCTriggerReason, InstructionBudget, Session
from marksweep.messages import Message, starts_turn
from marksweep.plugins import ContextUsage


class KeepLast:
    """Drops the middle of a conversation."""

    name = "gc_keep_last"

    def initialize(self, config: Mapping[str, object] | None = None) -> None:
        """Accept no options."""

    def shutdown(self) -> None:
        """Release nothing."""

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
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        """Drop the turns in between; the session counts the tokens that this frees."""
        turns = [at for at, message in enumerate(history) if starts_turn(message)]
        recent = turns[-config.preserve_recent_turns :]
        kept = [*history[: turns[0] + 1], *history[max(recent[0], turns[0] + 1) :]]
        tokens = budget.total_tokens() if budget else context_usage.get("total_tokens", 0)
        result = GCResult(
            success=True,
            items_collected=len(history) - len(kept),
            tokens_before=tokens,
            tokens_after=tokens,
            plugin_name=self.name,
            trigger_reason=reason,
        )
        return kept, result


session = Session(lambda messages: f"That is {len(messages)} messages.", context_limit=200)
session.set_gc_plugin(KeepLast(), GCConfig(preserve_recent_turns=3))
for number in range(12):
    print(session.send_message(f"Message {number}").text)
for result in session.get_gc_history():
    print(f"{result.plugin_name}: {result.items_collected} messages, {result.tokens_freed} tokens")
