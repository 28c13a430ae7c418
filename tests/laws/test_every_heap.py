"""Laws 1 to 8, written once and run over every heap: the same random walk on each.

A walk collects with any strategy of the face, undoes any sweep, restores any piece and reopens the
heap, in any order. The laws are checked at every step, and at the end everything is undone.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from marksweep.errors import NotFound, PlanOutdated
from marksweep.model import Plan
from marksweep.testing.builders import NOW
from marksweep.testing.heaps import segment_lists
from marksweep.testing.histories import valid
from tests.laws.talking import PROVIDERS
from tests.laws.worlds import ConversationWorld, GraphWorld, SegmentsWorld, World, collector_on

percents = st.integers(0, 110)
seeds = st.integers(0, 2**32)


class EveryHeap(RuleBasedStateMachine):
    """Random use of a heap through the one collector."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.plans: list[str] = []
        self.swept: set[str] = set()
        self.world: World | None = None

    def made(self, data: st.DataObject) -> World:
        raise NotImplementedError

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.world = self.made(data)
        self.open()
        self.before = self.world.content()
        self.held = self.world.held()

    @rule()
    def open(self) -> None:
        """Law 6 across a restart: the next program finds what this one left."""
        assert self.world
        self.heap, self.collector = collector_on(self.world)

    @rule(percent=percents, seed=seeds)
    def collect(self, percent: int, seed: int) -> None:
        world, heap = self.world, self.heap
        assert world
        before, size = world.content(), world.size()
        target = size * percent // 100
        plan = world.plan(target, Random(seed))
        assert world.content() == before, "law 7: a dry run changed something"
        assert world.plan(target, Random(seed)) == plan, "law 8: the same input, another plan"
        self._is_a_sound_plan(plan, size)
        report = self.collector.collect(plan, now=NOW, confirm=plan.plan_id)
        after = world.size()
        assert (report.size_before, report.size_after) == (size, after), "law 3: freed is real"
        assert plan.size_after == after, "law 3: what was shown is what was freed"
        assert heap.size() == after
        shown = {name for step in plan.steps for name in step.segments}
        assert set(report.swept) == shown, "law 7: what is applied is what was shown"
        assert world.plan(target, Random(seed)).steps == (), "law 5: a second plan is empty"
        if plan.steps:
            self.plans.append(plan.plan_id)
            self.swept |= shown

    def _is_a_sound_plan(self, plan: Plan, size: int) -> None:
        """Law 4: a plan stops at its target, or lists its blockers."""
        assert plan.size_before == size
        assert plan.size_after == size - sum(step.size for step in plan.steps)
        assert all(step.reason for step in plan.steps)
        if plan.steps:
            assert plan.size_after + plan.steps[-1].size > plan.target_size
        assert bool(plan.blockers) == (plan.size_after > plan.target_size)
        if plan.blockers:
            assert sum(blocker.size for blocker in plan.blockers) == plan.size_after

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        if self.plans:
            with contextlib.suppress(NotFound):
                self.collector.undo(data.draw(st.sampled_from(self.plans)), now=NOW)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        if self.swept:
            name = data.draw(st.sampled_from(sorted(self.swept)))
            with contextlib.suppress(NotFound):
                assert name in self.collector.restore([name], now=NOW)

    @rule(percent=percents, seed=seeds)
    def collect_an_old_plan(self, percent: int, seed: int) -> None:
        """Law 7: an outdated plan is refused, or takes only what it showed."""
        assert self.world
        old = self.world.plan(self.world.size() * percent // 100, Random(seed))
        self.collect(percent // 2, seed + 1)
        shown = {name for step in old.steps for name in step.segments}
        with contextlib.suppress(PlanOutdated):
            report = self.collector.collect(old, now=NOW, confirm=old.plan_id)
            assert set(report.swept) <= shown
            if report.swept:
                self.plans.append(old.plan_id)
                self.swept |= shown

    @invariant()
    def what_must_stay_stays(self) -> None:
        """Law 1."""
        if self.world:
            assert self.world.held() == self.held

    @invariant()
    def what_is_left_is_sound(self) -> None:
        """Law 2."""
        if self.world:
            assert list(self.world.problems()) == []

    def teardown(self) -> None:
        """Law 6: whatever happened, undoing everything ends where it began."""
        if self.world is not None and hasattr(self, "before"):
            for plan_id in [*self.plans, *self.plans]:
                with contextlib.suppress(NotFound):
                    self.collector.undo(plan_id, now=NOW)
            assert self.world.content() == self.before
        if isinstance(self.world, GraphWorld):
            self.world.close()
        self.folder.cleanup()


class EverySegments(EveryHeap):
    def made(self, data: st.DataObject) -> World:
        return SegmentsWorld(data.draw(segment_lists(min_size=3, max_size=14)))


class EveryConversation(EveryHeap):
    def made(self, data: st.DataObject) -> World:
        dialect = data.draw(st.sampled_from(PROVIDERS))
        return ConversationWorld(data.draw(valid(dialect)), dialect)


class EveryGraph(EveryHeap):
    def made(self, data: st.DataObject) -> World:
        return GraphWorld(Path(self.folder.name), Random(data.draw(seeds)))


def walk(machine: Any, examples: int) -> Any:
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=10)
    return case


TestSegments = walk(EverySegments, 40)
TestConversations = walk(EveryConversation, 40)
TestGraph = walk(EveryGraph, 15)
