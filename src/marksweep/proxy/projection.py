"""The body to send: the client's own bytes, or what is left of them after a sweep."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from marksweep.collector import Notify
from marksweep.conversation import COVERAGE, Conversation
from marksweep.dialects.base import parsed, spelled
from marksweep.dialects.gemini import without_repeats
from marksweep.dialects.history import LISTS, STORED
from marksweep.errors import in_a_line
from marksweep.fit import Fit, Fitted
from marksweep.model import Plan, Report, utc_now
from marksweep.monitoring import Labels, Reading
from marksweep.proxy import KEEP_DAYS
from marksweep.proxy.endpoints import is_subscription, session_of
from marksweep.proxy.usage import Usage
from marksweep.stores.base import Store
from marksweep.strategies.registry import Choice
from marksweep.telemetry import installed_watch

SECONDS_PER_DAY = 86_400

Difference = tuple[object, ...]
"""What tells one projection of a conversation from another: the same until the next sweep."""

logger = logging.getLogger("marksweep.proxy")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are handled."""

    limit: int
    strategy: Choice = COVERAGE
    is_dry_run: bool = False
    """Whether requests are sent unchanged, and the log says what would be swept."""
    forwards_only: bool = False
    """Whether requests are sent unchanged, without being read."""
    rewrites_subscriptions: bool = False
    keep_days: float = KEEP_DAYS
    """How long the store keeps a conversation without new messages."""


class Incoming(msgspec.Struct, frozen=True):
    """A request that asks a model."""

    dialect: str
    headers: Mapping[str, str]
    body: bytes
    model: str = ""
    """The model in its path, if the body does not name it."""
    address: str = "unknown"
    """The client's address."""

    @property
    def caller(self) -> str:
        """Return the client's program and address on one line, never its key."""
        program = " ".join(self.headers.get("user-agent", "unknown").split())[:60]
        return f"{program} at {self.address}"


class Outgoing(msgspec.Struct, frozen=True):
    """A body to send, and its conversation; None: the request was not read."""

    body: bytes
    conversation: Conversation | None = None
    is_changed: bool = False
    tokens: int = 0
    """Our count for the body; the provider's count is compared with it."""
    difference: Difference = ()
    """How it differs from the client's own."""


class Totals(msgspec.Struct):
    """What happened since the start."""

    requests: int = 0
    rewritten: int = 0
    """Requests that were sent shorter than they arrived."""
    collections: int = 0
    tokens_freed: int = 0
    """By all collections."""
    bytes_saved: int = 0
    """Bytes by which all requests together were shortened."""
    failures: int = 0
    """Requests sent unchanged because the proxy failed on them."""
    reported_tokens: int = 0
    """Input tokens by the provider's own count."""
    reported_cached: int = 0


class Projection:
    """Makes requests fit. Thread-safe; never raises."""

    def __init__(self, options: Options, store: Store | str | Path | None) -> None:
        self.options = options
        self.totals = Totals()
        self._lock = Lock()
        self._telemetry = installed_watch()
        self._expires_at = time.monotonic()
        """When to delete old conversations next."""
        self._refused: WeakKeyDictionary[Conversation, Difference] = WeakKeyDictionary()
        """Projections that a provider refused, of conversations that are open."""
        limit = options.limit
        more: dict[str, Any] = {"strategy": options.strategy, "actor": "proxy"}
        Conversation(limit=limit, **more)  # so that a bad option is reported now
        if not options.is_dry_run:
            more["watch"] = self._watch
        is_stored = not (options.is_dry_run or options.forwards_only)
        self.fit = Fit(limit, store=store if is_stored else "memory:", **more)

    def outgoing(self, incoming: Incoming) -> Outgoing:
        """Return the body to send for a request."""
        self._expire_daily()
        with self._lock:
            self.totals.requests += 1
        if self.options.forwards_only:
            return Outgoing(incoming.body)
        if is_subscription(incoming.headers) and not self.options.rewrites_subscriptions:
            return Outgoing(incoming.body)
        try:
            return self._projected(incoming)
        except Exception as error:  # noqa: BLE001 - whatever it is, the request is sent
            self.failed(error, incoming)
            return Outgoing(incoming.body)

    def _projected(self, incoming: Incoming) -> Outgoing:
        body, dialect = incoming.body, incoming.dialect
        request = parsed(body)
        field = LISTS[dialect]
        if not isinstance(request, dict) or any(request.get(name) for name in STORED):
            return Outgoing(body)
        given = request.get(field)
        if not isinstance(given, list) or not given:
            return Outgoing(body)
        if dialect == "gemini":
            request[field] = without_repeats(given)
        is_repaired = request[field] is not given
        model = str(request.get("model") or incoming.model)
        session = session_of(incoming.headers, request)
        fitted = self.fit.follow(request, session, dialect, model=model)
        talk = fitted.conversation
        if not fitted.is_changed and not is_repaired:
            return Outgoing(body, talk, tokens=fitted.tokens)
        sent = spelled({**request, field: [kept.message for kept in fitted.kept]})
        if self.options.is_dry_run:
            logger.info("dry run: %s bytes would go out as %s", f"{len(body):,}", f"{len(sent):,}")
            return Outgoing(body)
        difference = _difference(fitted)
        with self._lock:
            is_refused = self._refused.get(talk) == difference
            if not is_refused:
                self.totals.rewritten += 1
                self.totals.bytes_saved += len(body) - len(sent)
        if is_refused:
            self.failed(
                "the provider refused what is left of it; the next sweep is tried", incoming
            )
            return Outgoing(body)
        return Outgoing(sent, talk, is_changed=True, tokens=fitted.tokens, difference=difference)

    def refused(self, outgoing: Outgoing) -> None:
        """Note that a provider refused a body but not the client's own, so as not to try again."""
        if outgoing.conversation is not None:
            with self._lock:
                self._refused[outgoing.conversation] = outgoing.difference

    def _expire_daily(self) -> None:
        """Delete old conversations once a day, in the background."""
        with self._lock:
            if time.monotonic() < self._expires_at:
                return
            self._expires_at += SECONDS_PER_DAY
        Thread(target=self._expire, daemon=True).start()

    def _expire(self) -> None:
        try:
            deleted = self.fit.expire(utc_now() - timedelta(days=self.options.keep_days))
            if deleted:
                logger.info("deleted %s conversations without recent messages", deleted)
        except Exception as error:  # noqa: BLE001 - requests are still served
            logger.warning("old conversations could not be deleted: %s", in_a_line(error))

    def failed(self, error: object, incoming: Incoming) -> None:
        """Log a failure with workspace and caller in one line, without any content."""
        with self._lock:
            self.totals.failures += 1
        who = {"workspace": self._workspace(incoming), "client": incoming.caller}
        words = "passed through unchanged (workspace %s, client %s): %s"
        logger.warning(words, *who.values(), in_a_line(error), extra=who)

    def _workspace(self, incoming: Incoming) -> str:
        """Return the workspace of a request without using the store."""
        try:
            request = parsed(incoming.body)
            return self.fit.workspace_of(
                request, session_of(incoming.headers, request), incoming.dialect
            )
        except Exception:  # noqa: BLE001 - an unreadable body has no workspace
            return "unknown"

    def observed(self, outgoing: Outgoing, usage: Usage) -> None:
        """Record what the provider reported for a request; it calibrates the conversation."""
        with self._lock:
            self.totals.reported_tokens += usage.input_tokens
            self.totals.reported_cached += min(usage.cached_tokens or 0, usage.input_tokens)
        if outgoing.conversation is None:
            return
        try:
            outgoing.conversation.observe(usage.input_tokens, usage.cached_tokens, outgoing.tokens)
        except Exception as error:  # noqa: BLE001 - the answer is sent whole
            logger.warning("the reported usage was not recorded: %s", in_a_line(error))

    @contextmanager
    def _watch(self, plan: Plan, trigger: str) -> Iterator[Notify]:
        def notify(report: Report) -> None:
            record(report)
            self._collected(report)

        with self._telemetry(plan, trigger) as record:
            yield notify

    def _collected(self, report: Report) -> None:
        if report.tokens_freed > 0:
            with self._lock:
                self.totals.collections += 1
                self.totals.tokens_freed += report.tokens_freed
            logger.info(
                "collected %s: %s → %s tokens",
                report.plan_id,
                f"{report.tokens_before:,}",
                f"{report.tokens_after:,}",
            )

    def readings(self) -> list[Reading]:
        """Return the totals as metrics."""
        conversation: Labels = (("heap", "conversation"),)
        totals = self.totals
        uncached = totals.reported_tokens - totals.reported_cached
        return [
            Reading("marksweep_live_conversations", self.fit.open_count),
            Reading("marksweep_failures_total", totals.failures, (("cause", "passed_on"),)),
            Reading("marksweep_collections_total", totals.collections, conversation),
            Reading("marksweep_freed_tokens_total", totals.tokens_freed, conversation),
            Reading("marksweep_rewritten_requests_total", totals.rewritten),
            Reading("marksweep_saved_bytes_total", totals.bytes_saved),
            Reading("marksweep_input_tokens_total", totals.reported_cached, (("cached", "true"),)),
            Reading("marksweep_input_tokens_total", uncached, (("cached", "false"),)),
        ]

    def close(self) -> None:
        """Close the store."""
        self.fit.close()


def _difference(fitted: Fitted) -> Difference:
    changed = (kept.key for kept in fitted.kept if kept.is_changed)
    return fitted.passed - len(fitted.kept), *changed
