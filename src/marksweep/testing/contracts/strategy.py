"""What every strategy must do, alone, in tiers and after a restart.

    class TestMine(StrategyContract):
        def choice(self) -> Choice:
            return Mine()

Laws are numbered as in the design. They are checked on random conversations in every provider's
format and on random working sets; roots and freed sizes are recomputed from the heap.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marksweep.collector import decide
from marksweep.conversation import Conversation
from marksweep.core.budget import Budget
from marksweep.core.laws import broken_laws
from marksweep.core.roots import Focus, find_roots
from marksweep.core.strategy import Learning, Strategy
from marksweep.dialects import validate
from marksweep.messages import Message
from marksweep.model import Plan, Pressure, Segment, Snapshot
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.registry import SEGMENT_TOOLS, Choice, MessageTools, strategy_of
from marksweep.testing.builders import Clock, snapshot
from marksweep.testing.heaps import foci, snapshots
from marksweep.testing.histories import valid

DIALECTS = ("openai_chat", "openai_responses", "anthropic", "gemini")
LAST_RESORT = "truncate"
"""The tier after the strategy: it takes whatever may go, oldest first."""

_law = settings(
    deadline=None,
    max_examples=max(10, settings().max_examples // 5),
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)

_dialects = st.sampled_from(DIALECTS)
_shares = st.integers(0, 100)
_LIMITS = (0, 10**9)
"""One that is always exceeded, so that PRESERVABLE segments may go, and one that never is."""
_places = st.sampled_from(("alone", "first of two tiers", "second of two tiers"))


class Observed:
    """What a learning strategy observed."""

    def __init__(self) -> None:
        self.observed: list[str] = []
        self.forgotten: list[str] = []
        self.learns = False

    def listening(self, choice: Choice) -> Choice:
        """Choose the same strategy, and record what it observes if it learns."""

        def make(tools: MessageTools) -> Strategy:
            strategy = strategy_of(choice, tools)
            self.learns = isinstance(strategy, Learning)
            return _Listening(strategy, self) if isinstance(strategy, Learning) else strategy

        return make


class _Listening:
    """A learning strategy, and what it observes."""

    def __init__(self, strategy: Learning, record: Observed) -> None:
        self._strategy = strategy
        self._record = record
        self.name = strategy.name
        self.rank = strategy.rank
        self.target = strategy.target
        self.recall = strategy.recall

    def observe(self, segments: Sequence[Segment]) -> None:
        self._record.observed += [segment.segment_id for segment in segments]
        self._strategy.observe(segments)

    def forget(self, segment_ids: Sequence[str]) -> None:
        self._record.forgotten += segment_ids
        self._strategy.forget(segment_ids)


class StrategyContract:
    """What every strategy must do. Inherit, and override `choice`."""

    def choice(self) -> Choice:
        """Return a new strategy, or a choice of one."""
        raise NotImplementedError

    @_law
    @given(data=st.data(), dialect=_dialects, share=_shares, place=_places)
    def test_laws_1_to_4_a_plan_keeps_what_must_stay_and_stops_at_its_target(
        self, data: st.DataObject, dialect: str, share: int, place: str
    ) -> None:
        talk = self._holding(data.draw(valid(dialect)), dialect, place)
        plan = talk.plan(talk.tokens * share // 100)
        _check(talk, plan)
        report = talk.collect(plan)
        assert report.size_after == talk.tokens == plan.size_after
        assert validate([message.raw for message in talk.history], dialect) == []

    @_law
    @given(data=st.data(), dialect=_dialects, share=_shares, place=_places)
    def test_law_5_a_second_collection_changes_nothing(
        self, data: st.DataObject, dialect: str, share: int, place: str
    ) -> None:
        messages = data.draw(valid(dialect))
        for limit in _LIMITS:
            talk = self._holding(messages, dialect, place)
            talk.budget = Budget.at_limit(limit)
            target = talk.tokens * share // 100
            talk.collect(talk.plan(target))
            assert talk.plan(target).steps == ()

    @_law
    @given(data=st.data(), dialect=_dialects, share=_shares, place=_places)
    def test_law_8_the_same_messages_give_the_same_plan(
        self, data: st.DataObject, dialect: str, share: int, place: str
    ) -> None:
        messages = data.draw(valid(dialect))
        first, second = (self._holding(messages, dialect, place) for _ in range(2))
        target = first.tokens * share // 100
        plan = first.plan(target)
        assert second.plan(target) == plan
        assert first.plan(target).steps == plan.steps

    @_law
    @given(data=st.data(), dialect=_dialects, share=_shares)
    def test_law_11_before_a_last_resort_everything_fits_that_can(
        self, data: st.DataObject, dialect: str, share: int
    ) -> None:
        messages = data.draw(valid(dialect))
        talk = self._holding(messages, dialect, "first of two tiers")
        target = talk.tokens * share // 100
        bare = _conversation(dialect, LAST_RESORT)
        bare.extend(messages)
        if bare.plan(target).short_by == 0:
            assert talk.plan(target).short_by == 0

    @_law
    @given(data=st.data(), dialect=_dialects, share=_shares, place=_places)
    def test_after_a_restart_the_laws_hold(
        self, data: st.DataObject, dialect: str, share: int, place: str
    ) -> None:
        store = MemoryStore()
        talk = self._holding(data.draw(valid(dialect)), dialect, place, store=store)
        target = talk.tokens * share // 100
        talk.collect(talk.plan(target))
        again = _conversation(dialect, self._placed(place), store=store)
        assert again.history == talk.history
        again.extend(data.draw(valid(dialect)))
        plan = again.plan(target)
        _check(again, plan)
        again.collect(plan)
        assert again.plan(target).steps == ()

    @_law
    @given(data=st.data(), dialect=_dialects, share=st.integers(10, 90), place=_places)
    def test_a_strategy_that_learns_is_told_of_each_segment_once(
        self, data: st.DataObject, dialect: str, share: int, place: str
    ) -> None:
        store = MemoryStore()
        first, again = Observed(), Observed()
        messages = data.draw(valid(dialect))
        talk = self._holding(messages, dialect, place, store=store, record=first)
        if not first.learns:
            return
        said = _ids(talk)
        talk.collect(talk.plan(talk.tokens * share // 100))
        talk.plan()
        left = _ids(talk)
        assert [name for name in first.observed if name in said] == said
        assert len(first.observed) == len(set(first.observed))
        assert sorted(first.forgotten) == sorted(set(said) - set(left))
        reopened = _conversation(dialect, again.listening(self._placed(place)), store=store)
        reopened.plan()
        assert set(left) <= set(again.observed)
        assert len(again.observed) == len(set(again.observed))
        assert not set(left) & set(again.forgotten)
        assert set(said) - set(left) <= set(again.forgotten)

    @_law
    @given(heap=snapshots(), share=_shares, focus=foci(), pressure=st.sampled_from([*Pressure]))
    def test_on_a_working_set_the_laws_hold(
        self, heap: Snapshot, share: int, focus: Focus, pressure: Pressure
    ) -> None:
        target = sum(segment.tokens for segment in heap.segments) * share // 100

        def plan(of: Snapshot) -> Plan:
            strategy = strategy_of(self.choice(), SEGMENT_TOOLS)
            return decide(of, strategy, target, focus, pressure=pressure)

        made = plan(heap)
        found = find_roots(heap.segments, focus)
        roots = {heap.segments[i].segment_id: reason for i, reason in found.items()}
        assert broken_laws(heap, roots, made) == ()
        assert plan(heap) == made
        assert plan(_swept(heap, made)).steps == ()

    def _placed(self, place: str) -> Choice:
        if place == "alone":
            return self.choice()
        own = self._own
        return (own, LAST_RESORT) if place.startswith("first") else ("superseded", own)

    def _own(self, tools: MessageTools) -> Strategy:
        return strategy_of(self.choice(), tools)

    def _holding(
        self,
        messages: Sequence[Any],
        dialect: str,
        place: str,
        *,
        store: MemoryStore | None = None,
        record: Observed | None = None,
    ) -> Conversation:
        choice = self._placed(place)
        talk = _conversation(dialect, record.listening(choice) if record else choice, store=store)
        for message in messages:
            talk.extend([message])
        return talk


def _conversation(dialect: str, choice: Choice, store: MemoryStore | None = None) -> Conversation:
    """Begin or reopen a conversation that collects only when asked."""
    return Conversation(
        limit=10**9, dialect=dialect, strategy=choice, counter=_weigh, clock=Clock(), store=store
    )


def _weigh(message: Message) -> int:
    """Return the size of a message's content; joined messages have the same total size."""
    return sum(len(json.dumps(part.raw)) for part in message.parts)


def _ids(talk: Conversation) -> list[str]:
    return [message.message_id for message in talk.history]


def _check(talk: Conversation, plan: Plan) -> None:
    context = talk.context()
    names = [segment.segment_id for segment in context.segments]
    roots = {names[i]: reason for i, reason in context.roots.items()}
    yields = {names[i]: far for i, far in context.yields.items()}
    limit = talk.budget.limit
    assert broken_laws(context.snapshot, roots, plan, yields=yields, limit=limit) == ()


def _swept(heap: Snapshot, plan: Plan) -> Snapshot:
    """Carry out a plan on a plain list."""
    left = {segment.segment_id: segment for segment in heap.segments}
    for step in plan.steps:
        for name in step.segments:
            del left[name]
        if step.replacement is not None:
            left[step.replacement.segment_id] = step.replacement
    return snapshot(*sorted(left.values(), key=lambda segment: segment.position))
