"""The lines of the ledger: where tokens come from, and how easily they may be given up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from marksweep.errors import BadInput
from marksweep.model import GCPolicy


class InstructionSource(StrEnum):
    """Where tokens of the context window come from."""

    SYSTEM = "system"
    """Instructions: base, client, framework."""
    PLUGIN = "plugin"
    """Tool schemas and the instructions of plugins."""
    ENRICHMENT = "enrichment"
    """What is added to a prompt on its way out, and made again each turn."""
    CONVERSATION = "conversation"
    """The history."""
    THINKING = "thinking"
    """The model's thoughts inside the history."""


def source_named(name: str) -> InstructionSource:
    """Give the source of that name; BadInput lists those there are."""
    try:
        return InstructionSource(name)
    except ValueError:
        known = ", ".join(InstructionSource)
        raise BadInput(f"no instruction source is called {name!r}; known are {known}.") from None


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


class SourceEntry(msgspec.Struct, frozen=True):
    """One line of the ledger: a source, or a child of one.

    With children, its tokens are those of the children; its own figure is then not counted.
    """

    source: InstructionSource
    tokens: int
    gc_policy: GCPolicy
    label: str | None = None
    children: Mapping[str, SourceEntry] = {}
    metadata: Mapping[str, object] = {}
    created_at: float = 0.0
    """Seconds since the epoch; now, if not given."""
    message_ids: Sequence[str] = []
    """The messages of the history that this entry counts."""

    def __post_init__(self) -> None:
        """Stamp the entry, and refuse a negative count."""
        put = msgspec.structs.force_setattr
        if type(self.source) is not InstructionSource:
            put(self, "source", source_named(self.source))
        if not isinstance(self.tokens, int) or self.tokens < 0:
            raise BadInput(
                f"tokens is {self.tokens!r} in {self.label or self.source}; expected 0 or more."
            )
        if not self.created_at:
            put(self, "created_at", time.time())
        if type(self.message_ids) is not list:
            put(self, "message_ids", list(self.message_ids))

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
