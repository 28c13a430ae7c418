"""One collection of a history: the conversation heap over it, a plan, and the history afterwards.

history without notices → heap in memory, with what the ledger counts beside it
→ roots, target, pressure from the request → the one planner → the one collector
→ messages of the heap, with a notice where the first one went
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from marksweep.collector import Collector
from marksweep.core.budget import Due, is_time
from marksweep.core.budget import due as due_at
from marksweep.core.context import PlanningContext
from marksweep.core.plan import make_plan
from marksweep.core.strategy import Strategy
from marksweep.heaps.forms import InMemoryForm
from marksweep.heaps.staying import RECENT_EXCHANGES, SPOKEN, Protection, words_room
from marksweep.ledger import InstructionBudget, InstructionSource, SourceEntry
from marksweep.ledger.declared import DeclaredCounts
from marksweep.messages import (
    NOTICE,
    SUMMARY,
    Message,
    Part,
    Role,
    count_message,
    made_by_collection,
    starts_turn,
    turn_name,
    turn_number,
)
from marksweep.model import IN_PLACE, Action, GCPolicy, Hold, Plan, Pressure, Snapshot, utc_now
from marksweep.plugins.base import ContextUsage, GCConfig, GCRemovalItem, GCTriggerReason
from marksweep.plugins.options import Notice, Options
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.last_resort import FitByTrimming
from marksweep.summarizers import transcript
from marksweep.summarizers.digesting import Digester

FULL_BASIS_POINTS = 10_000
"""What a full context is measured as: usage counts in hundredths of a percent."""

OVERFLOW_SHARE = 0.75
"""Share that may be left when a provider refused a request that should have fitted. The count was
too low, so the limit says nothing. Higher frees less, and the next try may fail too.
"""

DEFERRABLE = frozenset({GCTriggerReason.THRESHOLD, GCTriggerReason.CONTINUOUS})
"""Reasons for a collection that leave room to wait."""

replace = msgspec.structs.replace


class Request(msgspec.Struct, frozen=True):
    """What a plugin was asked to collect."""

    plugin: str
    history: Sequence[Message]
    usage: ContextUsage
    config: GCConfig
    reason: GCTriggerReason
    budget: InstructionBudget | None
    """The budget that was passed in, if one was."""
    options: Options

    @property
    def pressure(self) -> Pressure:
        """The pressure of the collection."""
        if self.reason is GCTriggerReason.OVERFLOW:
            return Pressure.HARD
        usage = self.usage
        if self.budget is not None and "percent_used" not in usage:
            usage = {"percent_used": self.budget.utilization_percent()}
        limits = self.config.limits(FULL_BASIS_POINTS)
        return max(Pressure.SOFT, limits.pressure_at(used_of(usage)))

    def target(self, total: int) -> int:
        """Tokens that may be left of so many.

        Where no limit is known, all that is not protected goes. Tokens that the host reports but
        that are not in the history cannot be collected, so they lower the target.
        """
        if self.reason is GCTriggerReason.TURN_LIMIT:
            return 0
        most = int(total * OVERFLOW_SHARE) if self.reason is GCTriggerReason.OVERFLOW else total
        return max(0, min(self._allowed(total, self.config.target_percent), most))

    def limit(self, total: int) -> int | None:
        """Tokens that must not be exceeded; None if so many do not.

        If a provider refused the request, our count was too low, and the target is the limit.
        """
        if self.reason is GCTriggerReason.OVERFLOW:
            return self.target(total)
        limit = self.window(total)
        is_over = self.reason is not GCTriggerReason.TURN_LIMIT and 0 < limit < total
        return limit if is_over else None

    def window(self, total: int) -> int:
        """Tokens of the window that the history may use, of which it has so many; 0 if unknown."""
        return self._allowed(total, 100.0)

    def _allowed(self, total: int, share: float) -> int:
        """Tokens of so many that are within a share of the window."""
        window = self.budget.context_limit if self.budget else self.usage.get("context_limit", 0)
        percent = self.usage.get("percent_used", 0.0)
        if window:
            unseen = 0 if self.budget else max(0, self.usage.get("total_tokens", 0) - total)
            return int(window * share / 100) - unseen
        return int(total * share / percent) if percent else 0

    def should_wait(self, plan: Plan) -> bool:
        """Whether to wait: nobody asked for a collection, and the prompt cache is worth more."""
        most = self.options.pays_within_turns
        if most is None or self.reason not in DEFERRABLE:
            return False
        is_cold = self.usage.get("is_cache_cold", False)
        wanted = Due.FULL if is_cold or self.pressure is Pressure.HARD else Due.STEP
        return bool(plan.steps) and not is_time(wanted, plan.cost, most)


class ExternalEntry(msgspec.Struct, frozen=True):
    """An entry of the ledger that is not part of the history."""

    source: InstructionSource
    key: str | None
    entry: SourceEntry

    @property
    def segment_id(self) -> str:
        """Its id in the heap."""
        return f"{self.source}/{self.key or ''}"

    @property
    def tokens(self) -> int:
        """What it takes of the window."""
        return self.entry.total_tokens()


class Run:
    """A history as a heap, until it is collected."""

    def __init__(self, request: Request, ledger: InstructionBudget, form: InMemoryForm) -> None:
        self.request = request
        self.ledger = ledger
        self._counter = ledger.counter or count_message
        said: list[Message] = []
        self._notices: list[Message] = []
        for message in request.history:
            is_notice = _notice_number(message) > 0
            # No notice is put before all other messages: the user typed it.
            if is_notice and all(each.role is Role.SYSTEM for each in said):
                is_notice = False
            (self._notices if is_notice else said).append(message)
        messages, self.renamed = _with_unique_ids(said)
        self.counts = ledger.declared_counts(messages, self._counter)
        self._counter = self.counts or self._counter
        external = _external_entries(request.budget, self.counts)
        self.external = {entry.segment_id: entry for entry in external}
        released = self._released()
        self.heap = ledger.heap_of(messages, self._counter, form, released)
        self._add_external(released)
        self.before: Snapshot = self.heap.snapshot()
        self.tokens_before = self.heap.size() + sum(map(self._counter, self._notices))
        self.tokens_after = self.tokens_before
        self.history = list(request.history)
        self.notification: str | None = None
        self.digester = Digester(
            request.options.summarizer,
            weigh=self.heap.weigh,
            render=lambda segments: transcript([self.heap.message(s) for s in segments]),
            label=lambda: f"{SUMMARY}{ledger.next_summary()}",
        )
        self._full_target = target = request.target(self.tokens_before)
        weight = self._notice_weight()
        self._notifies = 0 < weight < self.tokens_before - target
        room = max(0, target - weight) if self._notifies else target
        self._target = room if self.tokens_before > target else self.heap.size()
        limit = request.limit(self.tokens_before)
        self._limit = None if limit is None else max(self._target, limit - weight)

    def plan(self, strategy: Strategy) -> Plan:
        """Decide what would go."""
        now, segments = utc_now(), self.before.segments
        pressure = self.request.pressure
        roots, yields = self.heap.staying(segments, self._protection(), pressure)
        if self.counts is not None:
            declared = self._declared_roots(self.counts, now)
            roots = declared | roots
            yields = {i: far for i, far in yields.items() if i not in declared}
        context = PlanningContext(
            self.before,
            roots,
            now,
            self._target,
            pressure,
            limit=self._limit,
            yields=yields,
            is_cache_cold=self.request.usage.get("is_cache_cold", False),
        )
        last_resort = FitByTrimming(self.heap.texts, self.heap.trimmed)
        lines = self.heap.gaps() if self.counts is None else None  # a host cannot count a line
        plan = make_plan(context, strategy, last_resort=last_resort, lines=lines)
        is_missed = plan.size_after > self._target
        if self._notifies and is_missed and _without_lines(plan) <= self._full_target:
            self._notifies = False  # a notice would be what misses the target
            context = context.aiming_at(self._full_target)
            plan = make_plan(context, strategy, last_resort=last_resort, lines=lines)
        return plan

    def carry_out(self, plan: Plan, removed: Sequence[GCRemovalItem]) -> None:
        """Do what a plan says; the history and its tokens are then new.

        A notice is put where the first message went, in place of any earlier one, but not before
        all that is left, nor between a call and its result. It is left out if only schemas and
        enrichment went, which the model does not miss, or if results became lines, which say it
        themselves.
        """
        Collector(self.heap, MemoryStore().journal).collect(plan, now=plan.made_at)
        if all(name in self.external for step in plan.steps for name in step.segments):
            self.tokens_after = self.tokens_before - plan.tokens_freed
            return
        at = {s.segment_id: s.position for s in self.before.segments}
        whole = [
            at[name]
            for step in plan.steps
            for name in step.segments
            if step.action not in IN_PLACE and name not in self.external
        ]
        begins = self._begins()
        free = (n for n in sorted(whole) if n > begins and not self._is_inside_pair(n))
        place = next(free, None) if self._notifies else None
        notice = None if place is None else self._notice(plan, removed)
        if notice is not None and place is not None:
            self.heap.insert(notice, place, plan.made_at)
            self.notification = notice.text
        messages = self.heap.messages()
        self.tokens_after = self._weigh(messages)
        self.history = [
            replace(m, message_id=self.renamed[m.message_id]) if m.message_id in self.renamed else m
            for m in messages
        ]

    def _begins(self) -> int:
        """Return the position of the first message that is left and not the system's."""
        spoken = [s for s in self.heap.snapshot().segments if s.type in SPOKEN]
        said = (s.position for s in spoken if self.heap.message(s).role is not Role.SYSTEM)
        return next(said, self.heap.next_position)

    def _is_inside_pair(self, position: int) -> bool:
        """Whether a message there would separate a result from its call."""
        live = self.heap.index.live
        return any(
            live[reference.target].position < position < segment.position
            for segment in live.values()
            for reference in segment.references
            if reference.hold is Hold.PAIRED and reference.target in live
        )

    def _weigh(self, messages: Sequence[Message]) -> int:
        """Count what is left. Joined messages take slightly fewer tokens than separate ones."""
        spoken = [s for s in self.heap.snapshot().segments if s.type in SPOKEN]
        if len(messages) == len(spoken):
            return self.heap.size()
        beside = self.heap.size() - sum(segment.tokens for segment in spoken)
        return beside + sum(map(self._counter, messages))

    def _protection(self) -> Protection:
        """Say which turns are spared. A turn limit is about turns alone: all but the oldest are."""
        config = self.request.config
        whole = {number: f"in the pinned turn {number}" for number in config.pinned_turn_indices}
        if self.request.reason is GCTriggerReason.TURN_LIMIT:
            whole |= dict.fromkeys(self._turns_to_keep(), "within the turn limit")
        exchanges = RECENT_EXCHANGES if self.counts is None else 0  # a host says so by its policies
        room: int | None = 0
        if self.request.reason is not GCTriggerReason.TURN_LIMIT:
            window = self.request.window(self.tokens_before)
            room = words_room(window) if window else None
        return Protection(config.preserve_recent_turns, whole, exchanges, room)

    def _declared_roots(self, counts: DeclaredCounts, now: datetime) -> dict[int, str]:
        """Say what else stays where the host keeps the budget: messages it does not count, and the
        newest of the turns that name no messages."""
        config, segments = self.request.config, self.before.segments
        declared = self.ledger.declared(InstructionSource.CONVERSATION)
        turns = [key for key, e in declared.items() if e.gc_policy is GCPolicy.PARTIAL]
        recent = config.preserve_recent_turns
        spared = {*(turns[-recent:] if recent else ()), *map(turn_name, config.pinned_turn_indices)}
        roots: dict[int, str] = {}
        for members in PlanningContext(self.before, {}, now).units:
            names = [segments[i].segment_id for i in members]
            entry = self.external.get(names[0])
            if entry is None:
                if not any(map(counts.names, names)):
                    roots |= dict.fromkeys(members, "the budget does not count it")
            elif entry.source is InstructionSource.CONVERSATION and entry.key in spared:
                roots[members[0]] = "in a recent or pinned turn"
        return roots

    def _turns_to_keep(self) -> list[int]:
        """Number the turns that stay, so that the turn limit is met with room to spare.

        The room is that between target and threshold: without it every new turn would be one too
        many. The first turn holds the first request, so what else is in it goes first.
        """
        config = self.request.config
        starts = [m.message_id for m in self.request.history if starts_turn(m)]
        turns = [self.ledger.turns.number(start) for start in starts]
        most = config.max_turns if config.max_turns is not None else len(turns)
        excess = len(turns) - int(most * config.target_percent / config.threshold_percent)
        recent = config.preserve_recent_turns
        spared = {*config.pinned_turn_indices, *(turns[-recent:] if recent else ())}
        removable = [number for number in turns[1:] if number not in spared]
        if excess <= 0 or not removable:
            return turns
        last_to_go = removable[min(excess, len(removable)) - 1]
        return [*(n for n in turns if n in spared), *turns[turns.index(last_to_go) + 1 :]]

    def _released(self) -> frozenset[str]:
        """Ask the owners of CONDITIONAL entries which may go."""
        said = self.ledger.declared(InstructionSource.CONVERSATION)
        entries = [*said.items(), *((e.key or e.source, e.entry) for e in self.external.values())]
        return frozenset(
            key
            for key, entry in entries
            if entry.gc_policy is GCPolicy.CONDITIONAL
            and self.request.options.owner_agrees(key, entry)
        )

    def _add_external(self, released: frozenset[str]) -> None:
        """Include what is outside the history in the same plan.

        A turn limit leaves it alone.
        """
        for name, item in self.external.items():
            policy = item.entry.gc_policy
            if self.request.reason is GCTriggerReason.TURN_LIMIT:
                policy = GCPolicy.LOCKED
            elif (item.key or item.source) in released:
                policy = GCPolicy.EPHEMERAL
            came = datetime.fromtimestamp(item.entry.created_at, UTC)
            self.heap.set_overhead(name, item.source.value, item.tokens, came, policy=policy)

    def _notice(self, plan: Plan, removed: Sequence[GCRemovalItem]) -> Message | None:
        """Make the notice to the model, if it takes fewer tokens than were freed."""
        number = max([0, *map(_notice_number, self._notices)]) + 1
        gone = {name for step in plan.steps for name in step.segments}
        touched = {s.topic_id for s in self.before.segments if s.segment_id in gone}
        topics = {s.topic_id for s in self.before.segments}
        turns = {topic for topic in topics if turn_number(topic) >= 0}
        items = [item for item in removed if item.source is InstructionSource.CONVERSATION]
        said = Notice(
            items=len(items),
            tokens=plan.tokens_freed,
            before=plan.tokens_before,
            summarized=sum(item.reason.endswith("summarized") for item in items),
            kept=len(turns - touched),
        )
        message = self._worded(number, said)
        return message if self._counter(message) < plan.tokens_freed else None

    def _notice_weight(self) -> int:
        """Return the most tokens a notice takes; 0 if notices are off."""
        if not self.request.options.notify_on_gc:
            return 0
        return self._counter(self._worded(10**6, Notice(10**6, 10**9, 10**9, 10**6, 10**6)))

    def _worded(self, number: int, said: Notice) -> Message:
        request = self.request
        text = request.options.notice(said, plugin=request.plugin, reason=request.reason)
        name = f"{NOTICE}{number}"
        return Message(Role.USER, (Part(text=f"[{name}] {text}"),), name)


def used_of(usage: ContextUsage) -> int:
    """Return how full the context is, as a share of FULL_BASIS_POINTS."""
    return int(usage.get("percent_used", 0.0) * FULL_BASIS_POINTS / 100)


def due(usage: ContextUsage, config: GCConfig) -> GCTriggerReason | None:
    """Return why a collection should start now; None if it should not."""
    used, limits = used_of(usage), config.limits(FULL_BASIS_POINTS)
    if not config.auto_trigger:
        return None
    if due_at(used, limits, 0, is_cold=usage.get("is_cache_cold", False)) is not Due.NOTHING:
        return GCTriggerReason.THRESHOLD
    if config.max_turns is not None and usage.get("turns", 0) > config.max_turns:
        return GCTriggerReason.TURN_LIMIT
    if config.continuous and used > limits.target:
        return GCTriggerReason.CONTINUOUS
    return None


def _without_lines(plan: Plan) -> int:
    """Return what a plan leaves, but for the lines that stand for what it sweeps."""
    swept = [step.replacement for step in plan.steps if step.action is Action.STASH]
    return plan.size_after - sum([line.tokens for line in swept if line is not None])


def _notice_number(message: Message) -> int:
    """Return the number of a notice; 0 if the message is not one."""
    if message.role is not Role.USER:
        return 0
    made = made_by_collection(message)
    return made[1] if made is not None and made[0] == NOTICE else 0


def _with_unique_ids(history: Sequence[Message]) -> tuple[list[Message], dict[str, str]]:
    """Rename messages that share an id by position; map the new ids to the old."""
    if len({message.message_id for message in history}) == len(history):
        return list(history), {}
    messages: list[Message] = []
    taken: set[str] = set()
    renamed: dict[str, str] = {}
    for at, message in enumerate(history):
        name = message.message_id
        while name in taken:
            name = f"{name} at {at}"
        taken.add(name)
        if name != message.message_id:
            renamed[name] = message.message_id
        messages.append(replace(message, message_id=name) if name in renamed else message)
    return messages, renamed


def _external_entries(
    budget: InstructionBudget | None, counts: DeclaredCounts | None
) -> Iterator[ExternalEntry]:
    """Yield every counted entry of a budget that is not part of the history."""
    if budget is None:
        return
    entries = dict(budget.non_history())
    if counts is not None:
        for key, child in counts.without_messages.items():
            yield ExternalEntry(InstructionSource.CONVERSATION, key, child)
        if (thinking := budget.get_entry(InstructionSource.THINKING)) is not None:
            entries[InstructionSource.THINKING] = thinking
    for source, entry in entries.items():
        if not entry.children and entry.tokens:
            yield ExternalEntry(source, None, entry)
        for key, child in entry.children.items():
            yield ExternalEntry(source, key, child)
