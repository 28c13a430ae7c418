"""Law 9: cost grows linearly, and an incremental step does not grow with the heap.

Counted in calls of the interpreter, not in seconds: the count is the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from marksweep.collector import decide
from marksweep.core.roots import Focus
from marksweep.model import Segment
from marksweep.segments import Segments
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.scored import Scored
from marksweep.testing.builders import NOW, Clock, segment, snapshot


def calls(work: Callable[[], object]) -> int:
    """Count the Python and C calls that `work` makes."""
    count = 0

    def tick(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tick)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def populated(size: int, limit: int) -> Segments:
    heap = Segments(MemoryStore(), limit=limit, clock=Clock())
    heap.add(*working_set(size))
    heap.touch("s0")
    return heap


def working_set(size: int) -> list[Segment]:
    return [
        segment(
            f"s{n}",
            hours_old=n % 89,
            type=("message", "log", "code", "note")[n % 4],
            references=(f"s{n // 2}",) if n % 5 else (),
            tags=("shared", f"tag{n % 50}"),
            topic_id=f"topic{n % 20}",
        )
        for n in range(size)
    ]


def steps(heap: Segments, count: int) -> list[int]:
    """Count the calls of each of these additions, in ascending order."""
    counts = []
    for n in range(count):
        new = segment(f"new{n}", hours_old=0, type="log", references=(f"s{n}",), topic_id="topic1")
        counts.append(calls(lambda new=new: heap.add(new)))  # type: ignore[misc]
    return sorted(counts)


def test_a_step_below_the_soft_limit_does_not_grow_with_the_heap() -> None:
    small, large = (steps(populated(size, limit=10**9), 25)[12] for size in (200, 10_000))
    assert large <= 1.3 * small


def test_a_step_that_collects_does_not_grow_with_the_heap() -> None:
    def most_expensive(size: int) -> int:
        heap = populated(size, limit=int(size * 10 / 0.945))
        before = heap.store.stash.count("default")
        last = steps(heap, 3)[-1]
        assert heap.store.stash.count("default") >= before + 20
        return last

    assert most_expensive(10_000) <= 1.5 * most_expensive(1_000)


def test_planning_grows_linearly_even_if_all_share_a_tag() -> None:
    focus = Focus(now=NOW, task_id="t")
    heaps = [snapshot(*working_set(size)) for size in (500, 5_000)]
    small, large = (
        calls(lambda heap=heap: decide(heap, Scored(), 0, focus))  # type: ignore[misc]
        for heap in heaps
    )
    assert large <= 12 * small


def test_a_sweep_of_named_segments_does_not_grow_with_the_heap() -> None:
    def sweep(size: int) -> int:
        heap = populated(size, limit=10**9)
        return calls(lambda: heap.collect(heap.plan_for(["s7", "s11"])))

    assert sweep(10_000) <= 1.1 * sweep(200)
