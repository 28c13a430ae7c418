"""Builders: segments with defaults for everything a test does not care about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from marksweep.heaps.live_index import fingerprint_of
from marksweep.model import Segment, Snapshot

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
"""The current time in tests."""


def segment(
    segment_id: str,
    *,
    hours_old: float = 1.0,
    type: str = "note",
    tokens: int = 10,
    **fields: Any,  # noqa: ANN401
) -> Segment:
    """Build a segment of a given age."""
    then = NOW - timedelta(hours=hours_old)
    fields.setdefault("text", f"text of {segment_id}")
    return Segment(segment_id=segment_id, type=type, created_at=then, tokens=tokens, **fields)


def snapshot(*segments: Segment) -> Snapshot:
    """Build a snapshot of segments in this order."""
    return Snapshot(segments, fingerprint_of(segments))


class Clock:
    """A clock that moves only when advanced."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now

    def advance(self, **amount: float) -> None:
        """Advance by a timedelta."""
        self.now += timedelta(**amount)
