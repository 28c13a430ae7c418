"""The instruction budget: every source of tokens against the context limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from marksweep.errors import BadInput, NotFound
from marksweep.ledger.conversation import Derived, Reading, entries_of, read_off
from marksweep.ledger.entries import (
    KIND_POLICY,
    SOURCE_POLICY,
    ChildKind,
    InstructionSource,
    SourceEntry,
    source_named,
)
from marksweep.ledger.snapshot import BudgetSnapshot, Saved
from marksweep.messages import Counter, Message
from marksweep.messages.turns import SUMMARY, TurnNumbers, UserMessages, user_messages
from marksweep.model import GCPolicy

CONTEXT_LIMIT = 128_000
"""Tokens of the context window if nobody says otherwise.

Too high, and the provider refuses requests before a collection starts; too low, and collections
come early.
"""

ELIGIBLE = frozenset({GCPolicy.EPHEMERAL, GCPolicy.PARTIAL, GCPolicy.CONDITIONAL})
"""What may go without pressure; CONDITIONAL if its owner agrees."""

_DERIVED = (InstructionSource.CONVERSATION, InstructionSource.THINKING)
"""The sources that a followed history speaks for."""


class InstructionBudget:
    """Tokens per source and child, and what of them may go.

    Entries are values: a change puts a new one in place, so what `get_entry` gave stays as it was.
    Once the budget follows a history, the entries of the conversation are read off that history
    and cannot disagree with it; children added by hand then declare the policy of their messages.
    """

    def __init__(self, context_limit: int = CONTEXT_LIMIT) -> None:
        if not isinstance(context_limit, int) or context_limit < 1:
            raise BadInput(f"context_limit is {context_limit!r}; expected 1 or more tokens.")
        self.context_limit = context_limit
        self.turns = TurnNumbers()
        self._entries: dict[InstructionSource, SourceEntry] = {}
        self._summaries = 0
        self._arrived: dict[str, float] = {}
        self._history: Callable[[], Sequence[Message]] | None = None
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
        metadata: Mapping[str, object] | None = None,
    ) -> SourceEntry:
        """Put a new entry in place of a source's old one and its children."""
        source = source_named(source)
        entry = SourceEntry(
            source,
            tokens,
            gc_policy or SOURCE_POLICY[source],
            label or source.value.capitalize(),
            metadata=metadata or {},
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

    def add_child(
        self,
        source: InstructionSource,
        child_key: str,
        tokens: int,
        gc_policy: GCPolicy | None = None,
        *,
        label: str | None = None,
        metadata: Mapping[str, object] | None = None,
        kind: ChildKind | None = None,
        message_ids: Sequence[str] = (),
        created_at: float = 0.0,
    ) -> SourceEntry:
        """Put a child in place, under a new key or an old one.

        Its policy is the one given, else that of its kind, else that of the source.
        """
        source = source_named(source)
        if self._history and source in _DERIVED and not message_ids:
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
            metadata={**(metadata or {}), **({"kind": kind.value} if kind else {})},
            created_at=created_at,
            message_ids=tuple(message_ids),
        )
        parent = self._entries.get(source) or self.set_entry(source, 0)
        self._put(source, parent, {**parent.children, child_key: child})
        return child

    def remove_child(self, source: InstructionSource, child_key: str) -> SourceEntry | None:
        """Take a child out; return it, or None if there was none."""
        parent = self._entries.get(source)
        if parent is None or child_key not in parent.children:
            return None
        rest = {key: child for key, child in parent.children.items() if key != child_key}
        self._put(source, parent, rest)
        return parent.children[child_key]

    def clear(self, source: InstructionSource) -> None:
        """Empty a source: no tokens, no children; its policy stays."""
        if (entry := self._entries.get(source)) is not None:
            self._entries[source] = msgspec.structs.replace(entry, tokens=0, children={})

    def update_tokens(
        self, source: InstructionSource, tokens: int, child_key: str | None = None
    ) -> SourceEntry:
        """Correct the count of a source or a child."""
        parent = self._entries.get(source)
        entry = parent.children.get(child_key) if parent and child_key else parent
        if parent is None or entry is None:
            raise NotFound(f"the budget has no entry {child_key or source!r}; add it first.")
        if entry.children:
            raise BadInput(
                f"{source} weighs what its children weigh ({', '.join(sorted(entry.children))}); "
                "update one of them."
            )
        updated = msgspec.structs.replace(entry, tokens=tokens)
        if child_key:
            self._put(source, parent, {**parent.children, child_key: updated})
        else:
            self._entries[source] = updated
        return updated

    def follow(self, history: Callable[[], Sequence[Message]], counter: Counter) -> None:
        """Read the conversation's entries off this history from now on."""
        self._history = history
        self._counter = counter

    @property
    def counter(self) -> Counter | None:
        """What counts the followed history."""
        return self._counter

    def declared(self, source: InstructionSource) -> Mapping[str, SourceEntry]:
        """The children that were added by hand."""
        entry = self._entries.get(source)
        return entry.children if entry else {}

    def read_off(
        self, history: Sequence[Message], counter: Counter, voices: UserMessages
    ) -> Reading:
        """Say what each message of a history is, by declarations and turn numbers kept here."""
        declared = self.declared(InstructionSource.CONVERSATION)
        reading = read_off(history, counter, voices, declared=declared, numbers=self.turns)
        made = [number for name, number in reading.made.values() if name == SUMMARY]
        self._summaries = max([self._summaries, *made])
        if len(self._arrived) > 2 * len(history):
            present = {message.message_id for message in history}
            self._arrived = {id_: at for id_, at in self._arrived.items() if id_ in present}
        return reading

    def arrived(self, message_id: str, now: float) -> float:
        """When a message was first asked about, in seconds since the epoch; now, if never."""
        return self._arrived.setdefault(message_id, now)

    def entries(self) -> Mapping[InstructionSource, SourceEntry]:
        """Every source with its children, right now."""
        if self._history is None or self._counter is None:
            return dict(self._entries)
        found = self._derive(self._history(), self._counter)
        entries = dict(self._entries)
        for source, children in zip(_DERIVED, (found.conversation, found.thinking), strict=True):
            stored = entries.get(source) or SourceEntry(
                source, 0, SOURCE_POLICY[source], source.value.capitalize()
            )
            entries[source] = msgspec.structs.replace(stored, tokens=0, children=children)
        return entries

    def _derive(self, history: Sequence[Message], counter: Counter) -> Derived:
        now = time.time()
        return entries_of(
            history,
            self.read_off(history, counter, user_messages(history)),
            counter,
            declared=self.declared(InstructionSource.CONVERSATION),
            arrived=lambda message_id: self.arrived(message_id, now),
        )

    def standing(self) -> Mapping[InstructionSource, SourceEntry]:
        """The sources that no history speaks for."""
        return {source: entry for source, entry in self._entries.items() if source not in _DERIVED}

    def next_summary(self) -> int:
        """Take the next number for a summary. No number is given twice."""
        self._summaries += 1
        return self._summaries

    def total_tokens(self) -> int:
        """Tokens of all sources."""
        return sum(entry.total_tokens() for entry in self.entries().values())

    def gc_eligible_tokens(self) -> int:
        """Tokens that may go without pressure."""
        return self._weigh(ELIGIBLE)

    def locked_tokens(self) -> int:
        """Tokens that never go."""
        return self._weigh(frozenset({GCPolicy.LOCKED}))

    def preservable_tokens(self) -> int:
        """Tokens that go only under pressure."""
        return self._weigh(frozenset({GCPolicy.PRESERVABLE}))

    def utilization_percent(self) -> float:
        """Share of the context window in use; above 100 it overflows."""
        return 100.0 * self.total_tokens() / self.context_limit

    def available_tokens(self) -> int:
        """Tokens left in the window; 0 if it overflows."""
        return max(0, self.context_limit - self.total_tokens())

    def snapshot(self) -> BudgetSnapshot:
        """The ledger at this moment."""
        entries = self.entries()
        leaves = [leaf for entry in entries.values() for leaf in entry.leaves()]
        total = sum(leaf.tokens for leaf in leaves)
        return BudgetSnapshot(
            self.context_limit,
            entries,
            total,
            sum(leaf.tokens for leaf in leaves if leaf.gc_policy in ELIGIBLE),
            sum(leaf.tokens for leaf in leaves if leaf.gc_policy is GCPolicy.PRESERVABLE),
            sum(leaf.tokens for leaf in leaves if leaf.gc_policy is GCPolicy.LOCKED),
            max(0, self.context_limit - total),
            100.0 * total / self.context_limit,
        )

    def to_dict(self) -> dict[str, object]:
        """The budget as plain JSON values. A followed history is saved by who holds it."""
        saved = Saved(
            self.context_limit,
            self._entries,
            self._summaries,
            self.turns.known,
            self.turns.upcoming,
            self._arrived,
        )
        plain: dict[str, object] = msgspec.to_builtins(saved)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> InstructionBudget:
        """Read what `to_dict` wrote."""
        try:
            saved = msgspec.convert(plain, Saved)
        except msgspec.ValidationError as error:
            raise BadInput(f"not an instruction budget: {error}.") from error
        budget = cls(saved.context_limit)
        budget._entries = dict(saved.entries)
        budget._summaries = saved.summaries
        budget._arrived = dict(saved.arrived)
        budget.turns = TurnNumbers(saved.turns, saved.next_turn)
        return budget

    def _put(
        self, source: InstructionSource, parent: SourceEntry, children: Mapping[str, SourceEntry]
    ) -> None:
        self._entries[source] = msgspec.structs.replace(parent, children=children)

    def _weigh(self, policies: frozenset[GCPolicy]) -> int:
        return sum(
            leaf.tokens
            for entry in self.entries().values()
            for leaf in entry.leaves()
            if leaf.gc_policy in policies
        )
