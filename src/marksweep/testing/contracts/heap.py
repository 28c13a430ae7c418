"""What every heap must do, as a test class to inherit.

    class TestMyHeap(HeapContract):
        @pytest.fixture
        def new_place(self, tmp_path: Path) -> NewPlace:
            return lambda: MyPlace(tmp_path)

A place is where one heap is stored. It is filled when created, can be opened any number of times,
and returns its content. `open` takes a function to call before and after every write to the heap
and the journal: there a test makes the program die.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import count, permutations
from typing import NamedTuple, Protocol

import pytest

from marksweep.collector import INTENTS, OPERATIONS, Collector
from marksweep.core.heap import Heap
from marksweep.errors import NotConfirmed, NotFound, PlanOutdated, StoreError
from marksweep.model import Entry, Event, Plan, Report
from marksweep.stores.base import Journal
from marksweep.testing.builders import NOW
from marksweep.testing.faults import Fault, Killed

LEAST_MOMENTS = 6
"""Minimum number of moments at which an operation is cut off: intent, change and outcome."""


def nothing_happens() -> None:
    """Pass a moment without a fault."""


class Place(Protocol):
    """Where a heap is stored, with enough for three sweeps, some of it in units of several."""

    @property
    def grace(self) -> timedelta:
        """How long deleted content can be restored."""
        ...

    def open(self, moment: Callable[[], None] = nothing_happens) -> tuple[Heap, Journal]:
        """Open the heap and its journal, as another program would."""
        ...

    def plan(self, heap: Heap) -> Plan:
        """Plan to sweep about a third of what may go, oldest first, without deletions."""
        ...

    def deletion(self, heap: Heap) -> Plan:
        """Plan to delete something."""
        ...

    def content(self) -> object:
        """Return everything that is live, for comparison."""
        ...

    def problems(self) -> Sequence[str]:
        """List faults in the live content: incomplete units, stand-ins beside their originals."""
        ...


NewPlace = Callable[[], Place]


class Opened(NamedTuple):
    """A place, and a collector on it."""

    place: Place
    heap: Heap
    journal: Journal
    collector: Collector

    def collect(self) -> tuple[Plan, Report]:
        """Plan and sweep."""
        plan = self.place.plan(self.heap)
        assert plan.steps, "the place has too little for this test"
        return plan, self.collector.collect(plan, now=NOW, confirm=plan.plan_id)


def opened(place: Place, moment: Callable[[], None] = nothing_happens) -> Opened:
    """Open a place with a collector, and recover what was cut off."""
    heap, journal = place.open(moment)
    collector = Collector(heap, journal)
    collector.recover(now=NOW)
    return Opened(place, heap, journal, collector)


class HeapContract:
    """What every heap must do: dry runs, sweeps, undo in any order, restore, purge, faults."""

    @pytest.fixture
    def new_place(self) -> NewPlace:
        """Return a function that makes a filled place."""
        raise NotImplementedError("override the fixture `new_place`")

    def test_a_plan_touches_nothing(self, new_place: NewPlace) -> None:
        """A dry run leaves content, size and journal as they were."""
        it = opened(new_place())
        before, size = it.place.content(), it.heap.size()
        plan = it.place.plan(it.heap)
        assert plan == it.place.plan(it.heap)
        assert (it.place.content(), it.heap.size()) == (before, size)
        assert it.journal.read(it.heap.journal_name) == ()
        assert (plan.unit, plan.workspace) == (it.heap.snapshot().unit, it.heap.workspace)

    def test_a_sweep_is_what_was_shown(self, new_place: NewPlace) -> None:
        """The sweep removes what the plan names, and the freed size is counted on the result."""
        it = opened(new_place())
        size = it.heap.size()
        plan, report = it.collect()
        shown = {name for step in plan.steps for name in step.segments}
        assert set(report.swept) == shown
        assert (report.size_before, report.size_after) == (size, it.heap.size())
        assert (plan.size_before, plan.size_after) == (size, it.heap.size())
        assert it.place.problems() == []
        events = [entry.event for entry in it.journal.read(it.heap.journal_name)]
        assert events == [Event.SWEPT, Event.SWEEPING]

    def test_a_plan_is_carried_out_once(self, new_place: NewPlace) -> None:
        """What is already gone is not swept again."""
        it = opened(new_place())
        plan, report = it.collect()
        with contextlib.suppress(PlanOutdated):
            again = it.collector.collect(plan, now=NOW, confirm=plan.plan_id)
            assert not set(again.swept) & set(report.swept)

    def test_undo_brings_everything_back(self, new_place: NewPlace) -> None:
        """A sweep is reversed as a whole, once, even by another program."""
        place = new_place()
        it = opened(place)
        before, size = place.content(), it.heap.size()
        plan, report = it.collect()
        again = opened(place)
        assert again.collector.latest() == plan.plan_id
        assert set(again.collector.undo(plan.plan_id, now=NOW)) >= set(report.swept)
        assert (place.content(), again.heap.size()) == (before, size)
        assert again.collector.latest() is None
        with pytest.raises(NotFound, match=plan.plan_id):
            again.collector.undo(plan.plan_id, now=NOW)

    @pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
    def test_undo_in_any_order_ends_at_the_start(
        self, new_place: NewPlace, order: tuple[int, ...]
    ) -> None:
        """Three sweeps are undone in any order, and every intermediate state is valid."""
        it = opened(new_place())
        before = it.place.content()
        plans = [it.collect()[0].plan_id for _ in range(3)]
        for n in order:
            with contextlib.suppress(NotFound):
                it.collector.undo(plans[n], now=NOW)
            assert it.place.problems() == []
        assert it.place.content() == before

    def test_what_was_swept_can_be_restored_piece_by_piece(self, new_place: NewPlace) -> None:
        """Single segments are restored, each with its unit; together they give the original."""
        it = opened(new_place())
        before = it.place.content()
        _, report = it.collect()
        waiting = set(report.swept)
        while waiting:
            name = min(waiting)
            back = it.collector.restore([name], now=NOW)
            assert name in back
            assert it.place.problems() == []
            waiting -= set(back)
        assert it.place.content() == before
        with pytest.raises(NotFound):
            it.collector.restore(["nothing-of-this-name"], now=NOW)

    def test_a_deletion_is_confirmed_kept_for_a_while_and_then_final(
        self, new_place: NewPlace
    ) -> None:
        """What was deleted is erased when its grace period is over, and not before."""
        it = opened(new_place())
        plan = it.place.deletion(it.heap)
        assert plan.deletes
        with pytest.raises(NotConfirmed):
            it.collector.collect(plan, now=NOW)
        swept = it.collector.collect(plan, now=NOW, confirm=plan.plan_id).swept
        almost, later = NOW + it.place.grace / 2, NOW + it.place.grace * 2
        assert it.collector.purge(now=almost) == ()
        assert set(it.collector.purge(now=later)) == set(swept)
        assert it.collector.purge(now=later) == ()
        with pytest.raises(NotFound):
            it.collector.undo(plan.plan_id, now=later)

    @pytest.mark.parametrize("error", [Killed, StoreError], ids=["killed", "failing"])
    @pytest.mark.parametrize("operation", ["collect", "undo", "restore", "purge"])
    def test_cut_off_at_any_moment_it_has_happened_or_it_has_not(
        self, new_place: NewPlace, operation: str, error: type[BaseException]
    ) -> None:
        """Whenever the program dies or the store fails, the next program finds a valid heap."""
        moments = 0
        for at in count(1):
            place = new_place()
            before, after, start = _prepared(place, operation)
            known = len(_operations(opened(place)))
            fault = Fault(at, error)
            with contextlib.suppress(Killed, StoreError):
                _do(opened(place, fault), operation)
            it = opened(place)
            assert place.problems() == []
            assert place.content() in (before, after), f"cut off at moment {at}"
            if operation != "purge":
                _tells_the_truth(it, known, happened=place.content() == after)
                _undo_everything(it)
                assert place.content() == start, f"cut off at moment {at}"
            if not fault.struck:
                break
            moments += 1
        assert moments >= (LEAST_MOMENTS if operation != "purge" else 2)


def _prepared(place: Place, operation: str) -> tuple[object, object, object]:
    """Prepare a place for an operation; return its content before, after and at the start.

    The result of a collection is found by collecting once and undoing it.
    """
    it = opened(place)
    start = place.content()
    if operation == "collect":
        _, report = it.collect()
        after = place.content()
        it.collector.undo(report.plan_id, now=NOW)
        return start, after, start
    if operation == "purge":
        plan = place.deletion(it.heap)
        it.collector.collect(plan, now=NOW, confirm=plan.plan_id)
        swept = place.content()
        return swept, swept, start
    it.collect()
    swept = place.content()
    return swept, start, start


def _do(it: Opened, operation: str) -> None:
    """Do one operation."""
    if operation == "collect":
        it.collect()
        return
    if operation == "purge":
        it.collector.purge(now=NOW + it.place.grace * 2)
        return
    latest = it.collector.latest()
    assert latest is not None
    if operation == "undo":
        it.collector.undo(latest, now=NOW)
    else:
        it.collector.restore(it.heap.kept_of(latest), now=NOW)


def _operations(it: Opened) -> tuple[Entry, ...]:
    return it.journal.read(it.heap.journal_name, events=OPERATIONS)


def _tells_the_truth(it: Opened, known: int, *, happened: bool) -> None:
    """Check that the journal records the outcome, and that nothing unswept is in the stash."""
    entries = _operations(it)
    assert not entries or entries[0].event not in INTENTS
    if len(entries) > known:
        assert (entries[0].event is not Event.ROLLED_BACK) == happened
    if len(entries) > known and not happened and entries[1].event is Event.SWEEPING:
        assert it.heap.kept_of(entries[0].plan_id) == ()


def _undo_everything(it: Opened) -> None:
    for plan_id in _swept(it.journal, it.heap.journal_name):
        with contextlib.suppress(NotFound):
            it.collector.undo(plan_id, now=NOW)


def _swept(journal: Journal, name: str) -> Iterator[str]:
    return (entry.plan_id for entry in journal.read(name, events=(Event.SWEPT,)))
