"""What a heap is: a place that gives snapshots, sweeps exactly a plan, and keeps what it sweeps.

There is one collector, and it knows heaps only by this protocol. It holds `lock` around every
operation, lets the heap `settle` what a crash cut off, writes the intent to the journal, has the
heap do it, and writes the outcome:

    collect   check → SWEEPING → sweep → SWEPT
    undo      kept_of → RESTORING → bring_back → settle → UNDONE
    restore   kept_with → RESTORING → bring_back → settle → RESTORED
    purge     expired → PURGED → purge

What an implementation must ensure:

- `sweep` and `bring_back` are atomic for readers of the heap. A segment is copied to a stash, or
  gets a tombstone, before it is removed, so that a crash leaves an extra copy and loses nothing.
- What comes back comes as whole units, and never beside its stand-in.
- `settle` is called with the intent that has no outcome yet: after a crash, after an error, and
  after every `bring_back`. It finishes the operation or clears its traces, and says which of the
  two is true. It may be interrupted itself, and is then called again.
- Ids are those that the heap's plans name in their steps.

`marksweep.testing.contracts.heap.HeapContract` checks all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from marksweep.model import Entry, Event, Plan, Report, Snapshot


class Heap(Protocol):
    """Where segments live, and where what was swept is kept."""

    @property
    def workspace(self) -> str:
        """The workspace of these segments; plans carry it."""
        ...

    @property
    def journal_name(self) -> str:
        """The name under which the journal keeps this heap's operations."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from changing the heap; the same thread may take it again."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the current state of the heap, including changes by other processes.

        A heap of columns returns a snapshot without segments: its fingerprint, unit and rest size.
        """
        ...

    def size(self) -> int:
        """Return the size of the heap, in its unit."""
        ...

    def check(self, plan: Plan) -> None:
        """Refuse a plan that cannot be carried out as it was shown, with PlanOutdated."""
        ...

    def sweep(self, plan: Plan, now: datetime) -> Report:
        """Do exactly what the plan says; keep what is swept. The report counts the result."""
        ...

    def kept_of(self, plan_id: str) -> tuple[str, ...]:
        """Return what undoing a plan would change; empty if there is nothing left to undo."""
        ...

    def kept_with(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Return what comes back with these, as whole units; NotFound if one is not kept."""
        ...

    def bring_back(
        self, ids: Sequence[str], *, plan_id: str = "", now: datetime
    ) -> tuple[str, ...]:
        """Bring back what `kept_of` or `kept_with` returned; return the ids that changed.

        With a plan, as they were before that plan; without, as they were last.
        """
        ...

    def settle(self, intent: Entry, now: datetime) -> Event:
        """Finish or clear an operation that a crash interrupted: SWEPT, RESTORED or ROLLED_BACK."""
        ...

    def expired(self, now: datetime) -> tuple[str, ...]:
        """Return what was deleted and is past its grace period."""
        ...

    def purge(self, now: datetime) -> tuple[str, ...]:
        """Erase these permanently; return the erased ids."""
        ...
