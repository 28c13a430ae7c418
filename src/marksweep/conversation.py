"""A conversation that stays within its window, and stays valid for its provider.

    talk = Conversation(limit=100_000)
    talk.extend(new_messages)              # as the provider's SDK gives them
    request(messages=talk.messages)        # collected when due

    plan = talk.plan()                     # what would go, and why
    talk.collect(plan)                     # exactly that
    talk.undo()                            # and back, in place, to the last field
    talk.recall("the port of the proxy")   # or just look something up

Plain text is the same in several dialects, so a conversation settles on one only when a message
shows it. A system prompt and tools take room in every request, and are counted as fixed.

For a single list of messages use `tidy`; in an event loop, `AsyncConversation`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec

from marksweep.collector import Collector, Watch
from marksweep.core.budget import (
    CACHE_MINUTES,
    PAYS_WITHIN_TURNS,
    Backoff,
    Budget,
    Due,
    Line,
    PromptCache,
    after_pass,
    due,
    is_time,
    tally,
)
from marksweep.core.context import PlanningContext
from marksweep.core.plan import Prices, make_plan, over_limit, plan_recall
from marksweep.core.strategy import LastResort, Learning, Strategy, goes_to_limit
from marksweep.core.why import why
from marksweep.dialects import Skipped, dialect_named, read
from marksweep.dialects.base import Json
from marksweep.dialects.history import LISTS, PLAIN, TRANSCRIPTS, History, insist_on, marks_in
from marksweep.errors import BadInput, NotFound, OverLimitWarning
from marksweep.following import Follower, Kept, Overlap, listed, unmarked
from marksweep.heaps.conversation import ConversationHeap
from marksweep.heaps.forms import ProviderForm
from marksweep.heaps.live_index import LearningFeed, Pace
from marksweep.heaps.stash_search import Recalled, recalled, recently_said
from marksweep.heaps.staying import MESSAGE, Protection, words_room
from marksweep.messages import Message, Role, as_passed, count_message
from marksweep.model import Entry, Plan, Pressure, Report, Segment, utc_now
from marksweep.settings import Settings
from marksweep.stores.base import Store
from marksweep.stores.checkpoint import get_state, put_state
from marksweep.stores.memory import store_of
from marksweep.strategies.last_resort import FitByTrimming
from marksweep.strategies.registry import Choice, MessageTools, strategy_of
from marksweep.summarizers.digesting import Digester
from marksweep.summarizers.transcript import transcript
from marksweep.tokens import count, plain

COVERAGE = "coverage"
"""The default strategy of a conversation."""

RECALL_TOKENS = 2_000
"""Default limit, in tokens, of what `recall` returns."""

REPLAYED_WINDOWS = 8
"""What a learning strategy observes after a restart, in multiples of the limit: the newest.

More lets older text come back, and makes opening a long conversation slower.
"""


class Conversation:
    """The messages of one conversation: extend, collect, undo, recall. Thread-safe."""

    def __init__(
        self,
        *,
        limit: int,
        strategy: Choice = COVERAGE,
        counter: Callable[..., float] = count_message,
        dialect: str | None = None,
        budget: Budget | None = None,
        preserve_recent_turns: int = 0,
        keep: Collection[str] = (),
        system: Json = None,
        tools: Json = None,
        store: Store | str | Path | None = None,
        workspace: str = "conversation",
        prices: Prices | None = None,
        pays_within_turns: float = PAYS_WITHIN_TURNS,
        cache_minutes: float = CACHE_MINUTES,
        clock: Callable[[], datetime] = utc_now,
        actor: str = "",
        ids: str = "m",
        watch: Watch | None = None,
    ) -> None:
        """Begin or reopen a conversation.

        `counter` returns the tokens of a message, which it gets in the form it was passed.
        `watch` observes each collection, such as `telemetry.Telemetry().watch`. `keep` names tools
        and roles (user, assistant) whose messages never go; `ids` is the prefix of message ids.
        """
        if not isinstance(turns := preserve_recent_turns, int) or turns < 0:
            raise BadInput(f"preserve_recent_turns is {turns!r}; expected 0 or more.")
        self.store = store_of(store)
        self.workspace = workspace
        self._guard = RLock()
        self._recent_turns = preserve_recent_turns
        self._prices = prices
        self._pays_within_turns = pays_within_turns
        self._clock = clock
        self._heap = ConversationHeap(
            self.store,
            workspace,
            form=ProviderForm(dialect_named(dialect or PLAIN), ids),
            counter=count_message if counter is count_message else as_passed(counter),
            keep=keep,
        )
        self.last_resort: LastResort | None = FitByTrimming(self._heap.texts, self._heap.trimmed)
        self._collector = Collector(self._heap, self.store.journal, actor=actor, watch=watch)
        self._collector.recover(now=clock())
        self.use(strategy)
        lines = Budget.at_limit if goes_to_limit(self._strategy) else Budget.of
        self.budget = budget or lines(limit)
        """The limits in the provider's tokens, as shares of the room beside what must stay."""
        self._held = 0
        """What had to stay at the last check, without what waits for an answer."""
        self._cache = PromptCache(cache_minutes, self._heap.last_arrival())
        self._pace = Pace()
        self._requested = 0  # tokens of the last request, by our count
        self._paged = self._changes = 0
        self._backoff: Backoff | None = None
        self._passed = ""
        self._follower = Follower(self._heap, self._collector, self.store)
        self._calibration = self._follower.last_sent.calibration
        declared = {"system": system or "", "tools": tools or ""}
        self._intake = Intake(self._heap, dialect, ids, declared)
        self.skipped: list[Skipped] = self._intake.skipped
        """What `extend` could not read, by its position in the list that was passed."""
        self._intake.set_overhead({kind: each for kind, each in declared.items() if each}, clock())

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        limit: int | None = None,
        strategy: Choice | None = None,
        **more: Any,  # noqa: ANN401 - what the constructor takes besides
    ) -> Conversation:
        """Start a conversation from settings, such as those that `tune` writes."""
        named = settings.conversation
        limit = settings.window.limit_tokens if limit is None else limit
        given = {
            "strategy": named.choice() if strategy is None else strategy,
            "preserve_recent_turns": named.preserve_recent_turns,
            "prices": settings.prices,
            "pays_within_turns": settings.window.pays_within_turns,
            "cache_minutes": settings.window.cache_minutes,
            **more,
        }
        made = cls(limit=limit, **given)
        if "budget" not in more and not goes_to_limit(made._strategy):
            made.budget = settings.window.budget(limit)
        return made

    @classmethod
    def from_state(
        cls,
        state: Json,
        *,
        limit: int,
        **more: Any,  # noqa: ANN401 - what the constructor takes besides
    ) -> Conversation:
        """Continue a conversation from its `state`, in a store that does not have it yet."""
        store = store_of(more.pop("store", None))
        workspace = more.pop("workspace", "conversation")
        more.setdefault("dialect", put_state(store, workspace, state) or None)
        return cls(limit=limit, store=store, workspace=workspace, **more)

    def state(self) -> Json:
        """Return the whole conversation as plain JSON data, for a host's checkpoint."""
        with self._guard:
            dialect = self._intake.dialect if self._intake.is_sure else ""
            return get_state(self.store, self.workspace, dialect)

    @property
    def dialect(self) -> str:
        """The format of the messages."""
        return self._intake.dialect

    def extend(self, messages: Json, pin: bool = False) -> list[str]:
        """Add messages at the end; return the ids they get here.

        Takes provider messages, neutral ones, or a whole request, whose system prompt and tools
        then count as part of the conversation. Pinned messages never go. What cannot be read is
        left out with a warning and listed in `skipped`; if nothing can be read, BadInput is raised.
        """
        with self._guard:
            self._follower.known = None
            history = self._intake.read(messages, self._clock())
            return self._take(history.messages, "the caller" if pin else "")

    def follow(self, messages: Json, keys: Sequence[Json] | None = None) -> list[Kept]:
        """Take the whole history as its host has it now; return what to send, collected when due.

        What is new is added. Where the history differs from the known one, the host has rewound:
        messages from there on are removed. `keys` are the host's own names for its messages.
        The same history again gives the same messages, also after a restart. See `following`.
        """
        with self._guard, self._heap.lock():  # Else two processes could add the same messages.
            self._intake.learn_from(messages)
            values = listed(messages, self.dialect)
            if keys is not None and len(keys) != len(values):
                raise BadInput(f"{len(keys)} keys for {len(values)} messages; expected one each.")
            links, position = self._follower.agreed(values, self.dialect)
            if values and links == [None] * len(values):
                self._intake.read(messages, self._clock())  # An error, and not a rewind to nothing.
            if self._follower.rewind_to(position, self._clock()):
                self._restart()
            rest = values[len(links) :]
            history = self._intake.read_more(messages, [unmarked(v) for v in rest], self._clock())
            taken = self._take(history.messages, "") if history.messages else []
            at = dict(zip(history.positions, taken, strict=True))
            links += self._follower.extend(rest, at)
            if self._cache.last_request is None or not self._follower.was_sent(self.budget.limit):
                self.collect_if_due()
            self._record_request()
            self._follower.record_sent(self.budget.limit, self._calibration, self._clock())
            return self._follower.project(values, links, keys or range(len(values)))

    def overlap(self, messages: Json) -> Overlap:
        """Say how much of a host's history is known, and what following it would take back."""
        with self._guard:
            return self._follower.overlap(listed(messages, self.dialect), self.dialect)

    def drop_last(self, number: int = 1) -> None:
        """Remove the last messages, live or swept, as if they had never been said."""
        with self._guard:
            self._follower.drop_last(number, self._clock())
            self._restart()

    def clear(self) -> None:
        """Remove all messages, swept ones too."""
        with self._guard:
            self.drop_last(len(self._follower.links))

    def _restart(self) -> None:
        """Continue from an earlier state of the conversation."""
        self._changes += 1
        self._backoff, self._held = None, 0
        self.use(self._choice)

    def use(self, strategy: Choice) -> None:
        """Collect by this strategy from now on. If it learns, it begins with what is there."""
        with self._guard:
            self._choice, self._is_taught = strategy, False
            self._strategy = chosen = strategy_of(strategy, self._tools())
            self._feed = LearningFeed(chosen) if isinstance(chosen, Learning) else None

    def _take(self, messages: Sequence[Message], pinned_by: str) -> list[str]:
        self._changes += 1
        if not messages:
            return []
        self._teach()
        names = self._heap.append(messages, pinned_by, self._clock())
        if self._feed is not None:
            self._feed.observe(taken := [self._heap.index.live[name] for name in names])
            self._pace = self._pace.after(sum(m.role is Role.MODEL for m in messages), taken)
        return names

    def _teach(self) -> None:
        """Let a strategy that learns observe what was said before the program started."""
        if self._is_taught or self._feed is None:
            return
        self._is_taught = True
        live = self._heap.snapshot().segments
        if live:
            most = REPLAYED_WINDOWS * self.budget.limit
            self._feed.observe(recently_said(self.store.stash, self.workspace, live, most))
            self._feed.follow(live)

    @property
    def messages(self) -> list[Json]:
        """The messages for the next request, in the provider's format; collected when due.

        The list is yours; the messages in it are those you passed. Do not change them.
        """
        with self._guard:
            self.collect_if_due()
            self._record_request()
            return [message.raw for message in self._heap.messages()]

    def _record_request(self) -> None:
        """Record that a request follows: its prompt will be cached."""
        self._cache = self._cache.requested(self._clock())
        self._requested = self.tokens

    def observe(
        self, input_tokens: int, cached_tokens: int | None = None, requested: int | None = None
    ) -> None:
        """Learn from the usage that the provider reported for the last request.

        `input_tokens` are all it read, including those from its cache; they calibrate the limit to
        the provider's own count. `cached_tokens` are those from the cache: 0 after an earlier
        request means that the cache is cold. A report that comes late may be about an earlier
        request: `requested` is what was counted here for it (`Fitted.tokens`).
        """
        for name, tokens in (("input_tokens", input_tokens), ("cached_tokens", cached_tokens or 0)):
            if not isinstance(tokens, int) or tokens < 0:
                raise BadInput(f"{name} is {tokens!r}; expected a number of tokens, 0 or more.")
        with self._guard:
            counted = self._requested if requested is None else requested
            self._calibration = self._calibration.observe(counted, input_tokens)
            if cached_tokens is not None and counted == self._requested:
                self._cache = self._cache.reported(cached_tokens)

    def note_cold_cache(self) -> None:
        """Note that the next request finds no prompt cache: another model or account."""
        with self._guard:
            self._cache = self._cache.lost()

    def note_request(self, at: datetime) -> None:
        """Note when another process last sent this conversation: its prompt was cached then."""
        with self._guard:
            self._cache = self._cache.requested_before(at)

    @property
    def history(self) -> list[Message]:
        """The messages as they are, neutral. Nothing is collected."""
        with self._guard:
            return self._heap.messages()

    @property
    def tokens(self) -> int:
        """Tokens the conversation takes, with system prompt and tools if they are known."""
        return self._heap.size()

    @property
    def is_due(self) -> bool:
        """Whether a collection is due. Takes constant time."""
        return self._wanted() is not Due.NOTHING

    def _wanted(self) -> Due:
        """Say what is due. A request over the limit fails, so there every message is a new try."""
        if self._heap.index.fingerprint() == self._passed:
            return Due.NOTHING
        lines = self._lines(self._held)
        waits = self._backoff if self.tokens <= lines.limit else None
        is_cold = self._cache.is_cold(self._clock())
        return due(self.tokens, lines, self._changes, waits, is_cold=is_cold)

    def _lines(self, held: int = 0) -> Budget:
        """Return the budget in our tokens, with this many that must stay."""
        ratio = self._calibration.ratio_at(self.budget.limit)
        return self.budget.calibrated(ratio).beside(held, self._pace.mean)

    def collect_if_due(self) -> Report | None:
        """Collect if it is due and pays (see `core.budget`). Backs off after a futile pass."""
        with self._guard:
            self._page_in()
            if self._wanted() is Due.NOTHING:
                return None
            now, report = self._clock(), None
            with self._collector.holding(now), self._heap.without_refresh():
                context = self._learnt_context(None)
                self._held = context.held(context.unanswered)
                if (wanted := self._wanted()) is Due.NOTHING:
                    return None
                plan = self._plan(context, self._strategy)
                if is_time(wanted, plan.cost, self._pays_within_turns):
                    report = self._collector.collect(plan, now=now, trigger="threshold")
            if report is not None and self._requested:  # The prompt is new anyway: fill its room.
                self._bring_back(now, must_fit=True)
            freed = report.tokens_freed if report else 0
            self._backoff = after_pass(freed, self.tokens, self._changes, self._backoff)
            self._passed = self._heap.index.fingerprint()
            if self.tokens > self._lines().limit:
                warnings.warn(over_limit(self._lines().limit, plan), OverLimitWarning, stacklevel=2)
            return report

    def _page_in(self) -> None:
        """Bring back what the newest messages mention, if the strategy finds it worth its room.

        Decided once per change, so that reading twice gives the same messages.
        """
        if self._feed is not None and self._paged != self._changes:
            self._paged = self._changes
            if self.store.stash.count(self.workspace, 1):
                self._bring_back(self._clock())

    def _bring_back(self, now: datetime, *, must_fit: bool = False) -> None:
        """Carry out the plan of `plan_recall`."""
        with self._collector.holding(now), self._heap.without_refresh():
            if (plan := self.plan_recall(must_fit=must_fit)) is not None:
                self._collector.collect(plan, now=now, trigger="recall")

    def plan_recall(self, *, must_fit: bool = False) -> Plan | None:
        """Decide what would come back automatically, and why; None if nothing. Changes nothing.

        The result may exceed the limit, because a collection follows, unless it `must_fit`.
        """
        with self._guard:
            if not isinstance(self._strategy, Learning):
                return None
            learnt = self._learnt_context(None if must_fit else 0)  # with a target: no limit
            context = learnt.aiming_at(self._lines(learnt.held()).target)
            proposal = self._strategy.recall(context)
            return plan_recall(context, proposal, self._prices) if proposal else None

    def plan(self, target_tokens: int | None = None, strategy: Choice | None = None) -> Plan:
        """Decide what would go, and why; by another strategy, if one is named."""
        with self._guard:
            chosen = strategy_of(strategy, self._tools()) if strategy else self._strategy
            return self._plan(self._learnt_context(target_tokens), chosen)

    def _plan(self, context: PlanningContext, strategy: Strategy) -> Plan:
        """Plan for a context; one without a target gets that of the budget."""
        if context.target is None:
            target = self._lines(context.held()).target
            if isinstance(strategy, Learning):
                target = strategy.target(context, target)
            context = context.aiming_at(target)
        return make_plan(context, strategy, self._prices, self.last_resort, self._heap.gaps())

    def collect(self, plan: Plan | None = None) -> Report:
        """Do exactly what a plan says; without one, what `plan()` would."""
        now = self._clock()
        with self._guard, self._collector.holding(now), self._heap.without_refresh():
            return self._collector.collect(plan or self.plan(), now=now)

    def undo(self, plan_id: str | None = None) -> tuple[str, ...]:
        """Reverse a whole sweep, by default the latest; return the ids that came back."""
        with self._guard:
            latest = plan_id or self.latest()
            if latest is None:
                raise NotFound("nothing was collected from this conversation, so there is no undo.")
            return self._collector.undo(latest, now=self._clock())

    def latest(self) -> str | None:
        """Name the newest plan of which something can be undone."""
        return self._collector.latest()

    def restore(self, *message_ids: str) -> tuple[str, ...]:
        """Bring messages back to where they were, each with its whole unit."""
        with self._guard:
            return self._collector.restore(message_ids, now=self._clock())

    def recall(self, query: str, limit: int = RECALL_TOKENS) -> list[Recalled]:
        """Find swept text that answers a question, in order, within a limit in tokens."""
        with self._guard:
            live = self._heap.snapshot().segments
        return recalled(self.store.stash, self.workspace, live, query, limit)

    def why(self, message_id: str) -> str:
        """Say what keeps a message, or why it is gone."""
        with self._guard:
            is_live = message_id in self._heap.live()
            return why(self.context(), message_id) if is_live else self._heap.why_swept(message_id)

    def ledger(self) -> tuple[Line, ...]:
        """Tokens per role, and of what is fixed; heaviest first."""

        def by_role(segment: Segment) -> Segment:
            role = self._heap.message(segment).role if segment.type == MESSAGE else segment.type
            return msgspec.structs.replace(segment, type=str(role))

        with self._guard:
            return tally(map(by_role, self._heap.snapshot().segments))

    def pin(self, message_id: str, by: str = "the caller") -> None:
        """Protect a message from every collection."""
        with self._guard:
            self._heap.pin(message_id, by)

    def unpin(self, message_id: str) -> None:
        """Remove the protection."""
        with self._guard:
            self._heap.unpin(message_id)

    def journal(self, limit: int | None = None) -> tuple[Entry, ...]:
        """Return what was planned and done, newest first."""
        return self.store.journal.read(self.workspace, limit=limit)

    def save(self, plan: Plan) -> None:
        """Keep a plan in the journal."""
        self._collector.save(plan, now=self._clock())

    def saved(self, plan_id: str) -> Plan:
        """Fetch a plan that was saved or carried out."""
        return self._collector.saved(plan_id)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _tools(self) -> MessageTools:
        heap = self._heap
        digest = Digester(weigh=heap.weigh, render=lambda s: transcript([*map(heap.message, s)]))
        limit = lambda: self.budget.limit  # noqa: E731
        return MessageTools(heap.outcomes, digest, heap.texts, heap.trimmed, heap.note, limit)

    def _learnt_context(self, target: int | None) -> PlanningContext:
        """Return a context that a strategy that learns has observed."""
        self._teach()
        context = self.context(target)
        if self._feed is not None:
            self._feed.follow(context.segments)
        return context

    def context(self, target: int | None = None) -> PlanningContext:
        """Return what a strategy may look at, as it is now."""
        with self._guard:
            lines = self._lines()
            pressure = max(Pressure.SOFT, lines.pressure_at(self._heap.size()))
            protection = Protection(self._recent_turns, words_room=words_room(lines.limit))
            context = self._heap.context(protection, pressure, self._clock())
        limit = lines.limit if target is None else None
        is_cold = self._cache.is_cold(context.now)
        return replace(context, target=target, limit=limit, is_cache_cold=is_cold)


class Intake:
    """Reads messages for one heap."""

    def __init__(
        self, heap: ConversationHeap, dialect: str | None, ids: str, declared: Mapping[str, Json]
    ) -> None:
        self._heap = heap
        self._ids = ids
        self._declared = declared
        self.dialect = dialect or PLAIN
        """The format of the messages."""
        self.is_sure = dialect is not None
        self.skipped: list[Skipped] = []
        self.learn(heap.stored())

    def learn_from(self, messages: Json) -> None:
        """Settle on a dialect if messages or a whole request show it."""
        if isinstance(messages, dict):
            if not self.is_sure:
                self._set_dialect(read(messages).dialect)
            messages = messages.get(LISTS.get(self.dialect, ""))
        self.learn(messages)

    def read_more(self, messages: Json, rest: Json, now: datetime) -> History:
        """Read the rest of messages, or of a whole request, whose beginning is known.

        For a system prompt or tools that a whole request does not have, those declared count.
        """
        if isinstance(messages, dict):
            rest = {**messages, LISTS[self.dialect]: rest}
        return self.read(rest, now, self._declared)

    def read(self, messages: Json, now: datetime, absent: Mapping[str, Json] = {}) -> History:
        """Read messages or a whole request; count what takes room in every request as fixed."""
        self.learn_from(messages)
        start = self._heap.next_position
        history = insist_on(read(messages, self.dialect, start=start), stacklevel=4)
        self.skipped += history.skipped
        if isinstance(messages, dict):
            self.set_overhead({**absent, **history.overhead}, now)
        return history

    def set_overhead(self, named: Mapping[str, Json], now: datetime) -> None:
        """Count what takes room in every request, by its kind; other kinds stay as they are."""
        for kind, value in named.items():
            if (text := plain(value)) or kind in self._heap.live():
                self._heap.set_overhead(kind, kind, count(text), now, text=text)

    def learn(self, values: Json) -> None:
        """Settle on a dialect if one of these messages shows it."""
        if self.is_sure or isinstance(values, str) or not isinstance(values, Sequence):
            return
        named = [m.dialect for m in values if isinstance(m, Message) and m.dialect]
        found = list(dict.fromkeys(named)) or marks_in(values)
        if len(found) > 1 and found[0] not in TRANSCRIPTS:
            raise BadInput(
                f"messages of {' and '.join(found)} in one conversation. Pass dialect=, or convert "
                "them first: `written(read(messages).messages, dialect)`."
            )
        if found:
            self._set_dialect(found[0])

    def _set_dialect(self, dialect: str) -> None:
        self.is_sure = True
        if dialect != self.dialect:
            self.dialect = dialect
            self._heap.set_form(ProviderForm(dialect_named(dialect), self._ids))
