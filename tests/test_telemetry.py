"""Collections recorded as spans and metrics, read back from the real SDK."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from marksweep.conversation import Conversation
from marksweep.errors import PlanOutdated
from marksweep.messages import Message
from marksweep.plugins import GCConfig, GCPlugin, GCResult, GCTriggerReason, load_gc_plugin
from marksweep.segments import Segments
from marksweep.session import Session
from marksweep.stores.memory import MemoryStore
from marksweep.telemetry import Telemetry, TracedPlugin, traced
from marksweep.testing.builders import segment
from tests.plugins.histories import full, talk, words

CONFIG = GCConfig(threshold_percent=50, preserve_recent_turns=2)


class Recorded:
    """Recorded spans and metrics, in memory."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.meters = MeterProvider([self.reader])

    def telemetry(self) -> Telemetry:
        return Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)

    def wrap(self, plugin: GCPlugin) -> TracedPlugin:
        return traced(plugin, tracer_provider=self.tracers, meter_provider=self.meters)

    def span(self) -> dict[str, Any]:
        (span,) = self.spans.get_finished_spans()
        return {"name": span.name, **(span.attributes or {})}

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: metric.data.data_points[0]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def collect(plugin: GCPlugin, limit: int) -> tuple[list[Message], GCResult]:
    history = talk(10)
    return plugin.collect(history, full(history, limit), CONFIG, GCTriggerReason.THRESHOLD)


def test_a_collection_is_a_span_that_says_the_conversation_was_compacted(
    recorded: Recorded,
) -> None:
    _, result = collect(recorded.wrap(load_gc_plugin("gc_truncate")), limit=1000)
    assert recorded.span() == {
        "name": "marksweep.gc.collect",
        "gen_ai.conversation.compacted": True,
        "marksweep.gc.plugin": "gc_truncate",
        "marksweep.gc.trigger": "threshold",
        "marksweep.gc.outcome": "collected",
        "marksweep.gc.tokens.before": result.tokens_before,
        "marksweep.gc.tokens.after": result.tokens_after,
        "marksweep.gc.tokens.freed": result.tokens_freed,
        "marksweep.gc.items": result.items_collected,
    }


def test_a_collection_is_counted_and_timed(recorded: Recorded) -> None:
    _, result = collect(recorded.wrap(load_gc_plugin("gc_truncate")), limit=1000)
    metrics = recorded.metrics()
    assert metrics["marksweep.gc.collections"].value == 1
    assert metrics["marksweep.gc.collections"].attributes["marksweep.gc.outcome"] == "collected"
    assert metrics["marksweep.gc.tokens_freed"].value == result.tokens_freed
    assert metrics["marksweep.gc.duration"].sum > 0


def test_a_collection_that_frees_nothing_says_so(recorded: Recorded) -> None:
    collect(recorded.wrap(load_gc_plugin("gc_truncate")), limit=1_000_000)
    assert recorded.span()["marksweep.gc.outcome"] == "nothing"
    assert recorded.span()["gen_ai.conversation.compacted"] is False


def test_a_plugin_that_raises_is_reported_as_failed_and_the_error_goes_on(
    recorded: Recorded,
) -> None:
    plugin = load_gc_plugin("gc_truncate")

    def broken(*args: object, **named: object) -> object:
        raise ZeroDivisionError("oops")

    plugin.collect = broken  # type: ignore[method-assign,assignment]
    with pytest.raises(ZeroDivisionError):
        collect(recorded.wrap(plugin), limit=1000)
    assert (
        recorded.metrics()["marksweep.gc.collections"].attributes["marksweep.gc.outcome"]
        == "failed"
    )
    (span,) = recorded.spans.get_finished_spans()
    assert not span.status.is_ok


def test_a_traced_plugin_is_a_plugin_and_runs_in_a_session(recorded: Recorded) -> None:
    plugin = recorded.wrap(load_gc_plugin("gc_budget"))
    assert isinstance(plugin, GCPlugin)
    chat = Session(lambda _: "ok " * 20, context_limit=1000, counter=words)
    chat.set_gc_plugin(plugin, CONFIG)
    for _ in range(40):
        chat.send_message("w " * 30)
    collected = [result for result in chat.get_gc_history() if result.tokens_freed]
    assert recorded.metrics()["marksweep.gc.collections"].value >= len(collected) > 0
    assert chat.get_gc_history()[0].plugin_name == "gc_budget"


def test_a_watched_conversation_reports_each_collection(recorded: Recorded) -> None:
    talk = Conversation(limit=400, strategy="truncate", watch=recorded.telemetry().watch)
    talk.extend([{"role": "user", "content": f"question {n} " * 20} for n in range(20)])
    before = talk.tokens
    left = talk.messages
    span = recorded.span()
    assert span["marksweep.gc.heap"] == "conversation"
    assert span["marksweep.gc.strategy"] == "truncate"
    assert span["marksweep.gc.trigger"] == "threshold"
    assert span["gen_ai.conversation.compacted"] is True
    assert span["marksweep.gc.tokens.before"] == before
    assert span["marksweep.gc.tokens.after"] == talk.tokens
    said = [message for message in left if "left out" not in message["content"]]
    assert span["marksweep.gc.items"] == 20 - len(said)


def test_a_watched_collection_that_is_refused_is_reported_as_failed(recorded: Recorded) -> None:
    segments = Segments(MemoryStore(), limit=100, watch=recorded.telemetry().watch)
    segments.add(*(segment(f"s{n}", text=f"note {n} " * 30) for n in range(8)))
    plan = segments.plan()
    segments.touch("s0")
    with pytest.raises(PlanOutdated):
        segments.collect(plan)
    span = recorded.spans.get_finished_spans()[-1]
    assert not span.status.is_ok
    assert (
        recorded.metrics()["marksweep.gc.collections"].attributes["marksweep.gc.outcome"]
        == "failed"
    )


def test_without_opentelemetry_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from marksweep.plugins import load_gc_plugin\n"
        "from marksweep.telemetry import traced\n"
        "try: traced(load_gc_plugin('gc_truncate'))\n"
        "except ValueError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert "marksweep[otel]" in run.stdout
