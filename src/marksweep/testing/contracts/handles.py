"""What the contracts use: a store, further handles on it, and small builders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from marksweep.model import Segment, Stashed
from marksweep.stores.base import Journal, SegmentStore, Stash, Store

Opener = Callable[[], Store]
"""Opens another handle on the same place."""

Item = TypeVar("Item")

NOON = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
"""The current time in the contracts."""

HOSTILE_NAMES = (
    "",
    " ",
    "../../etc/passwd",
    "/absolute/name",
    "nul\x00nul",
    "it's; DROP TABLE segments; --",
    '"quoted" {braces} *star* %s %',
    "line\nbreak\r\n",
    "多语言 ünïcödé \U0001f600",
    "\u202eright to left",
    "lone \ud800 surrogate",
    "x" * 5_000,
)
"""Names that must work like any other, for workspaces, segments, plans and tags."""


class Handles:
    """The fixtures that all contracts share. Override `opener`."""

    @pytest.fixture
    def opener(self) -> Opener:
        """Return a function that opens another handle on the same place."""
        raise NotImplementedError("override the fixture `opener`")

    @pytest.fixture
    def another(self, opener: Opener) -> Iterator[Opener]:
        """Return the opener; what it opens is closed after the test."""
        opened: list[Store] = []

        def open_one() -> Store:
            opened.append(opener())
            return opened[-1]

        yield open_one
        for store in opened:
            store.close()

    @pytest.fixture
    def store(self, another: Opener) -> Store:
        """Return an empty store."""
        return another()

    @pytest.fixture
    def segments(self, store: Store) -> SegmentStore:
        """Return the store's live segments."""
        return store.segments

    @pytest.fixture
    def stash(self, store: Store) -> Stash:
        """Return the store's stash."""
        return store.stash

    @pytest.fixture
    def journal(self, store: Store) -> Journal:
        """Return the store's journal."""
        return store.journal


def segment(segment_id: str, text: str = "", **fields: object) -> Segment:
    """Make a segment, with defaults for the fields that are not given."""
    given = {"type": "note", "created_at": NOON, **fields}
    return Segment(segment_id=segment_id, text=text, **given)  # type: ignore[arg-type]


def stashed(segment_id: str, plan_id: str = "plan-1", text: str = "", **fields: object) -> Stashed:
    """Make a stash entry of such a segment."""
    return Stashed(segment(segment_id, text, **fields), plan_id, NOON, reason="it was old")


def later(**delta: float) -> datetime:
    """Return a time after NOON."""
    return NOON + timedelta(**delta)


class Torn(list[Item]):
    """A list whose iteration fails before the last item, like a process that fails during work."""

    def __iter__(self) -> Iterator[Item]:
        """Yield all but the last, then fail."""
        yield from self[:-1]
        raise RuntimeError("torn")
