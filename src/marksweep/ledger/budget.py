"""The instruction budget: every source of tokens against the context limit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime

import msgspec

from marksweep.errors import BadInput
from marksweep.heaps.conversation import ConversationHeap
from marksweep.heaps.forms import InMemoryForm
from marksweep.heaps.live_index import ChangeCount
from marksweep.ledger.conversation import KIND, declared_in, entries_of
from marksweep.ledger.declared import DeclaredCounts
from marksweep.ledger.entries import (
    KIND_POLICY,
    SOURCE_POLICY,
    BudgetSnapshot,
    ChildKind,
    InstructionSource,
    Saved,
    SourceEntry,
    source_named,
)
from marksweep.messages import SUMMARY, Counter, Message, Role, TurnNumbers, made_by_collection
from marksweep.model import GCPolicy, utc_now
from marksweep.stores.memory import MemoryStore

CONTEXT_LIMIT = 128_000
"""Default size of the context window in tokens.

Too high, and the provider refuses requests before a collection starts; too low, and collections
come early.
"""

_DERIVED = (InstructionSource.CONVERSATION, InstructionSource.THINKING)
"""The sources that a followed history determines."""


class Arrivals:
    """When messages were first seen, by their ids."""

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        """Begin with what `seconds` returned when it was saved."""
        saved = seconds or {}
        self._known = {id_: datetime.fromtimestamp(at, UTC) for id_, at in saved.items()}

    def seconds(self) -> dict[str, float]:
        """Return the times in seconds since the epoch, to be saved."""
        return {id_: at.timestamp() for id_, at in self._known.items()}

    def moments(self, now: datetime) -> Callable[[str], datetime]:
        """Return a function that returns when a message was first seen: now, if never."""
        known = self._known
        return lambda message_id: known.setdefault(message_id, now)

    def keep_only(self, history: Sequence[Message]) -> None:
        """Forget messages that have left, once they are the majority."""
        if len(self._known) > 2 * len(history):
            present = {message.message_id for message in history}
            self._known = {id_: at for id_, at in self._known.items() if id_ in present}


class InstructionBudget:
    """Tokens per source and child, and which of them may go.

    Once the budget follows a history, the entries of the conversation are derived from it and
    cannot disagree with it; children added by hand then declare the policy of their messages.
    A budget that follows none is kept by its host: the conversation weighs what it declares.
    """

    def __init__(self, context_limit: int = CONTEXT_LIMIT) -> None:
        if not isinstance(context_limit, int) or context_limit < 1:
            raise BadInput(f"context_limit is {context_limit!r}; expected 1 or more tokens.")
        self.context_limit = context_limit
        self.turns = TurnNumbers()
        self._entries: dict[InstructionSource, SourceEntry] = {}
        self._summaries = 0
        self._arrivals = Arrivals()
        self._heap: Callable[[], ConversationHeap] | None = None
        self._stored: ConversationHeap | None = None
        """The followed heap, if it is stored: its messages carry declarations."""
        self._counter: Counter | None = None

    @classmethod
    def create_default(cls, context_limit: int = CONTEXT_LIMIT) -> InstructionBudget:
        """A budget with an empty entry for every source, each with its default policy."""
        budget = cls(context_limit)
        for source in InstructionSource:
            budget.set_entry(source, 0)
        return budget

    def set_entry(
        self,
        source: InstructionSource,
        tokens: int,
        gc_policy: GCPolicy | None = None,
        label: str | None = None,
        *,
        children: Mapping[str, SourceEntry] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> SourceEntry:
        """Replace a source's entry and its children by a new entry."""
        source = source_named(source)
        entry = SourceEntry(
            source,
            tokens,
            gc_policy or SOURCE_POLICY[source],
            label or source.value.capitalize(),
            children=dict(children or {}),
            metadata=dict(metadata or {}),
        )
        self._entries[source] = entry
        return entry

    def get_entry(self, source: InstructionSource) -> SourceEntry | None:
        """A source with its children, or None."""
        return self.entries().get(source)

    def get_child(self, source: InstructionSource, child_key: str | None) -> SourceEntry | None:
        """A child of a source, or None."""
        entry = self.get_entry(source)
        return entry.children.get(child_key) if entry and child_key else None

    def add_child(  # noqa: PLR0917 - in the order of SourceEntry
        self,
        source: InstructionSource,
        child_key: str,
        tokens: int,
        gc_policy: GCPolicy | None = None,
        label: str | None = None,
        metadata: Mapping[str, object] | None = None,
        *,
        kind: ChildKind | None = None,
        created_at: float = 0.0,
        message_ids: Sequence[str] = (),
    ) -> SourceEntry:
        """Add a child under a new key, or replace one.

        Its policy is the one given, else that of its kind, else that of the source.
        """
        source = source_named(source)
        if self._heap and source in _DERIVED and not message_ids:
            raise BadInput(
                f"{child_key!r} names no messages; the {source} entries follow the history. "
                "Pass message_ids to declare the policy of messages that are in it."
            )
        default = KIND_POLICY[kind] if kind else SOURCE_POLICY[source]
        child = SourceEntry(
            source,
            tokens,
            gc_policy or default,
            label or child_key,
            metadata={**(metadata or {}), **({KIND: kind.value} if kind else {})},
            created_at=created_at,
            message_ids=list(message_ids),
        )
        parent = self._entries.get(source) or self.set_entry(source, 0)
        parent.children[child_key] = child
        return child

    def remove_child(self, source: InstructionSource, child_key: str) -> SourceEntry | None:
        """Remove a child; return it, or None if there was none."""
        parent = self._entries.get(source)
        return parent.children.pop(child_key, None) if parent else None

    def clear(self, source: InstructionSource) -> None:
        """Empty a source: no tokens, no children; its policy stays."""
        if (entry := self._entries.get(source)) is not None:
            entry.tokens = 0
            entry.children.clear()

    def follow(self, history: Callable[[], Sequence[Message]], counter: Counter) -> None:
        """Derive the conversation's entries from this history from now on."""
        self._heap, self._stored = lambda: self.heap_of(history(), counter), None
        self._counter = counter

    def follow_heap(self, heap: ConversationHeap, counter: Counter) -> None:
        """Derive the conversation's entries from this heap from now on."""
        self._heap, self._stored = lambda: heap, heap
        self._counter = counter

    @property
    def follows(self) -> bool:
        """Whether the entries of the conversation are derived from a history."""
        return self._heap is not None

    def declared_counts(
        self, history: Sequence[Message], counter: Counter
    ) -> DeclaredCounts | None:
        """Return the host's declared tokens of messages; None without any, or with a history."""
        said = self._entries.get(InstructionSource.CONVERSATION)
        if self.follows or said is None or not said.total_tokens():
            return None
        return DeclaredCounts(said, history, counter)

    @property
    def counter(self) -> Counter | None:
        """What counts the followed history."""
        return self._counter

    def declared(self, source: InstructionSource) -> Mapping[str, SourceEntry]:
        """The children that were added by hand, and those that stored messages carry."""
        entry = self._entries.get(source)
        children = entry.children if entry else {}
        if self._stored is None or source is not InstructionSource.CONVERSATION:
            return children
        return {**dict(declared_in(self._stored.live().values())), **children}

    def heap_of(
        self,
        history: Sequence[Message],
        counter: Counter,
        form: InMemoryForm | None = None,
        released: Collection[str] = (),
    ) -> ConversationHeap:
        """Hold a history in memory as a heap, by the declarations and turn numbers kept here.

        `released` names the CONDITIONAL children that their owner has released.
        """
        form = InMemoryForm() if form is None else form
        form.use_dialect_of(history)
        if self._stored is not None:
            form.rules = self._stored.form.rules
            self._stored.catch_up()  # so that the turns of a reopened session keep their numbers
        now = utc_now()
        self._arrivals.keep_only(history)
        self._count_summaries(history)
        policies = {
            id_: GCPolicy.EPHEMERAL if key in released else entry.gc_policy
            for key, entry in self.declared(InstructionSource.CONVERSATION).items()
            for id_ in entry.message_ids
        }
        heap = ConversationHeap(
            MemoryStore(),
            "history",
            form=form,
            counter=counter,
            turns=self.turns,
            fingerprint=ChangeCount(),
        )
        arrived = self._arrivals.moments(now)
        heap.append(history, "", now, policies=policies, arrived=arrived)
        return heap

    def _count_summaries(self, history: Sequence[Message]) -> None:
        found = [made_by_collection(m) for m in history if m.role is Role.USER]
        numbers = [each[1] for each in found if each is not None and each[0] == SUMMARY]
        self.reserve_summaries(max(numbers, default=0))

    def entries(self) -> Mapping[InstructionSource, SourceEntry]:
        """Every source with its children, right now."""
        entries = dict(self._entries)
        if self._heap is None:
            return entries
        found = entries_of(self._heap(), self.declared(InstructionSource.CONVERSATION))
        for source, children in found.items():
            stored = entries.get(source) or SourceEntry(
                source, 0, SOURCE_POLICY[source], source.value.capitalize()
            )
            entries[source] = msgspec.structs.replace(stored, tokens=0, children=children)
        return entries

    def non_history(self) -> Mapping[InstructionSource, SourceEntry]:
        """The sources that no history determines."""
        return {source: entry for source, entry in self._entries.items() if source not in _DERIVED}

    def reserve_summaries(self, number: int) -> None:
        """Number new summaries above this number."""
        self._summaries = max(self._summaries, number)

    def next_summary(self) -> int:
        """Return the next number for a summary. No number is used twice."""
        self._summaries += 1
        return self._summaries

    def total_tokens(self) -> int:
        """Tokens of all sources."""
        return self._sums().total_tokens

    def gc_eligible_tokens(self) -> int:
        """Tokens that may go without pressure."""
        return self._sums().gc_eligible_tokens

    def locked_tokens(self) -> int:
        """Tokens that never go."""
        return self._sums().locked_tokens

    def preservable_tokens(self) -> int:
        """Tokens that go only under pressure."""
        return self._sums().preservable_tokens

    def utilization_percent(self) -> float:
        """Share of the context window in use; above 100 it overflows."""
        return self._sums().utilization_percent

    def available_tokens(self) -> int:
        """Tokens left in the window; 0 if it overflows."""
        return self._sums().available_tokens

    def snapshot(self) -> BudgetSnapshot:
        """The ledger at this moment."""
        return deepcopy(self._sums())

    def _sums(self) -> BudgetSnapshot:
        return BudgetSnapshot.of(self.context_limit, self.entries())

    def to_dict(self) -> dict[str, object]:
        """The budget as plain JSON values. A followed history is saved by its owner."""
        saved = Saved(
            self.context_limit,
            self._entries,
            self._summaries,
            self.turns.known,
            self.turns.upcoming,
            self._arrivals.seconds(),
        )
        plain: dict[str, object] = msgspec.to_builtins(saved)
        return plain

    def get_conversation_snapshot(self) -> dict[str, object] | None:
        """The conversation with its children as plain JSON values; None if there is none."""
        entry = self.get_entry(InstructionSource.CONVERSATION)
        return entry.to_dict() if entry else None

    def restore_conversation_from_snapshot(self, snapshot: Mapping[str, object] | None) -> None:
        """Restore the conversation's entries from what `get_conversation_snapshot` returned.

        Where a history is followed they declare the policies of its messages. Nothing to restore
        leaves the budget unchanged.
        """
        if snapshot:
            source = InstructionSource.CONVERSATION
            defaults = {"source": source, "tokens": 0, "gc_policy": SOURCE_POLICY[source]}
            self._entries[source] = SourceEntry.from_dict({**defaults, **snapshot})

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> InstructionBudget:
        """Read what `to_dict` wrote."""
        try:
            saved = msgspec.convert(plain, Saved)
            arrivals = Arrivals(saved.arrived)
        except (msgspec.ValidationError, ValueError, OverflowError, OSError) as error:
            raise BadInput(f"not an instruction budget: {error}.") from error
        budget = cls(saved.context_limit)
        budget._entries = dict(saved.entries)
        budget._summaries = saved.summaries
        budget._arrivals = arrivals
        budget.turns = TurnNumbers(saved.turns, saved.next_turn)
        return budget
