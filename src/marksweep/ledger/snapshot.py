"""A budget at one moment: as a host shows it, and as it is saved."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from marksweep.ledger.entries import InstructionSource, SourceEntry


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
