"""Law 5: a second collection changes nothing; a futile pass backs off, and the back-off ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.budget import LONGEST_WAIT, Budget
from marksweep.core.roots import Focus
from marksweep.core.strategy import Strategy
from marksweep.model import Event, Pressure, Segment, Snapshot
from marksweep.segments import Segments
from marksweep.stores.memory import MemoryStore
from marksweep.testing.builders import Clock, segment, snapshot
from marksweep.testing.heaps import foci, segment_lists, snapshots, targets
from tests.laws.planning import every_strategy, plan_of


def applied(
    heap: Snapshot, plan_steps: tuple[tuple[tuple[str, ...], Segment | None], ...]
) -> Snapshot:
    """Apply steps to a plain list, without a heap."""
    left = {s.segment_id: s for s in heap.segments}
    for names, replacement in plan_steps:
        position = min(left[name].position for name in names)
        for name in names:
            del left[name]
        if replacement is not None:
            left[replacement.segment_id] = replacement
            assert replacement.position >= position
    return snapshot(*sorted(left.values(), key=lambda s: s.position))


@every_strategy
@given(heap=snapshots(), target=targets, focus=foci())
def test_a_second_plan_right_after_the_first_is_empty(
    strategy: Strategy, heap: Snapshot, target: int, focus: Focus
) -> None:
    first = plan_of(heap, strategy, target, focus, Pressure.SOFT)
    after = applied(heap, tuple((step.segments, step.replacement) for step in first.steps))
    assert plan_of(after, strategy, target, focus, Pressure.SOFT).steps == ()


@given(segments=segment_lists(min_size=1), target=st.integers(0, 2000))
def test_a_second_collection_right_after_the_first_changes_nothing(
    segments: list[Segment], target: int
) -> None:
    heap = Segments(MemoryStore(), limit=10**9, clock=Clock())
    heap.add(*segments)
    heap.collect(heap.plan(target_tokens=target))
    before = (heap.list(), heap.store.stash.count("default"))
    again = heap.collect(heap.plan(target_tokens=target))
    assert again.swept == ()
    assert (heap.list(), heap.store.stash.count("default")) == before


def test_a_heap_of_roots_over_its_limit_does_not_collect_on_every_change() -> None:
    heap = Segments(MemoryStore(), limit=100, clock=Clock())
    heap.focus(task="t")
    heap.add(*(segment(f"s{n}", task_id="t", tokens=50) for n in range(20)))
    passes = 0
    plan = heap.plan

    def counted(**options: object) -> object:
        nonlocal passes
        passes += 1
        return plan(**options)  # type: ignore[arg-type]

    heap.plan = counted  # type: ignore[method-assign,assignment]
    for _ in range(200):
        heap.touch("s0")
    assert 0 < passes <= 10
    assert len(heap.list()) == 20


def test_the_back_off_after_a_futile_pass_ends_by_itself() -> None:
    clock = Clock()
    heap = Segments(MemoryStore(), budget=Budget.of(100), clock=clock)
    heap.add(*(segment(f"s{n}", pinned=True, tokens=50) for n in range(4)))
    for _ in range(50):
        heap.touch("s0")
    assert len(heap.list()) == 4
    for n in range(4):
        heap.unpin(f"s{n}")
    for _ in range(LONGEST_WAIT + 1):
        heap.touch("s0")
    assert heap.tokens <= 60
    assert heap.history()[0].event is Event.SWEPT
