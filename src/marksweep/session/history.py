"""The messages of a session: a conversation heap in a store, collected by the one collector.

What a GC plugin returns, built in or not, becomes a plan: what it removed is stashed, what it
changed is replaced, what it added is inserted. The plan is checked like any other before anything
happens. What must stay stays, pairs are never split, and the provider accepts the rest; a plugin
that would break this has failed, and the history is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count
from textwrap import shorten

import msgspec

from marksweep.collector import Collector
from marksweep.core.context import PlanningContext
from marksweep.core.plan import PlanBuilder
from marksweep.core.strategy import Proposal
from marksweep.dialects import validate
from marksweep.errors import NotFound, Refused
from marksweep.following import Follower
from marksweep.heaps.conversation import ConversationHeap
from marksweep.heaps.forms import NeutralForm
from marksweep.heaps.stash_search import Recalled, recalled
from marksweep.heaps.staying import SPOKEN, Protection
from marksweep.ledger.conversation import CREATED_BY, declaration
from marksweep.messages import SUMMARY, Counter, Message, TurnNumbers, is_summary, starts_turn
from marksweep.model import IN_PLACE, Action, GCPolicy, Plan, Pressure, Segment, utc_now
from marksweep.plugins.base import GCConfig, GCResult
from marksweep.stores.base import Store

EXCERPT_CHARS = 60
"""Characters by which an error quotes a message."""

replace = msgspec.structs.replace


class SessionHistory:
    """The live messages of a session, and what was collected from them."""

    def __init__(
        self, store: Store, workspace: str, *, dialect: str, counter: Counter, turns: TurnNumbers
    ) -> None:
        """Open a history; one that is in the store is continued."""
        self._store = store
        self._dialect = dialect
        self.heap = ConversationHeap(
            store, workspace, form=NeutralForm(dialect), counter=counter, turns=turns
        )
        self._collector = Collector(self.heap, store.journal, actor="session")
        self._collector.recover(now=utc_now())
        self._count_turns()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages as they would be sent."""
        return tuple(self.heap.messages())

    @property
    def tokens(self) -> int:
        """Tokens of all messages."""
        return self.heap.size()

    def count(self, message: Message) -> int:
        """Tokens of a message; those of a live one are known."""
        segment = self.heap.index.live.get(message.message_id)
        if segment is not None and self.heap.message(segment) is message:
            return segment.tokens
        return self.heap.counter(message)

    def summaries(self) -> int:
        """Return the highest number of a summary that is live or was removed."""
        numbers = count(1)
        while self.heap.is_taken(f"{SUMMARY}{(number := next(numbers))}"):
            pass
        return number - 1

    def append(self, message: Message) -> Message:
        """Add a message; one whose id is taken gets another."""
        if self.heap.is_taken(message.message_id):
            message = replace(message, message_id="")
        self.heap.append([message], "", utc_now())
        self.turns += starts_turn(message)
        return message

    def take_back(self, message: Message) -> None:
        """Remove a message if it is the last one, also what a collection kept of it."""
        messages = self.messages
        if messages and messages[-1].message_id == message.message_id:
            position = self.heap.live()[message.message_id].position
            Follower(self.heap, self._collector, self._store).rewind_to(position, utc_now())
            self._count_turns()

    def collect(self, returned: Sequence[Message], result: GCResult, config: GCConfig) -> Plan:
        """Turn what a plugin returned into a plan and carry it out; Refused if that may not be."""
        plan = _Changes(self.heap, returned, result, config).plan(utc_now())
        self._check(plan)
        self._collector.collect(plan, now=utc_now(), trigger=result.trigger_reason.value)
        self._count_turns()
        return plan

    def _check(self, plan: Plan) -> None:
        """Refuse a plan after which the provider would refuse the history."""
        found = _faults(self._after(plan), self._dialect)
        left = found - _faults(self.messages, self._dialect) if found else found
        if left:
            raise Refused(
                f"its provider would refuse the history it returned: {'; '.join(sorted(left))}"
            )

    def _after(self, plan: Plan) -> list[Message]:
        """Return the messages as they would be after a plan."""
        gone = {name for step in plan.steps for name in step.segments}
        put = [step.replacement for step in plan.steps if step.replacement is not None]
        stay = [s for s in self.heap.snapshot().segments if s.segment_id not in gone]
        left = sorted([*stay, *put], key=lambda s: (s.position, s.segment_id))
        return [self.heap.message(s) for s in left if s.type in SPOKEN]

    def undo(self) -> None:
        """Restore what the latest collection removed, also after a restart."""
        latest = self._collector.latest()
        if latest is None:
            raise NotFound("nothing was collected from this session, so there is nothing to undo.")
        self._collector.undo(latest, now=utc_now())
        self._count_turns()

    def recall(self, query: str, limit: int) -> list[Recalled]:
        """Find what collections took out and answers a question, in at most so many tokens."""
        live = self.heap.snapshot().segments
        return recalled(self._store.stash, self.heap.workspace, live, query, limit)

    def _count_turns(self) -> None:
        self.turns = sum(map(starts_turn, self.heap.messages()))


def _faults(messages: Sequence[Message], dialect: str) -> set[str]:
    return {f"{finding.rule}: {finding.what}" for finding in validate(list(messages), dialect)}


class _Changes:
    """What a plugin did to a history, derived from what it returned."""

    def __init__(
        self,
        heap: ConversationHeap,
        returned: Sequence[Message],
        result: GCResult,
        config: GCConfig,
    ) -> None:
        self._heap = heap
        self._result = result
        self._protection = Protection(
            whole_turns={n: f"in the pinned turn {n}" for n in config.pinned_turn_indices},
            words_room=0,
        )
        self._segments = [_released(s) for s in heap.snapshot().segments]
        self._index = {s.segment_id: i for i, s in enumerate(self._segments) if s.type in SPOKEN}
        self._reasons = {
            name: f"{result.plugin_name}: {item.reason}"
            for item in result.removal_list
            for name in item.message_ids
            if item.reason
        }
        if self._index and not returned:
            raise Refused("it returned an empty history.")
        apart = list(self._apart(returned))
        self._returned = {message.message_id: message for message in apart}
        kept = [self._index[name] for name in self._returned if name in self._index]
        if len(self._returned) < len(apart) or kept != sorted(kept):
            raise Refused("it returned messages twice, or in another order.")

    def _apart(self, returned: Sequence[Message]) -> Iterator[Message]:
        """Split messages that a plugin joined where it removed others, as some providers need."""
        names = {message.message_id for message in returned}
        for message in returned:
            start = self._index.get(message.message_id)
            rest = message.parts
            for segment in self._segments[start:] if start is not None else ():
                if segment.segment_id != message.message_id and segment.segment_id in names:
                    break
                one = self._heap.message(segment) if segment.segment_id in self._index else None
                if one is not None and rest[: len(one.parts)] == one.parts and one.parts:
                    yield one
                    rest = rest[len(one.parts) :]
                if not rest:
                    break
            if rest or not message.parts:
                yield message

    def plan(self, now: datetime) -> Plan:
        """Check what it did step by step, and refuse it if one step is not allowed."""
        snapshot = replace(self._heap.snapshot(), segments=tuple(self._segments))
        roots, yields = self._heap.staying(self._segments, self._protection, Pressure.HARD)
        context = PlanningContext(snapshot, roots, now, None, Pressure.HARD, yields=yields)
        self._refuse_roots(context)
        builder = PlanBuilder(context)
        for i in self._removed():
            name = self._segments[i].segment_id
            builder.take(Proposal((i,), Action.STASH, self._reason(name)))
        for i, message in self._changed():
            shorter = self._heap.revised(self._segments[i], message)
            if shorter.tokens >= self._segments[i].tokens:
                raise Refused(f"it changed {message.message_id} and did not make it shorter.")
            trimmed = Proposal((i,), Action.TRIM, self._reason(message.message_id), shorter)
            builder.take(trimmed, context.may_yield)
        for position, message in self._added():
            note = self._heap.stand_in(message, position, now)
            if is_summary(message):
                note = replace(note, tags=(declaration(CREATED_BY, self._result.plugin_name),))
            builder.add_note(Proposal((), Action.RECALL, self._reason(note.segment_id), note))
        plan = builder.plan(self._result.plugin_name)
        if plan.size_after > plan.size_before:
            raise Refused(
                f"it would leave {plan.size_after} tokens; there were {plan.size_before} before."
            )
        return plan

    def _refuse_roots(self, context: PlanningContext) -> None:
        """Refuse what was done to a root, but for a trim where its bulk yields to the limit."""
        trimmed = [i for i, _ in self._changed() if not context.may_yield((i,), Action.TRIM)]
        for i in (*self._removed(), *trimmed):
            if i in context.roots:
                segment = self._segments[i]
                said = shorten(segment.text, EXCERPT_CHARS, placeholder="…")
                raise Refused(
                    f"it removed or changed {segment.segment_id} ({said}), which must stay: "
                    f"{context.roots[i]}."
                )

    def _removed(self) -> list[int]:
        return [i for name, i in self._index.items() if name not in self._returned]

    def _changed(self) -> Iterator[tuple[int, Message]]:
        for name, message in self._returned.items():
            i = self._index.get(name)
            if i is not None and self._heap.message(self._heap.index.live[name]) != message:
                yield i, message

    def _added(self) -> Iterator[tuple[int, Message]]:
        """Return new messages, each with the position of removed ones, or after all others."""
        removed = set(self._removed())
        free: list[int] = []
        last = -1
        for message in self._returned.values():
            i = self._index.get(message.message_id)
            if i is not None:
                last, free = i, []
                continue
            free = free or [k for k in self._gap_after(last) if k in removed]
            if free:
                at = self._segments[free[0]].position
                free = free[1:] or free
            elif last == max(self._index.values(), default=-1):
                at = self._heap.next_position
            else:
                raise Refused(f"it put {message.message_id} between two messages that stay.")
            yield at, message

    def _gap_after(self, index: int) -> Iterator[int]:
        """Return the messages that follow one, up to the next that stays."""
        for i in range(index + 1, len(self._segments)):
            name = self._segments[i].segment_id
            if name in self._returned:
                return
            if name in self._index:
                yield i

    def _reason(self, name: str) -> str:
        trigger = f"{self._result.plugin_name}: {self._result.trigger_reason.value}"
        return self._reasons.get(name, trigger)


def _released(segment: Segment) -> Segment:
    """Return a segment whose owner, if any, was asked by the plugin."""
    if segment.policy is not GCPolicy.CONDITIONAL:
        return segment
    return replace(segment, policy=GCPolicy.PARTIAL)


def repairs(plan: Plan, returned: Sequence[Message]) -> tuple[str, ...]:
    """Describe what a plan removes beyond what a plugin removed: the mates of pairs."""
    kept = {message.message_id for message in returned}
    swept = [n for step in plan.steps if step.action not in IN_PLACE for n in step.segments]
    return tuple(f"{name} went too: it was one unit with others" for name in swept if name in kept)
