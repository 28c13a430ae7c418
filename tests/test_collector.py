"""The collector on a store that fails: an operation is completed or rolled back."""

from __future__ import annotations

from itertools import count

from marksweep import Segments
from marksweep.collector import INTENTS, OPERATIONS
from marksweep.errors import StoreError
from marksweep.stores.memory import MemoryStore
from marksweep.testing.builders import segment
from marksweep.testing.faults import FaultyStore

WORKSPACE = "w"


class FailsOnce:
    """Counts moments; fails once, at the n-th after it was armed."""

    def __init__(self) -> None:
        self.left = 0

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                raise StoreError("an injected fault")


def test_a_sweep_in_which_one_write_fails_is_settled_at_once() -> None:
    for at in count(1):
        store, fails = MemoryStore(), FailsOnce()
        context = Segments(FaultyStore(store, fails), workspace=WORKSPACE, limit=1_000)
        context.add(*(segment(f"s{n}", text="words of it") for n in range(4)))
        plan = context.plan(target_tokens=0)
        assert len(plan.steps) == 4
        fails.left = at
        try:
            is_told_done = bool(context.collect(plan).swept)
        except StoreError:
            is_told_done = False
        newest = store.journal.read(WORKSPACE, events=OPERATIONS, limit=1)
        assert is_told_done or not newest or newest[0].event not in INTENTS
        live = {each.segment_id for each in context.list()}
        assert len(live) in (0, 4)
        assert not (is_told_done and live)
        stashed = {hit.found.segment.segment_id for hit in context.search_stash(limit=10)}
        assert live.isdisjoint(stashed)
        assert len(live | stashed) == 4
        if fails.left:
            assert at > 8
            return


def test_a_sweep_is_done_once_the_heap_has_changed_whatever_the_journal_does() -> None:
    store, fails = MemoryStore(), FailsOnce()
    context = Segments(FaultyStore(store, fails), workspace=WORKSPACE, limit=1_000)
    context.add(segment("s", text="words of it"))
    plan = context.plan(target_tokens=0)
    # Intent, stash and heap are written, each with a moment before and after; then the outcome.
    fails.left = 7
    assert context.collect(plan).swept == ("s",)
    assert context.undo(plan.plan_id) == ("s",)
