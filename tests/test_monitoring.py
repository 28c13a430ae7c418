"""Health, metrics and OpenTelemetry of the servers, read by Prometheus' own parser."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from marksweep.monitoring import BUCKETS, METRICS, Monitor
from marksweep.proxy.projection import Incoming, Options, Projection
from marksweep.stores.redis import RedisStore
from marksweep.telemetry import SPAN, Telemetry
from tests.clients.upstream import Upstream
from tests.clients.upstream import serving as upstream_serving
from tests.mcp.support import Agent, agent
from tests.mcp.web import ADA, BOTH, Server, serving
from tests.proxy.test_proxy import grown, proxy, work
from tests.servers import running_redis


def parsed(text: str) -> dict[str, float]:
    """Read the text format; return every sample by its name and labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            key = sample.name + "".join(f" {k}={v}" for k, v in sorted(sample.labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def scraped(server: Server, token: str = "") -> dict[str, float]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = httpx2.get(server.address.replace("/mcp", "/metrics"), headers=headers)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(answer.raise_for_status().text)


def health(server: Server) -> httpx2.Response:
    return httpx2.get(server.address.replace("/mcp", "/healthz"), timeout=30)


def test_calls_collections_and_failures_are_counted(tmp_path: Path) -> None:
    async def use(server: Server) -> None:
        async with server.client(ADA) as client:
            one = Agent(client)
            await one.add("a", "b")
            await one.call("context_gc_prune", segment_ids=["a"])
            await one.fail("context_gc_prune", nonsense=1)

    with serving(tmp_path, BOTH) as server:
        asyncio.run(use(server))
        found = scraped(server, ADA)
    assert found["marksweep_operation_seconds_count operation=context_add"] == 1
    assert found["marksweep_operation_seconds_bucket le=+Inf operation=context_gc_prune"] == 1
    assert found["marksweep_collections_total heap=segments"] == 1
    assert found["marksweep_freed_tokens_total heap=segments"] > 50
    assert found["marksweep_failures_total cause=input"] == 1
    assert found["marksweep_http_requests_total status=2xx"] >= 3
    assert found["marksweep_live_conversations"] == 1
    assert found["marksweep_store_up"] == 1
    assert found["marksweep_stored_bytes"] > 4096


def test_metrics_need_a_token_and_health_does_not(tmp_path: Path) -> None:
    with serving(tmp_path, BOTH) as server:
        assert health(server).json() == {"status": "ok"}
        with pytest.raises(httpx2.HTTPStatusError, match="401"):
            httpx2.get(server.address.replace("/mcp", "/metrics")).raise_for_status()
        assert scraped(server, ADA)["marksweep_http_requests_total status=4xx"] == 1


def test_an_unreachable_store_is_reported_and_logged_with_the_caller_and_its_return_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def add(server: Server, name: str) -> None:
        async with server.client(ADA, "shared") as client:
            await Agent(client).add(name)

    async def fail_to_add(server: Server) -> None:
        async with server.client(ADA, "shared") as client:
            segment = {"text": "words", "type": "log", "segment_id": "b"}
            said = await Agent(client).fail("context_add", segments=[segment])
            assert "cannot be reached" in said

    with running_redis("--dir", str(tmp_path), "--appendonly", "yes") as url:
        port = url.rpartition(":")[2].partition("/")[0]
        with serving(tmp_path, BOTH, store=url) as server:
            asyncio.run(add(server, "a"))
            assert health(server).status_code == 200
            subprocess.run(["kill", "-9", str(redis_pid(url))], check=True)
            caplog.set_level(logging.WARNING)
            asyncio.run(fail_to_add(server))
            (outage,) = [each for each in caplog.records if "context_add failed" in each.message]
            assert vars(outage)["workspace"] == "shared"
            assert vars(outage)["client"].startswith("token ")
            assert ADA not in vars(outage)["client"]
            away = health(server)
            assert (away.status_code, away.json()["status"]) == (503, "unavailable")
            assert "127.0.0.1" not in away.text
            found = scraped(server, ADA)
            assert found["marksweep_store_up"] == 0
            assert found["marksweep_failures_total cause=store"] == 1
            again = ("--dir", str(tmp_path), "--appendonly", "yes")
            with running_redis(*again, port=int(port)):
                assert health(server).json() == {"status": "ok"}
                asyncio.run(add(server, "b"))


def redis_pid(url: str) -> int:
    import redis

    with redis.Redis.from_url(url) as server:
        return int(server.info("server")["process_id"])


def test_the_proxy_reports_what_it_did(tmp_path: Path) -> None:
    with (
        upstream_serving(Upstream(0, lambda _: "")) as upstream,
        proxy(tmp_path, upstream.url, "--limit", "3k") as running,
    ):
        history = work("a task that is measured", 12)
        grown(running, upstream, "anthropic", history)
        found = parsed(running.client.get(f"{running.url}/metrics").text)
        totals = running.totals
        assert found["marksweep_operation_seconds_count operation=anthropic"] >= 12
        assert found["marksweep_collections_total heap=conversation"] == totals["collections"] > 0
        assert found["marksweep_freed_tokens_total heap=conversation"] == totals["tokens_freed"]
        assert found["marksweep_saved_bytes_total"] == totals["bytes_saved"] > 0
        assert found["marksweep_live_conversations"] == 1
        assert found["marksweep_failures_total cause=passed_on"] == 0


def test_an_outage_of_the_proxys_store_is_logged_with_workspace_and_caller_and_passes(
    tmp_path: Path,
) -> None:
    history = work("a task during an outage", 6)
    who = {"user_agent": "an-agent/1.0", "x_claude_code_session_id": "morning"}
    kept = ("--dir", str(tmp_path), "--appendonly", "yes")
    with (
        upstream_serving(Upstream(0, lambda _: "")) as upstream,
        running_redis(*kept) as url,
        proxy(tmp_path, upstream.url, "--limit", "3k", "--store", url) as running,
    ):

        def sent(end: int) -> dict[str, float]:
            running.send("anthropic", history[:end], **who).raise_for_status()
            assert upstream.requests[-1].messages[-1] == history[end - 1]
            return parsed(running.client.get(f"{running.url}/metrics").text)

        found = sent(1)
        assert found["marksweep_store_up"] == 1
        subprocess.run(["kill", "-9", str(redis_pid(url))], check=True)
        found = sent(3)
        assert running.totals["status"] == "degraded"
        assert found["marksweep_store_up"] == 0
        assert found["marksweep_failures_total cause=passed_on"] == 1
        (outage,) = [line for line in running.log.splitlines() if "passed through" in line]
        (named,) = re.findall(r"\(workspace (\S+), client an-agent/1.0 at 127.0.0.1\)", outage)
        assert "cannot be reached" in outage
        port = int(url.rpartition(":")[2].partition("/")[0])
        with running_redis(*kept, port=port), closing(RedisStore(url)) as store:
            found = sent(5)
            assert found["marksweep_store_up"] == 1
            assert found["marksweep_failures_total cause=passed_on"] == 1
            assert running.totals["status"] == "ok"
            assert named in store.segments.workspaces()


def test_every_metric_is_there_with_its_meaning_and_histograms_add_up() -> None:
    monitor = Monitor(list, lambda: 17)
    for seconds in (0.0, 0.005, 0.3, 99.0):
        monitor.took("a tool", seconds)
    text = asyncio.run(monitor.text())
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) == {name.removesuffix("_total") for name in METRICS}
    found = parsed(text)
    prefix = "marksweep_operation_seconds"
    counts = [found[f"{prefix}_bucket le={bound} operation=a tool"] for bound in BUCKETS]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (2, 3)
    assert found[f"{prefix}_count operation=a tool"] == 4
    assert found[f"{prefix}_sum operation=a tool"] == pytest.approx(99.305)


def test_a_store_that_hangs_does_not_hang_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr("marksweep.monitoring.SECONDS_TO_ANSWER", 0.05)
    asked = []
    go_on = threading.Event()

    def measure() -> int:
        asked.append(1)
        go_on.wait(30)
        return 1

    async def ask() -> str:
        monitor = Monitor(list, measure)
        first = await monitor.text()
        assert "marksweep_store_up 0" in first
        second = await monitor.text()
        go_on.set()
        return second

    assert "marksweep_store_up 0" in asyncio.run(ask())
    assert len(asked) == 1


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    watch = Telemetry(tracer_provider=tracers).watch
    for module in ("marksweep.monitoring", "marksweep.proxy.projection"):
        monkeypatch.setattr(f"{module}.installed_watch", lambda: watch)
    return exporter


def test_the_proxy_reports_its_collections_as_spans(spans: InMemorySpanExporter) -> None:
    projection = Projection(Options(limit=3_000), "memory:")
    history = work("a task that is traced", 12)
    for end in range(1, len(history) + 1, 2):
        body = json.dumps({"model": "m", "messages": history[:end]}).encode()
        projection.outgoing(Incoming("anthropic", {}, body))
    found = spans.get_finished_spans()
    assert {span.name for span in found} == {SPAN}
    said = [dict(span.attributes or {}) for span in found]
    assert {each["marksweep.gc.heap"] for each in said} == {"conversation"}
    done = [each for each in said if each["marksweep.gc.outcome"] == "collected"]
    assert len(done) == projection.totals.collections > 0
    freed = sum(int(str(each["marksweep.gc.tokens.freed"])) for each in done)
    assert freed == projection.totals.tokens_freed


def test_a_server_reports_its_collections_as_spans(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    async def use() -> None:
        async with agent(tmp_path, "2026-07-28") as one:
            await one.add("a", "b")
            await one.call("context_gc_prune", segment_ids=["a"])

    asyncio.run(use())
    (span,) = spans.get_finished_spans()
    assert span.name == SPAN
    assert (span.attributes or {})["marksweep.gc.heap"] == "segments"
