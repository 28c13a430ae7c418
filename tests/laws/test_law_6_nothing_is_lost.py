"""Law 6: what was swept can be restored, byte for byte and in place, until a deletion expires."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.errors import NotFound
from marksweep.heaps.segments import GRACE
from marksweep.model import Segment
from marksweep.segments import Segments
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.scored import Disposal
from marksweep.testing.builders import Clock, segment
from marksweep.testing.heaps import segment_lists


def content(heap: Segments) -> list[tuple[object, ...]]:
    """Return a segment without the counters that collections maintain."""
    return [
        (
            s.segment_id,
            s.text,
            s.type,
            s.created_at,
            s.last_touched_at,
            s.tokens,
            s.references,
            s.tags,
            s.file_path,
            s.position,
            s.refcount,
            s.pinned,
            s.policy,
        )
        for s in heap.list()
    ]


def heap_of(segments: list[Segment], shorten: bool = False) -> Segments:
    heap = Segments(
        MemoryStore(),
        limit=10**9,
        clock=Clock(),
        count_tokens=len,
        shorten=(lambda text: text[:3]) if shorten else None,
    )
    heap.add(*segments)
    return heap


@given(
    segments=segment_lists(min_size=1),
    target=st.integers(0, 2000),
    disposal=st.sampled_from(Disposal),
    shorten=st.booleans(),
)
def test_undo_brings_everything_back_in_place(
    segments: list[Segment], target: int, disposal: Disposal, shorten: bool
) -> None:
    heap = heap_of(segments, shorten)
    before = content(heap)
    plan = heap.plan(target_tokens=target, disposal=disposal)
    heap.collect(plan, confirm=plan.plan_id)
    if plan.steps:
        heap.undo(plan.plan_id)
    assert content(heap) == before
    assert heap.store.stash.count("default") == 0


@given(segments=segment_lists(min_size=1), data=st.data())
def test_restoring_one_by_one_in_any_order_gives_the_same_heap(
    segments: list[Segment], data: st.DataObject
) -> None:
    heap = heap_of(segments)
    before = content(heap)
    swept = heap.collect(heap.plan(target_tokens=0)).swept
    for name in data.draw(st.permutations(swept)):
        if heap.get(name) is None:
            assert name in heap.restore(name)
    assert content(heap) == before


@given(segments=segment_lists(min_size=1), targets=st.lists(st.integers(0, 2000), max_size=4))
def test_every_segment_ever_added_is_live_or_stashed_exactly_once(
    segments: list[Segment], targets: list[int]
) -> None:
    heap = heap_of(segments)
    for target in targets:
        heap.collect(heap.plan(target_tokens=target))
    for s in segments:
        live = heap.get(s.segment_id)
        stashed = heap.store.stash.get("default", [s.segment_id])
        copies = [*([live] if live else []), *(entry.segment for entry in stashed)]
        assert [copy.text for copy in copies] == [s.text]


def test_a_restored_segment_comes_back_with_its_links_both_ways() -> None:
    heap = heap_of([segment("a", references=("b",)), segment("b", references=("c",)), segment("c")])
    heap.collect(heap.plan_for(["b"]))
    assert heap.list()[0].references[0].target == "b"
    heap.restore("b")
    assert [s.refcount for s in heap.list()] == [0, 1, 1]


def test_a_deleted_segment_can_be_restored_until_the_grace_is_over() -> None:
    clock = Clock()
    heap = Segments(MemoryStore(), clock=clock)
    heap.add(segment("a", type="log"), segment("b", type="log"))
    plan = heap.plan(target_tokens=0, disposal=Disposal.DELETE)
    heap.collect(plan, confirm=plan.plan_id)
    clock.now += GRACE - timedelta(seconds=1)
    assert heap.purge() == ()
    heap.restore("a")
    clock.now += timedelta(seconds=1)
    assert heap.purge() == ("b",)
    with pytest.raises(NotFound, match="b"):
        heap.restore("b")
    assert heap.get("a") is not None


def test_what_is_stashed_never_expires() -> None:
    clock = Clock()
    heap = Segments(MemoryStore(), clock=clock)
    heap.add(segment("a"))
    heap.collect(heap.plan(target_tokens=0))
    clock.advance(days=10_000)
    assert heap.purge() == ()
    heap.restore("a")


def test_an_id_in_the_stash_cannot_be_taken_by_a_new_segment() -> None:
    heap = heap_of([segment("a")])
    heap.collect(heap.plan(target_tokens=0))
    with pytest.raises(ValueError, match="in the stash: a"):
        heap.add(segment("a", text="another"))


def test_undoing_twice_is_refused() -> None:
    heap = heap_of([segment("a")])
    plan = heap.plan(target_tokens=0)
    heap.collect(plan)
    heap.undo(plan.plan_id)
    with pytest.raises(NotFound, match=plan.plan_id):
        heap.undo(plan.plan_id)
