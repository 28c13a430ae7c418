"""Collections as OpenTelemetry spans and metrics. Needs the extra `otel`.

    Conversation(limit=100_000, watch=Telemetry().watch)      # or Segments(…, watch=…)
    session.set_gc_plugin(traced(load_gc_plugin("gc_budget")), config)

A traced plugin is a plugin: it does what the wrapped one does, and reports the outcome. Without a
tracer or meter provider in the process, reporting costs almost nothing.

    span       marksweep.gc.collect, with the attributes below
    counter    marksweep.gc.collections, marksweep.gc.tokens_freed
    histogram  marksweep.gc.duration, in seconds
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from marksweep.collector import Watch, unwatched
from marksweep.errors import BadInput
from marksweep.ledger import InstructionBudget
from marksweep.messages import Message
from marksweep.model import Plan, Report
from marksweep.plugins import base as plugins

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

SPAN = "marksweep.gc.collect"
COMPACTED = "gen_ai.conversation.compacted"
"""Whether the conversation was made shorter."""
PLUGIN = "marksweep.gc.plugin"
STRATEGY = "marksweep.gc.strategy"
HEAP = "marksweep.gc.heap"
TRIGGER = "marksweep.gc.trigger"
OUTCOME = "marksweep.gc.outcome"
"""One of collected, nothing, failed."""
TOKENS_BEFORE = "marksweep.gc.tokens.before"
TOKENS_AFTER = "marksweep.gc.tokens.after"
TOKENS_FREED = "marksweep.gc.tokens.freed"
ITEMS = "marksweep.gc.items"


Outcome = Callable[[int, int, int, bool], None]
"""Takes the tokens before and after, the number of items, and whether a collection failed."""


class Telemetry:
    """Reports collections as spans and metrics."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        """Use these providers, or those of the process."""
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise BadInput(
                "telemetry needs OpenTelemetry, which is not installed. Install marksweep[otel]."
            ) from error
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

    @contextmanager
    def watch(self, plan: Plan, trigger: str) -> Iterator[Callable[[Report], None]]:
        """Report a collection of a `Conversation` or of `Segments`."""
        labels = {STRATEGY: plan.strategy, HEAP: plan.heap, TRIGGER: trigger}
        with self.reporting(labels) as report_outcome:
            yield lambda report: report_outcome(
                report.size_before, report.size_after, len(report.swept), False
            )

    @contextmanager
    def reporting(self, labels: Mapping[str, str]) -> Iterator[Outcome]:
        """Report the block as one collection; without an outcome, it failed."""
        started = time.perf_counter()
        outcome = "failed"
        with self._tracer.start_as_current_span(SPAN, attributes=labels) as span:

            def report_outcome(before: int, after: int, items: int, failed: bool) -> None:
                nonlocal outcome
                freed = before - after
                outcome = "failed" if failed else "collected" if freed > 0 else "nothing"
                span.set_attributes(
                    {
                        COMPACTED: freed > 0,
                        OUTCOME: outcome,
                        TOKENS_BEFORE: before,
                        TOKENS_AFTER: after,
                        TOKENS_FREED: freed,
                        ITEMS: items,
                    }
                )
                self._freed.add(max(0, freed), labels)

            try:
                yield report_outcome
            finally:
                measured = {**labels, OUTCOME: outcome}
                self._collections.add(1, measured)
                self._duration.record(time.perf_counter() - started, measured)


def installed_watch() -> Watch:
    """Return a watch that reports a server's collections to the process's providers, if any."""
    try:
        return Telemetry().watch
    except BadInput:
        return unwatched


def traced(
    plugin: plugins.GCPlugin,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> TracedPlugin:
    """Wrap a plugin so that each of its collections is reported."""
    telemetry = Telemetry(tracer_provider=tracer_provider, meter_provider=meter_provider)
    return TracedPlugin(plugin, telemetry)


class TracedPlugin:
    """A plugin that reports what another one does."""

    def __init__(self, plugin: plugins.GCPlugin, telemetry: Telemetry) -> None:
        self._plugin = plugin
        self._telemetry = telemetry
        self.name = plugin.name
        self.initialize = plugin.initialize
        self.shutdown = plugin.shutdown
        self.should_collect = plugin.should_collect

    def collect(
        self,
        history: Sequence[Message],
        context_usage: plugins.ContextUsage,
        config: plugins.GCConfig,
        reason: plugins.GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], plugins.GCResult]:
        """Collect inside a span. What the plugin raises is recorded and raised again."""
        labels = {PLUGIN: self.name, TRIGGER: reason.value}
        given: dict[str, Any] = {"budget": budget} if plugins.takes_budget(self._plugin) else {}
        with self._telemetry.reporting(labels) as report_outcome:
            kept, result = self._plugin.collect(history, context_usage, config, reason, **given)
            items, failed = result.items_collected, not result.success
            report_outcome(result.tokens_before, result.tokens_after, items, failed)
            return kept, result
