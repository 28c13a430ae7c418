"""What every journal must do."""

from __future__ import annotations

import msgspec
import pytest

from marksweep.errors import StoreError
from marksweep.model import Action, Blocker, Cost, Entry, Event, Plan, Report, Step
from marksweep.stores.base import Journal, Store
from marksweep.testing.contracts.handles import HOSTILE_NAMES, NOON, Handles, Opener, later
from marksweep.testing.contracts.segments import FULL

PLAN = Plan(
    plan_id="plan-1",
    fingerprint="f" * 16,
    made_at=NOON,
    strategy="scored",
    size_before=100,
    size_after=40,
    target_size=30,
    steps=(Step(("a", "b"), Action.COMPRESS, 60, "cold but important", replacement=FULL),),
    blockers=(Blocker("pinned", 1, 12),),
    cost=Cost(3, 40, 2.5),
    workspace="w",
)


class JournalContract(Handles):
    """What every journal must do."""

    def test_an_entry_comes_back_whole_with_its_number(self, store: Store, another: Opener) -> None:
        report = Report("plan-1", 100, 40, swept=("a", "b"), created=("full",))
        entry = Entry(Event.SWEPT, later(minutes=1), "plan-1", "ann", ("a",), PLAN, report)
        added = store.journal.append("w", entry)
        assert added == msgspec.structs.replace(entry, seq=1)
        assert another().journal.read("w") == (added,)

    def test_an_empty_journal_has_nothing(self, journal: Journal) -> None:
        assert journal.read("w") == ()

    def test_entries_are_numbered_from_one_and_read_newest_first(self, journal: Journal) -> None:
        for _ in range(5):
            journal.append("w", Entry(Event.SWEPT, NOON))
        assert [each.seq for each in journal.read("w")] == [5, 4, 3, 2, 1]

    def test_two_handles_number_as_one(self, store: Store, another: Opener) -> None:
        neighbour = another()
        for _ in range(3):
            store.journal.append("w", Entry(Event.SWEEPING, NOON))
            neighbour.journal.append("w", Entry(Event.SWEPT, NOON))
        assert [each.seq for each in store.journal.read("w")] == [6, 5, 4, 3, 2, 1]
        assert neighbour.journal.read("w") == store.journal.read("w")

    def test_reading_is_by_event_plan_and_limit(self, journal: Journal) -> None:
        told = [
            (Event.PLANNED, "p1"),
            (Event.SWEEPING, "p1"),
            (Event.SWEPT, "p1"),
            (Event.SWEEPING, "p2"),
        ]
        for event, plan_id in told:
            journal.append("w", Entry(event, NOON, plan_id))

        def numbers(**filters: object) -> list[int]:
            return [each.seq for each in journal.read("w", **filters)]  # type: ignore[arg-type]

        assert numbers(events={Event.SWEEPING}) == [4, 2]
        assert numbers(events=(Event.SWEEPING, Event.SWEPT), plan_id="p1") == [3, 2]
        assert numbers(plan_id="p1", limit=2) == [3, 2]
        assert numbers(events=[Event.UNDONE]) == []
        assert numbers(plan_id="") == []
        assert numbers(limit=0) == []

    def test_workspaces_are_numbered_apart(self, journal: Journal) -> None:
        journal.append("one", Entry(Event.SWEPT, NOON))
        journal.append("two", Entry(Event.SWEPT, NOON))
        assert [each.seq for each in journal.read("two")] == [1]

    def test_hostile_names_are_names(self, store: Store, another: Opener) -> None:
        for name in HOSTILE_NAMES:
            store.journal.append(name, Entry(Event.SWEPT, NOON, name, name, (name,)))
        again = another().journal
        for name in HOSTILE_NAMES:
            (entry,) = again.read(name, plan_id=name)
            assert entry == Entry(Event.SWEPT, NOON, name, name, (name,), seq=1)

    def test_a_closed_journal_refuses(self, store: Store) -> None:
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.journal.append("w", Entry(Event.SWEPT, NOON))
        with pytest.raises(StoreError, match="closed"):
            store.journal.read("w")
