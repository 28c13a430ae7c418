"""The clock that is read where no other is given."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
