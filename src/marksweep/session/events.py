"""What a session reports to its host, as it happens."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

import msgspec

from marksweep.plugins.base import GCResult, GCTriggerReason

_log = logging.getLogger(__name__)


class Happened(StrEnum):
    """What an event reports."""

    COLLECTING = "collecting"
    """A collection starts."""
    COLLECTED = "collected"
    """A collection freed something."""
    FUTILE = "futile"
    """A collection freed nothing: there was nothing to do, or it failed."""
    OVERFLOW = "overflow"
    """The provider refused a request as too long."""
    REPAIRED = "repaired"
    """A plugin left a history that no provider accepts; it was repaired."""
    ANSWERED = "answered"
    """The model answered."""
    BUDGET = "budget"
    """The ledger has changed."""


class SessionEvent(msgspec.Struct, frozen=True):
    """One thing that happened."""

    happened: Happened
    text: str
    """For people to read."""
    reason: GCTriggerReason | None = None
    result: GCResult | None = None


Listener = Callable[[SessionEvent], None]


class Listeners:
    """The listeners of a session. One that fails affects neither the session nor the others."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        """Add a listener."""
        self._listeners.append(listener)

    def notify(self, event: SessionEvent) -> None:
        """Notify everyone."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # noqa: BLE001  whatever a host's listener raises
                _log.exception("a listener failed at %s", event.happened)
