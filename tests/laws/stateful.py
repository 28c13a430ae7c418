"""The heap under random use, compared with a model that only knows what was added."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from marksweep.errors import MarksweepError, StoreError
from marksweep.model import Event, Hold, Link, Plan
from marksweep.segments import Segments
from marksweep.stores.base import Store
from marksweep.testing.builders import NOW, segment
from marksweep.testing.faults import Fault, FaultyStore, Killed

errors = st.sampled_from([Killed, StoreError])


class HeapMachine(RuleBasedStateMachine):
    """Add, link, pin, touch, collect, restore, undo, crash, reopen; nothing may be lost."""

    names = Bundle("names")

    def make_store(self, folder: Path) -> Store:
        """Open the store to test; subclasses define it."""
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.now = NOW
        self.added: dict[str, str] = {}
        self.pinned: set[str] = set()
        self.swept: list[Plan] = []
        self.store = self.make_store(Path(self.folder.name))
        self.heap = self.open(self.store)

    def open(self, store: Store) -> Segments:
        return Segments(store, limit=10**9, clock=self.next_time, count_tokens=len)

    def next_time(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    @rule(
        target=names,
        kind=st.sampled_from(["message", "log", "note", "decision", "code"]),
        text=st.sampled_from(["short", "漢字 🙂", "a\nb", "x" * 50]),
        refers=st.integers(0, 5),
    )
    def add(self, kind: str, text: str, refers: int) -> str:
        name = f"s{len(self.added)}"
        text = f"{name}: {text}"
        references = (f"s{max(0, len(self.added) - refers)}",) if refers else ()
        self.heap.add(
            segment(name, type=kind, text=text, tokens=0, references=references, hours_old=30)
        )
        self.added[name] = text
        return name

    @rule(name=names, other=names, hold=st.sampled_from(Hold))
    def link(self, name: str, other: str, hold: Hold) -> None:
        if self.heap.get(name) and self.heap.get(other):
            self.heap.link(name, other, Link.REFERS, hold)

    @rule(name=names)
    def touch(self, name: str) -> None:
        if self.heap.get(name):
            self.heap.touch(name)

    @rule(name=names)
    def pin(self, name: str) -> None:
        if self.heap.get(name):
            self.heap.pin(name, by="test")
            self.pinned.add(name)

    @rule(name=names)
    def unpin(self, name: str) -> None:
        if name in self.pinned:
            self.heap.unpin(name)
            self.pinned.discard(name)

    @rule(share=st.floats(0, 1))
    def collect(self, share: float) -> None:
        plan = self.heap.plan(target_tokens=int(self.heap.tokens * share))
        self.heap.collect(plan)
        if plan.steps:
            self.swept.append(plan)

    @rule(name=names)
    def restore(self, name: str) -> None:
        if not self.heap.get(name):
            self.heap.restore(name)

    @rule()
    def undo(self) -> None:
        if self.swept:
            plan = self.swept.pop()
            if self.store.stash.of_plan("default", plan.plan_id):
                self.heap.undo(plan.plan_id)

    @rule(at=st.integers(1, 8), error=errors)
    def crash_in_a_collection(self, at: int, error: type[BaseException]) -> None:
        def collect(heap: Segments) -> None:
            heap.collect(heap.plan(target_tokens=heap.tokens // 2))

        self._crash_in(collect, at, error)

    @rule(at=st.integers(1, 8), error=errors, name=names)
    def crash_in_a_restore(self, at: int, error: type[BaseException], name: str) -> None:
        self._crash_in(lambda heap: heap.restore(name), at, error)

    def _crash_in(
        self, work: Callable[[Segments], object], at: int, error: type[BaseException]
    ) -> None:
        dying = self.open(FaultyStore(self.store, Fault(at, error)))
        with contextlib.suppress(MarksweepError, Killed):
            work(dying)
        self.heap = self.open(self.store)

    @rule()
    def reopen(self) -> None:
        self.heap = self.open(self.store)

    @invariant()
    def everything_is_live_or_stashed_exactly_once(self) -> None:
        stashed = [hit.found.segment for hit in self.heap.search_stash(limit=10_000)]
        copies = [*self.heap.list(), *stashed]
        assert sorted((s.segment_id, s.text) for s in copies) == sorted(self.added.items())

    @invariant()
    def what_is_pinned_is_live(self) -> None:
        assert all(self.heap.get(name) for name in self.pinned)

    @invariant()
    def the_heap_is_in_order_and_adds_up(self) -> None:
        segments = self.heap.list()
        assert [s.segment_id for s in segments] == sorted(
            (s.segment_id for s in segments), key=lambda name: int(name[1:])
        )
        assert self.heap.tokens == sum(len(s.text) for s in segments)
        referred = [
            target
            for s in segments
            for target in {r.target for r in s.references if r.hold is not Hold.PAIRED}
            if target != s.segment_id
        ]
        assert all(s.refcount == referred.count(s.segment_id) for s in segments)

    @invariant()
    def the_journal_has_no_open_operation(self) -> None:
        for entry in self.heap.history(limit=1):
            assert entry.event not in (Event.SWEEPING, Event.RESTORING)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()
