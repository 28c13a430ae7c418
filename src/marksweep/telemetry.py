"""Collections as OpenTelemetry spans and metrics. Needs the extra `otel`.

    session.set_gc_plugin(traced(load_gc_plugin("gc_budget")), config)

A traced plugin is a plugin: it does what the one inside does, and tells what came of it. Without a
tracer or meter provider configured in the process, telling costs next to nothing.

    span       marksweep.gc.collect, with the attributes below
    counter    marksweep.gc.collections, marksweep.gc.tokens_freed
    histogram  marksweep.gc.duration, in seconds
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marksweep.errors import BadInput
from marksweep.ledger import InstructionBudget
from marksweep.messages import Message
from marksweep.plugins.apply import takes_budget
from marksweep.plugins.base import ContextUsage, GCConfig, GCPlugin, GCResult, GCTriggerReason

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

SPAN = "marksweep.gc.collect"
COMPACTED = "gen_ai.conversation.compacted"
"""Whether the conversation was made shorter."""
PLUGIN = "marksweep.gc.plugin"
TRIGGER = "marksweep.gc.trigger"
OUTCOME = "marksweep.gc.outcome"
"""One of collected, nothing, failed."""
TOKENS_BEFORE = "marksweep.gc.tokens.before"
TOKENS_AFTER = "marksweep.gc.tokens.after"
TOKENS_FREED = "marksweep.gc.tokens.freed"
ITEMS = "marksweep.gc.items"


def traced(
    plugin: GCPlugin,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> TracedPlugin:
    """Wrap a plugin so that each of its collections is told."""
    return TracedPlugin(plugin, tracer_provider, meter_provider)


class TracedPlugin:
    """A plugin that tells what another one does."""

    def __init__(
        self,
        plugin: GCPlugin,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise BadInput(
                "telemetry needs OpenTelemetry, which is not installed. Install marksweep[otel]."
            ) from error
        self._plugin = plugin
        self._tracer = trace.get_tracer("marksweep", tracer_provider=tracer_provider)
        meter = metrics.get_meter("marksweep", meter_provider=meter_provider)
        self._collections = meter.create_counter(
            "marksweep.gc.collections", unit="{collection}", description="Collections run"
        )
        self._freed = meter.create_counter(
            "marksweep.gc.tokens_freed", unit="{token}", description="Tokens freed"
        )
        self._duration = meter.create_histogram(
            "marksweep.gc.duration", unit="s", description="Time a collection took"
        )

    @property
    def name(self) -> str:
        """The name of the plugin inside."""
        return self._plugin.name

    def initialize(self, config: Mapping[str, object] | None = None) -> None:
        """Pass the options on."""
        self._plugin.initialize(config)

    def shutdown(self) -> None:
        """Pass it on."""
        self._plugin.shutdown()

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Pass the question on."""
        return self._plugin.should_collect(context_usage, config)

    def collect(
        self,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        """Collect inside a span. What the plugin raises is told and raised again."""
        labels = {PLUGIN: self.name, TRIGGER: reason.value}
        given: dict[str, Any] = {"budget": budget} if takes_budget(self._plugin) else {}
        started = time.perf_counter()
        outcome = "failed"
        with self._tracer.start_as_current_span(SPAN, attributes=labels) as span:
            try:
                kept, result = self._plugin.collect(history, context_usage, config, reason, **given)
                outcome = _outcome(result)
                span.set_attributes(_attributes(result, outcome))
                self._freed.add(max(0, result.tokens_freed), labels)
                return kept, result
            finally:
                told = {**labels, OUTCOME: outcome}
                self._collections.add(1, told)
                self._duration.record(time.perf_counter() - started, told)


def _outcome(result: GCResult) -> str:
    if not result.success:
        return "failed"
    return "collected" if result.tokens_freed > 0 else "nothing"


def _attributes(result: GCResult, outcome: str) -> dict[str, str | int | bool]:
    return {
        COMPACTED: result.tokens_freed > 0,
        OUTCOME: outcome,
        TOKENS_BEFORE: result.tokens_before,
        TOKENS_AFTER: result.tokens_after,
        TOKENS_FREED: result.tokens_freed,
        ITEMS: result.items_collected,
    }
