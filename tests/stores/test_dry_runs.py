"""Dry runs do not make a store grow without bound."""

from __future__ import annotations

from pathlib import Path

from marksweep import Segments
from marksweep.model import Event
from marksweep.settings import Settings
from marksweep.settings.groups import Store
from marksweep.testing.builders import Clock, segment


def test_a_plan_that_is_shown_again_later_is_stored_once(tmp_path: Path) -> None:
    clock = Clock()
    heap = Segments(tmp_path / "store.db", limit=100, count_tokens=len, clock=clock)
    heap.add(*(segment(f"s{n}", text="x" * 20) for n in range(10)))
    heap.save(shown := heap.plan())
    size = heap.store.journal.size(heap.workspace)
    clock.advance(seconds=5)
    heap.save(again := heap.plan())
    assert again.plan_id == shown.plan_id
    assert again.made_at > shown.made_at
    assert heap.store.journal.size(heap.workspace) == size
    heap.close()


def test_how_many_shown_plans_are_kept_is_a_setting(tmp_path: Path) -> None:
    settings = Settings(store=Store(location=str(tmp_path / "store.db"), plans=3))
    heap = Segments(limit=100, count_tokens=len, settings=settings)
    for n in range(10):
        heap.add(segment(f"s{n}", text="x" * 20))
        heap.save(heap.plan())
    kept = heap.store.journal.read(heap.workspace, events=(Event.PLANNED,))
    assert len(kept) == 3
    heap.close()
