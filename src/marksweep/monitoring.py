"""Monitoring of `serve --http` and `proxy`: /healthz and /metrics.

    /healthz   whether the server can work: 200, or 503 if its store is unavailable
    /metrics   the numbers of METRICS, in Prometheus' text format

Labels come from fixed sets, so the number of series is bounded, and none names a workspace.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import marksweep
from marksweep.collector import Notify
from marksweep.errors import MarksweepError, NotFound, Refused, StoreError
from marksweep.model import Plan, Report, Unit
from marksweep.telemetry import installed_watch

HEALTH_PATH = "/healthz"
METRICS_PATH = "/metrics"

SECONDS_TO_ANSWER = 3.0
"""How long a store may take to answer before it counts as unavailable."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
"""Upper bounds of the histogram, in seconds. More give finer percentiles, and take space."""

UNAVAILABLE = 503

METRICS = {
    "marksweep_info": ("gauge", "The version that runs."),
    "marksweep_store_up": ("gauge", "1 if the store answers, else 0."),
    "marksweep_stored_bytes": ("gauge", "Size of the store's files, or of its server's memory."),
    "marksweep_live_conversations": ("gauge", "Conversations or workspaces held open."),
    "marksweep_http_requests_total": ("counter", "HTTP requests answered, by class of status."),
    "marksweep_failures_total": (
        "counter",
        "Tool calls that failed, by cause; requests that the proxy passed on unchanged after one.",
    ),
    "marksweep_collections_total": ("counter", "Collections that freed something."),
    "marksweep_freed_tokens_total": ("counter", "Tokens freed by collections."),
    "marksweep_rewritten_requests_total": ("counter", "Requests that went out shorter."),
    "marksweep_saved_bytes_total": ("counter", "Bytes by which requests went out shorter."),
    "marksweep_input_tokens_total": ("counter", "Input tokens by the providers' own count."),
    "marksweep_operation_seconds": (
        "histogram",
        "Time of a tool call, or of a request in the proxy without its provider's time.",
    ),
}
"""Every metric: its kind and its meaning."""

SECONDS = "marksweep_operation_seconds"

Labels = tuple[tuple[str, str], ...]

logger = logging.getLogger(__name__)


class Reading(NamedTuple):
    """A value of a metric, with its labels."""

    metric: str
    value: float
    labels: Labels = ()


class Monitor:
    """The numbers and the health of one process. Thread-safe."""

    def __init__(self, read: Callable[[], Iterable[Reading]], measure: Callable[[], int]) -> None:
        """Take `read` for further numbers, and `measure` for the bytes stored or a StoreError."""
        self._read = read
        self._measure = measure
        self._lock = threading.Lock()
        self._counted: dict[tuple[str, Labels], float] = {}
        self._timed: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._watch = installed_watch()
        self._measuring: asyncio.Task[int] | None = None

    def count(self, metric: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        key = metric, tuple(labels.items())
        with self._lock:
            self._counted[key] = self._counted.get(key, 0) + by

    def took(self, operation: str, seconds: float) -> None:
        """Record how long an operation took."""
        with self._lock:
            buckets = self._timed.setdefault(operation, [0] * (len(BUCKETS) + 1))
            buckets[bisect_left(BUCKETS, seconds)] += 1
            self._seconds[operation] = self._seconds.get(operation, 0) + seconds

    @contextmanager
    def watch(self, plan: Plan, trigger: str) -> Iterator[Notify]:
        """Count a collection, and report it to OpenTelemetry."""

        def notify(report: Report) -> None:
            told(report)
            if report.freed > 0:
                self.count("marksweep_collections_total", heap=plan.heap)
            if report.freed > 0 and report.unit is Unit.TOKENS:
                self.count("marksweep_freed_tokens_total", report.freed, heap=plan.heap)

        with self._watch(plan, trigger) as told:
            yield notify

    async def stored_bytes(self) -> int:
        """Measure the store, once at a time; raise StoreError if it does not answer."""
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.create_task(asyncio.to_thread(self._measure))
        try:
            return await asyncio.wait_for(asyncio.shield(self._measuring), SECONDS_TO_ANSWER)
        except TimeoutError:
            raise StoreError(f"the store did not answer in {SECONDS_TO_ANSWER:g} s.") from None

    async def text(self) -> str:
        """Write everything in Prometheus' text format."""
        version = (("version", marksweep.__version__),)
        found = [*self._read(), Reading("marksweep_info", 1, version)]
        try:
            found.append(Reading("marksweep_stored_bytes", await self.stored_bytes()))
            found.append(Reading("marksweep_store_up", 1))
        except MarksweepError as error:
            logger.warning("metrics: %s", error)
            found.append(Reading("marksweep_store_up", 0))
        with self._lock:
            counted = sorted(self._counted.items())
            found += [Reading(name, value, tags) for (name, tags), value in counted]
            timed = [
                (name, list(accumulate(each)), self._seconds[name])
                for name, each in sorted(self._timed.items())
            ]
        lines: list[str] = []
        for metric, (kind, meaning) in METRICS.items():
            lines += [f"# HELP {metric} {meaning}", f"# TYPE {metric} {kind}"]
            lines += [_line(*each) for each in found if each.metric == metric]
        for operation, numbers, seconds in timed:
            lines += _histogram(operation, numbers, seconds)
        return "\n".join([*lines, ""])

    def routes(
        self,
        health: Callable[[str], tuple[int, Mapping[str, object]]],
        refuse: Callable[[Request], Response | None] = lambda _: None,
    ) -> list[Route]:
        """Return the two routes.

        `health` makes a response from the store's error, if any; `refuse` answers callers who may
        not read the metrics.
        """

        async def answer_health(_: Request) -> Response:
            problem = ""
            try:
                await self.stored_bytes()
            except MarksweepError as error:
                problem = "its store does not answer, or fails; see the log"
                logger.warning("health: %s", error)
            status, said = health(problem)
            return JSONResponse(said, status)

        async def answer_metrics(request: Request) -> Response:
            refusal = refuse(request)
            return refusal or PlainTextResponse(
                await self.text(), media_type="text/plain; version=0.0.4"
            )

        return [
            Route(HEALTH_PATH, answer_health, methods=["GET"]),
            Route(METRICS_PATH, answer_metrics, methods=["GET"]),
        ]

    def counted(self, app: ASGIApp) -> ASGIApp:
        """Count the requests that an application answers."""

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            async def count(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status = f"{message['status'] // 100}xx"
                    self.count("marksweep_http_requests_total", status=status)
                await send(message)

            await app(scope, receive, count)

        return call


def unhealthy_without_store(problem: str) -> tuple[int, Mapping[str, object]]:
    """Answer for a server that can do nothing without its store."""
    if problem:
        return UNAVAILABLE, {"status": "unavailable", "problem": problem}
    return 200, {"status": "ok"}


def cause_of(error: BaseException | None) -> str:
    """Classify an error, for a label."""
    if isinstance(error, StoreError):
        return "store"
    if isinstance(error, Refused):
        return "refused"
    return "input" if isinstance(error, ValueError | NotFound) else "internal"


def _line(name: str, value: float, labels: Labels = ()) -> str:
    shown = ",".join(f'{key}="{text}"' for key, text in labels)
    number = int(value) if float(value).is_integer() else value
    return f"{name}{{{shown}}} {number}" if shown else f"{name} {number}"


def _histogram(operation: str, numbers: list[int], seconds: float) -> Iterator[str]:
    """Write the histogram of one operation: cumulative counts by duration, sum and count."""
    label = ("operation", operation)
    for bound, number in zip((*map(str, BUCKETS), "+Inf"), numbers, strict=True):
        yield _line(f"{SECONDS}_bucket", number, (label, ("le", bound)))
    yield _line(f"{SECONDS}_sum", seconds, (label,))
    yield _line(f"{SECONDS}_count", numbers[-1], (label,))
