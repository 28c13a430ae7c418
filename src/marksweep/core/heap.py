"""What a heap is: a place that gives snapshots, sweeps exactly a plan, and keeps what it sweeps.

There is one collector, and it knows heaps only by this protocol. It holds `lock` around every
operation, lets the heap `settle` what a crash cut off, writes the intent to the journal, has the
heap do it, and writes the outcome:

    collect   check → SWEEPING → sweep → SWEPT
    undo      kept_of → RESTORING → bring_back → settle → UNDONE
    restore   kept_with → RESTORING → bring_back → settle → RESTORED
    purge     expired → PURGED → purge

What an implementation must see to:

- `sweep` and `bring_back` are atomic towards readers of the heap. What goes is kept before it goes,
  in a stash or under a tombstone, so that a crash leaves an extra copy, never a hole.
- What comes back comes as whole units, and never beside its stand-in.
- `settle` is called with the intent that has no outcome yet: after a crash, after an error, and
  after every `bring_back`. It finishes the operation or clears its traces, and says which of the
  two is true. It may be cut off itself, and is then called again.
- Ids are those that the heap's plans name in their steps.

`marksweep.testing.contracts.heap.HeapContract` checks all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from marksweep.model import Entry, Event, Plan, Report, Snapshot, Unit


class Heap(Protocol):
    """Where segments live, and where what was swept is kept."""

    @property
    def workspace(self) -> str:
        """Whose segments these are; plans carry it."""
        ...

    @property
    def journal_name(self) -> str:
        """Under which name the journal keeps this heap's operations."""
        ...

    @property
    def unit(self) -> Unit:
        """What its sizes count."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from changing the heap; the same thread may take it again."""
        ...

    def snapshot(self) -> Snapshot:
        """Take the heap as it is now, including what other processes did.

        A heap of columns gives a snapshot without segments: its fingerprint, unit and rest size.
        """
        ...

    def size(self) -> int:
        """Say how large the heap is, in its unit."""
        ...

    def check(self, plan: Plan) -> None:
        """Refuse a plan that cannot be carried out as it was shown, with PlanOutdated."""
        ...

    def sweep(self, plan: Plan, now: datetime) -> Report:
        """Do exactly what the plan says; keep what goes. The report is counted on the result."""
        ...

    def kept_of(self, plan_id: str) -> tuple[str, ...]:
        """Name what undoing a plan would change; empty if nothing of it is left to undo."""
        ...

    def kept_with(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Name what comes back with these, whole units; NotFound if one of them is not kept."""
        ...

    def bring_back(
        self, ids: Sequence[str], *, plan_id: str = "", now: datetime
    ) -> tuple[str, ...]:
        """Bring back what `kept_of` or `kept_with` named; give the ids that changed.

        With a plan, as they were before that plan; without, as they were last.
        """
        ...

    def settle(self, intent: Entry, now: datetime) -> Event:
        """Finish or clear what a crash cut off: SWEPT, RESTORED or ROLLED_BACK."""
        ...

    def expired(self, now: datetime) -> tuple[str, ...]:
        """Name what was deleted and is past its grace period."""
        ...

    def purge(self, now: datetime) -> tuple[str, ...]:
        """Erase that for good; give the ids that are gone."""
        ...
