"""Laws 2 and 6 under random use: collect, undo, restore, reopen and die, in any order.

After every step the history is valid and no stand-in is live together with its original; undoing
everything restores the start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from marksweep.conversation import Conversation
from marksweep.core.budget import Budget
from marksweep.core.plan import plan_recall
from marksweep.core.strategy import Proposal
from marksweep.dialects import validate
from marksweep.errors import BadInput, NotFound, Refused, StoreError
from marksweep.model import Action, Event, Plan
from marksweep.segments import Segments
from marksweep.stores.memory import MemoryStore
from marksweep.testing.builders import Clock, segment
from marksweep.testing.faults import Fault, FaultyStore, Killed
from marksweep.testing.heaps import segment_lists
from marksweep.testing.histories import Answered, Call, Said, Script, render_script, valid
from tests.laws.talking import another, conversation, names, raws

moments = st.integers(1, 12)
errors = st.sampled_from([Killed, StoreError])


class Walk(RuleBasedStateMachine):
    """The base of both walks: applied plans, and stores that fail."""

    def begin(self) -> None:
        self.store = MemoryStore()
        self.plans: dict[str, Plan] = {}

    @property
    def workspace(self) -> str:
        raise NotImplementedError

    def reopen_on(self, store: Any) -> Any:
        raise NotImplementedError

    def during(self, work: Callable[[Any], object], at: int, error: type[BaseException]) -> None:
        """Work on a store that fails, then reopen it."""
        with contextlib.suppress(Killed, StoreError, NotFound):
            work(self.reopen_on(FaultyStore(self.store, Fault(at, error))))
        for entry in self.store.journal.read(self.workspace, events=(Event.SWEEPING,)):
            assert entry.plan
            self.plans.setdefault(entry.plan_id, entry.plan)

    def stashed(self) -> list[str]:
        found = [self.store.stash.of_plan(self.workspace, plan_id) for plan_id in self.plans]
        return sorted({entry.segment.segment_id for entries in found for entry in entries})

    def stand_ins(self) -> dict[str, set[str]]:
        """Map each stand-in to all that it replaces, according to the plans."""
        found: dict[str, set[str]] = {}
        for plan in self.plans.values():
            for step in plan.steps:
                if (
                    step.replacement is not None
                    and step.replacement.segment_id not in step.segments
                ):
                    found.setdefault(step.replacement.segment_id, set()).update(step.segments)
        for originals in found.values():
            for _ in found:
                originals |= {o for name in originals & found.keys() for o in found[name]}
        return found

    def live(self) -> set[str]:
        return {s.segment_id for s in self.store.segments.changes(self.workspace).put}

    def nothing_is_beside_its_original(self) -> None:
        live = self.live()
        for stand_in, originals in self.stand_ins().items():
            if stand_in in live:
                assert not originals & live, f"{stand_in} beside {originals & live}"


class ConversationWalk(Walk):
    """A conversation under random use."""

    dialect: ClassVar[str]

    @property
    def workspace(self) -> str:
        return "conversation"

    @initialize(data=st.data(), limit=st.sampled_from([10**9, 1]))
    def start(self, data: st.DataObject, limit: int) -> None:
        self.begin()
        self.limit = limit
        self.messages = data.draw(valid(self.dialect))
        self.talk = self.reopen_on(self.store)
        self.talk.extend(self.messages)

    def reopen_on(self, store: Any) -> Conversation:
        return conversation(
            self.dialect, "coverage", store=store, limit=self.limit, budget=Budget.of(self.limit)
        )

    def _collect(self, talk: Conversation, name: str, share: int) -> None:
        plan = talk.plan(talk.tokens * share // 100, strategy=another(talk, name))
        if plan.steps:
            self.plans[plan.plan_id] = plan
            talk.collect(plan)

    @rule(name=names, share=st.integers(0, 90))
    def collect(self, name: str, share: int) -> None:
        self._collect(self.talk, name, share)

    @rule()
    def page_in(self) -> None:
        plan = self.talk.plan_recall()
        if plan is not None:
            self.plans[plan.plan_id] = plan
            self.talk.collect(plan)

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        if self.plans:
            with contextlib.suppress(NotFound):
                self.talk.undo(data.draw(st.sampled_from(sorted(self.plans))))

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        if found := self.stashed():
            name = data.draw(st.sampled_from(found))
            with contextlib.suppress(NotFound):
                self.talk.restore(name)

    @rule(name=names, share=st.integers(0, 90), at=moments, error=errors)
    def die_in_a_collection(
        self, name: str, share: int, at: int, error: type[BaseException]
    ) -> None:
        self.during(lambda talk: self._collect(talk, name, share), at, error)
        self.talk = self.reopen_on(self.store)

    @rule(data=st.data(), at=moments, error=errors)
    def die_in_an_undo(self, data: st.DataObject, at: int, error: type[BaseException]) -> None:
        if self.plans:
            plan_id = data.draw(st.sampled_from(sorted(self.plans)))
            self.during(lambda talk: talk.undo(plan_id), at, error)
            self.talk = self.reopen_on(self.store)

    @rule()
    def reopen(self) -> None:
        self.talk = self.reopen_on(self.store)

    @invariant()
    def the_history_is_valid(self) -> None:
        assert validate(raws(self.talk), self.dialect) == []

    @invariant()
    def no_stand_in_is_beside_its_original(self) -> None:
        self.nothing_is_beside_its_original()

    def teardown(self) -> None:
        if not hasattr(self, "talk"):
            return
        with contextlib.suppress(NotFound):
            for _ in range(len(self.plans) + 1):
                self.talk.undo()
            pytest.fail("more can be undone than was done")
        assert raws(self.talk) == self.messages


class SegmentsWalk(Walk):
    """A working set under random use."""

    @property
    def workspace(self) -> str:
        return "default"

    @initialize(segments=segment_lists(min_size=3, max_size=12))
    def start(self, segments: Any) -> None:
        self.begin()
        self.heap = self.reopen_on(self.store)
        self.heap.add(*segments)
        self.before = self.content()

    def content(self) -> list[object]:
        return [(s.segment_id, s.text, s.tokens, s.references) for s in self.heap.list()]

    def reopen_on(self, store: Any) -> Segments:
        return Segments(
            store,
            limit=10**9,
            clock=Clock(),
            count_tokens=len,
            shorten=lambda text: text[: len(text) // 2],
        )

    def _collect(self, heap: Segments, share: int) -> None:
        plan = heap.plan(target_tokens=heap.tokens * share // 100)
        if plan.steps:
            self.plans[plan.plan_id] = plan
            heap.collect(plan)

    @rule(share=st.integers(0, 90))
    def collect(self, share: int) -> None:
        self._collect(self.heap, share)

    @rule(data=st.data())
    def compress(self, data: st.DataObject) -> None:
        live = [s for s in self.heap.list() if s.tokens > 2 and not s.pinned]
        if live:
            chosen = data.draw(st.sampled_from(live))
            with contextlib.suppress(BadInput, Refused):
                report = self.heap.compress(chosen.segment_id, chosen.text[: len(chosen.text) // 2])
                self.plans[report.plan_id] = self.heap.saved(report.plan_id)

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        if self.plans:
            with contextlib.suppress(NotFound):
                self.heap.undo(data.draw(st.sampled_from(sorted(self.plans))))

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        if found := self.stashed():
            with contextlib.suppress(NotFound):
                self.heap.restore(data.draw(st.sampled_from(found)))

    @rule(share=st.integers(0, 90), at=moments, error=errors)
    def die_in_a_collection(self, share: int, at: int, error: type[BaseException]) -> None:
        self.during(lambda heap: self._collect(heap, share), at, error)
        self.heap = self.reopen_on(self.store)

    @rule(data=st.data(), at=moments, error=errors)
    def die_in_an_undo(self, data: st.DataObject, at: int, error: type[BaseException]) -> None:
        if self.plans:
            plan_id = data.draw(st.sampled_from(sorted(self.plans)))
            self.during(lambda heap: heap.undo(plan_id), at, error)
            self.heap = self.reopen_on(self.store)

    @rule()
    def reopen(self) -> None:
        self.heap = self.reopen_on(self.store)

    @invariant()
    def units_are_whole(self) -> None:
        if not hasattr(self, "before"):
            return
        live = {s.segment_id for s in self.heap.list()}
        for stashed in self.stashed():
            for entry in self.store.stash.get(self.workspace, [stashed]):
                for reference in entry.segment.references:
                    if reference.hold == "paired" and stashed not in live:
                        assert reference.target not in live, f"{stashed} without its pair"

    @invariant()
    def no_stand_in_is_beside_its_original(self) -> None:
        self.nothing_is_beside_its_original()

    def teardown(self) -> None:
        if not hasattr(self, "before"):
            return
        for plan_id in [*self.plans, *self.plans]:
            with contextlib.suppress(NotFound):
                self.heap.undo(plan_id)
        assert self.content() == self.before
        assert self.store.stash.count(self.workspace) == 0


def test_undoing_a_trim_whose_call_went_with_its_result_brings_the_whole_pair() -> None:
    messages = render_script(PAIRS, "anthropic")
    talk = conversation("anthropic", "truncate")
    talk.extend(messages)
    trimmed = talk.plan(talk.tokens // 2, strategy=another(talk, "mask all"))
    talk.collect(trimmed)
    assert trimmed.steps
    talk.collect(talk.plan(0))
    talk.undo(trimmed.plan_id)
    assert validate(raws(talk), "anthropic") == []
    with contextlib.suppress(NotFound):
        talk.undo()
    assert raws(talk) == messages


def test_what_is_restored_comes_back_as_it_was_last() -> None:
    talk = conversation("anthropic", "truncate")
    talk.extend(render_script(PAIRS, "anthropic"))
    trimmed = talk.plan(talk.tokens // 2, strategy=another(talk, "mask all"))
    talk.collect(trimmed)
    short = raws(talk)
    swept = talk.plan(0)
    talk.collect(swept)
    assert raws(talk) != short
    talk.restore(*(name for step in swept.steps for name in step.segments))
    assert raws(talk) == short


def test_no_short_form_comes_back_beside_its_original() -> None:
    heap = Segments(MemoryStore(), limit=10**9, clock=Clock(), count_tokens=len)
    heap.add(segment("a", text="a long text", tokens=0))
    heap.compress("a", "short")
    swept = heap.plan_for(["a~1"])
    heap.collect(swept)
    heap.restore("a")
    with pytest.raises(NotFound):
        heap.undo(swept.plan_id)
    assert [s.segment_id for s in heap.list()] == ["a"]
    assert heap.store.stash.count("default") == 0


def test_a_pin_that_was_set_on_a_short_form_stays_when_the_original_is_back() -> None:
    messages = render_script(PAIRS, "openai_chat")
    talk = conversation("openai_chat", "truncate")
    talk.extend(messages)
    plan = talk.plan(talk.tokens // 2, strategy=another(talk, "mask all"))
    talk.collect(plan)
    (name,) = plan.steps[0].segments
    talk.pin(name)
    talk.undo(plan.plan_id)
    assert "pinned" in talk.why(name)
    assert raws(talk) == messages


def test_a_note_that_was_swept_does_not_outlive_the_undo_of_its_plan() -> None:
    talk = conversation("openai_chat", "coverage")
    talk.extend(render_script(PAIRS, "openai_chat"))
    before = raws(talk)
    heap = talk._heap
    context = talk.context(heap.size() + 100)
    last = len(context.segments) - 1
    note = segment("note", type="recalled", text="spoken of again", tokens=3, position=2)
    paged = plan_recall(context, Proposal((last,), Action.RECALL, "spoken of again", note))
    talk.collect(paged)
    swept = talk.plan(0, strategy="truncate")
    talk.collect(swept)
    assert "note" in {name for step in swept.steps for name in step.segments}
    talk.undo(paged.plan_id)
    talk.undo(swept.plan_id)
    assert raws(talk) == before
    assert talk.store.stash.count(talk.workspace) == 0


PAIRS = Script(
    (
        Said("fix it"),
        *(
            Answered(calls=(Call("read", {"path": f"{n}.py"}, f"row {n}\n" * 80),))
            for n in range(4)
        ),
        Answered("done"),
        Said("thanks"),
    )
)

WALK = settings(max_examples=40, stateful_step_count=12)


def walk(dialect: str) -> Any:
    machine: Any = type(f"Walk_{dialect}", (ConversationWalk,), {"dialect": dialect})
    case = machine.TestCase
    case.settings = WALK
    return case


TestOpenaiChat = walk("openai_chat")
TestOpenaiResponses = walk("openai_responses")
TestAnthropic = walk("anthropic")
TestGemini = walk("gemini")
TestSegments = SegmentsWalk.TestCase
TestSegments.settings = WALK
