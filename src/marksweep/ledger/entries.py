"""The lines of the ledger: where tokens come from, and how easily they may be removed.

After them: a budget at one moment, as a host shows it and as it is saved; and that as text, one
line per source and its heaviest children, with bars.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from marksweep.errors import BadInput, member
from marksweep.model import GCPolicy


class InstructionSource(StrEnum):
    """Where tokens of the context window come from."""

    SYSTEM = "system"
    """Instructions: base, client, framework."""
    PLUGIN = "plugin"
    """Tool schemas and the instructions of plugins."""
    ENRICHMENT = "enrichment"
    """What is added to a prompt before it is sent, and made again each turn."""
    CONVERSATION = "conversation"
    """The history."""
    THINKING = "thinking"
    """The model's thoughts inside the history."""


def source_named(name: str) -> InstructionSource:
    """Return the source of that name; UnknownName lists the known ones."""
    return member(InstructionSource, name, "no instruction source is called")


class ChildKind(StrEnum):
    """What a child of a source is; decides its policy if none is given."""

    BASE = "base"
    CLIENT = "client"
    FRAMEWORK = "framework"
    CORE_TOOL = "core_tool"
    DISCOVERABLE_TOOL = "discoverable_tool"
    ENRICHMENT = "enrichment"
    SYSTEM_MESSAGE = "system_message"
    ORIGINAL_REQUEST = "original_request"
    CLARIFICATION = "clarification"
    TURN_SUMMARY = "turn_summary"
    TURN = "turn"
    WORKING_OUTPUT = "working_output"
    NOTICE = "notice"


SOURCE_POLICY: Mapping[InstructionSource, GCPolicy] = {
    InstructionSource.SYSTEM: GCPolicy.LOCKED,
    InstructionSource.PLUGIN: GCPolicy.PARTIAL,
    InstructionSource.ENRICHMENT: GCPolicy.EPHEMERAL,
    InstructionSource.CONVERSATION: GCPolicy.PARTIAL,
    InstructionSource.THINKING: GCPolicy.EPHEMERAL,
}
"""The policy of a source, and of its children whose kind is not known."""

KIND_POLICY: Mapping[ChildKind, GCPolicy] = {
    ChildKind.BASE: GCPolicy.LOCKED,
    ChildKind.CLIENT: GCPolicy.LOCKED,
    ChildKind.FRAMEWORK: GCPolicy.LOCKED,
    ChildKind.CORE_TOOL: GCPolicy.LOCKED,
    ChildKind.DISCOVERABLE_TOOL: GCPolicy.EPHEMERAL,
    ChildKind.ENRICHMENT: GCPolicy.EPHEMERAL,
    ChildKind.SYSTEM_MESSAGE: GCPolicy.LOCKED,
    ChildKind.ORIGINAL_REQUEST: GCPolicy.LOCKED,
    ChildKind.CLARIFICATION: GCPolicy.PRESERVABLE,
    ChildKind.TURN_SUMMARY: GCPolicy.PRESERVABLE,
    ChildKind.TURN: GCPolicy.PARTIAL,
    ChildKind.WORKING_OUTPUT: GCPolicy.EPHEMERAL,
    ChildKind.NOTICE: GCPolicy.EPHEMERAL,
}
"""The policy of a child, by what it is."""


class SourceEntry(msgspec.Struct):
    """One line of the ledger: a source, or a child of one.

    A host may change its own entries in place: `entry.tokens = 0`, `entry.children.clear()`. With
    children, its tokens are those of the children; its own figure is then not counted.
    """

    source: InstructionSource
    tokens: int
    gc_policy: GCPolicy
    label: str | None = None
    children: dict[str, SourceEntry] = {}
    metadata: dict[str, object] = {}
    created_at: float = 0.0
    """Seconds since the epoch; now, if not given."""
    message_ids: list[str] = []
    """The messages of the history that this entry counts."""

    def __post_init__(self) -> None:
        """Stamp the entry, and refuse a negative count."""
        if type(self.source) is not InstructionSource:
            self.source = source_named(self.source)
        if not isinstance(self.tokens, int) or self.tokens < 0:
            raise BadInput(
                f"tokens is {self.tokens!r} in {self.label or self.source}; expected 0 or more."
            )
        if not self.created_at:
            self.created_at = time.time()
        self.message_ids = list(self.message_ids)

    def total_tokens(self) -> int:
        """Tokens of the children, or of the entry itself if it has none."""
        if self.children:
            return sum(child.total_tokens() for child in self.children.values())
        return self.tokens

    def leaves(self) -> Iterator[SourceEntry]:
        """The entries that are counted: those without children."""
        if not self.children:
            yield self
        for child in self.children.values():
            yield from child.leaves()

    def to_dict(self) -> dict[str, object]:
        """The entry as plain JSON values."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> SourceEntry:
        """Read what `to_dict` wrote."""
        try:
            return msgspec.convert(plain, cls)
        except msgspec.ValidationError as error:
            raise BadInput(f"not a ledger entry: {error}.") from error


ELIGIBLE = (GCPolicy.EPHEMERAL, GCPolicy.PARTIAL, GCPolicy.CONDITIONAL)
"""What may go without pressure; CONDITIONAL if its owner agrees."""


class BudgetSnapshot(msgspec.Struct, frozen=True):
    """The ledger at one moment, with its sums: what a host shows."""

    context_limit: int
    entries: Mapping[InstructionSource, SourceEntry]
    total_tokens: int
    gc_eligible_tokens: int
    preservable_tokens: int
    locked_tokens: int
    available_tokens: int
    utilization_percent: float

    @classmethod
    def of(
        cls, context_limit: int, entries: Mapping[InstructionSource, SourceEntry]
    ) -> BudgetSnapshot:
        """Sum up entries."""
        weights: Counter[GCPolicy] = Counter()
        for entry in entries.values():
            for leaf in entry.leaves():
                weights[leaf.gc_policy] += leaf.tokens
        total = weights.total()
        return cls(
            context_limit,
            entries,
            total,
            sum(weights[policy] for policy in ELIGIBLE),
            weights[GCPolicy.PRESERVABLE],
            weights[GCPolicy.LOCKED],
            max(0, context_limit - total),
            100.0 * total / context_limit,
        )

    def to_dict(self) -> dict[str, object]:
        """The snapshot as plain JSON values."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A budget as it is written."""

    context_limit: int
    entries: Mapping[InstructionSource, SourceEntry] = {}
    summaries: int = 0
    turns: Mapping[str, int] = {}
    next_turn: int = 0
    arrived: Mapping[str, float] = {}


BAR_CHARS = 24
"""Characters of a bar for the whole context window."""

MAX_CHILDREN = 5
"""Children shown per source, heaviest first; the rest are one line."""

_EIGHTHS = "▏▎▍▌▋▊▉█"


def bar(tokens: int, whole: int, width: int = BAR_CHARS) -> str:
    """A bar for a share of the window, exact to an eighth of a character, padded to its width."""
    eighths = min(width * 8, round(width * 8 * tokens / whole)) if whole else 0
    if tokens and not eighths:
        eighths = 1
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part - 1] if part else "")).ljust(width)


def render(ledger: BudgetSnapshot, *, children: int = MAX_CHILDREN) -> str:
    """Write the ledger as text."""
    rows = [*_rows(ledger, children), ("total", "", ledger.total_tokens)]
    name = max(len(row[0]) for row in rows)
    policy = max(len(row[1]) for row in rows)
    lines = [
        f"{label.ljust(name)}  {kept.ljust(policy)}  {bar(tokens, ledger.context_limit)} "
        f"{tokens:>10,}  {100 * tokens / ledger.context_limit:5.1f} %"
        for label, kept, tokens in rows
    ]
    lines.append(
        f"limit {ledger.context_limit:,}: {ledger.available_tokens:,} free, "
        f"{ledger.gc_eligible_tokens:,} may go, {ledger.preservable_tokens:,} under pressure, "
        f"{ledger.locked_tokens:,} locked"
    )
    return "\n".join(lines)


def _rows(ledger: BudgetSnapshot, shown: int) -> Iterator[tuple[str, str, int]]:
    for source, entry in ledger.entries.items():
        yield source.value, "" if entry.children else entry.gc_policy.value, entry.total_tokens()
        ranked = sorted(entry.children.items(), key=_heaviest_first)
        for key, child in ranked[:shown]:
            yield f"  {key}", child.gc_policy.value, child.total_tokens()
        if rest := ranked[shown:]:
            yield f"  {len(rest)} more", "", sum(child.total_tokens() for _, child in rest)


def _heaviest_first(item: tuple[str, SourceEntry]) -> tuple[int, str]:
    return -item[1].total_tokens(), item[0]
