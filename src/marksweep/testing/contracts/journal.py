"""What every journal must do."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pytest

from marksweep.errors import StoreError
from marksweep.model import Action, Blocker, Cost, Entry, Event, Plan, Report, Step
from marksweep.stores.base import KEEP_PLANS, REDACTED, Journal, JournalSize, Store
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


def shown(number: int, at: datetime) -> Entry:
    """Make the entry that shows the plan with this number."""
    plan = msgspec.structs.replace(PLAN, plan_id=f"plan-{number}")
    return Entry(Event.PLANNED, at, plan.plan_id, plan=plan)


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

    def test_all_entries_are_read_oldest_first_however_many(self, journal: Journal) -> None:
        for number in range(300):
            journal.append("w", Entry(Event.SWEPT, NOON, str(number)))
        assert tuple(journal.entries("w")) == tuple(reversed(journal.read("w")))
        assert list(journal.entries("other")) == []

    def test_two_handles_number_as_one(self, store: Store, another: Opener) -> None:
        neighbour = another()
        for _ in range(3):
            store.journal.append("w", Entry(Event.SWEEPING, NOON))
            neighbour.journal.append("w", Entry(Event.SWEPT, NOON))
        assert [each.seq for each in store.journal.read("w")] == [6, 5, 4, 3, 2, 1]
        assert neighbour.journal.read("w") == store.journal.read("w")

    def test_reading_is_by_event_plan_and_limit(self, journal: Journal) -> None:
        entries = [
            (Event.PLANNED, "p1"),
            (Event.SWEEPING, "p1"),
            (Event.SWEPT, "p1"),
            (Event.SWEEPING, "p2"),
        ]
        for event, plan_id in entries:
            journal.append("w", Entry(event, NOON, plan_id))

        def numbers(**filters: object) -> list[int]:
            return [each.seq for each in journal.read("w", **filters)]  # type: ignore[arg-type]

        assert numbers(events={Event.SWEEPING}) == [4, 2]
        assert numbers(events=(Event.SWEEPING, Event.SWEPT), plan_id="p1") == [3, 2]
        assert numbers(plan_id="p1", limit=2) == [3, 2]
        assert numbers(events=[Event.UNDONE]) == []
        assert numbers(plan_id="") == []
        assert numbers(limit=0) == []
        assert numbers(limit=10**30) == numbers()

    def test_a_plan_that_is_shown_again_is_stored_once(self, store: Store, another: Opener) -> None:
        first = store.journal.append("w", Entry(Event.PLANNED, NOON, "plan-1", plan=PLAN))
        size = store.journal.size("w")
        again = Entry(Event.PLANNED, later(hours=1), "plan-1", plan=PLAN)
        assert another().journal.append("w", again) == first
        assert store.journal.read("w") == (first,)
        assert store.journal.size("w") == size

    def test_plans_that_nobody_applied_expire(self, store: Store, another: Opener) -> None:
        store.journal.append("w", shown(0, NOON))
        store.journal.append("w", shown(1, NOON))
        store.journal.append("w", Entry(Event.SWEEPING, NOON, "plan-1"))
        store.journal.append("w", shown(2, later(days=6)))
        store.journal.append("w", shown(3, later(days=8)))
        recorded = [(each.seq, each.event, each.plan_id) for each in another().journal.read("w")]
        assert recorded == [
            (5, Event.PLANNED, "plan-3"),
            (4, Event.PLANNED, "plan-2"),
            (3, Event.SWEEPING, "plan-1"),
            (2, Event.PLANNED, "plan-1"),
        ]
        assert store.journal.append("w", shown(0, later(days=8))).seq == 6

    def test_of_the_plans_that_were_shown_the_newest_are_kept(self, journal: Journal) -> None:
        most = KEEP_PLANS.plans
        journal.append("w", shown(999, NOON))
        journal.append("w", Entry(Event.SWEEPING, NOON, "plan-999"))
        for number in range(most + 5):
            journal.append("w", shown(number, NOON))
            journal.append("other", shown(number % 2, NOON))
        kept = [each.plan_id for each in journal.read("w", limit=most)]
        assert kept == [f"plan-{number}" for number in reversed(range(5, most + 5))]
        assert [each.seq for each in journal.read("w", plan_id="plan-999")] == [2, 1]
        assert [each.plan_id for each in journal.read("other")] == ["plan-1", "plan-0"]

    def test_redaction_takes_the_content_and_leaves_what_was_done(
        self, store: Store, another: Opener
    ) -> None:
        plan = msgspec.structs.replace(
            PLAN, steps=(*PLAN.steps, Step(("c",), Action.STASH, 1, "c"))
        )
        store.journal.append("w", Entry(Event.PLANNED, NOON, "plan-1", plan=plan))
        store.journal.append("w", Entry(Event.SWEEPING, NOON, "plan-1", "ann", plan=plan))
        done = store.journal.append("w", Entry(Event.SWEPT, NOON, "plan-1"))
        assert store.journal.redact("w", {"nobody"}) == 0
        assert another().journal.redact("w", {"b"}) == 2
        last, sweeping, planned = store.journal.read("w")
        assert last == done
        assert planned.plan is None
        assert sweeping.plan is not None
        gone, kept = sweeping.plan.steps
        assert (gone.segments, gone.action, gone.size) == (("a", "b"), Action.COMPRESS, 60)
        assert gone.reason == REDACTED
        assert gone.replacement is not None
        assert (gone.replacement.segment_id, gone.replacement.text) == (FULL.segment_id, "")
        assert kept == plan.steps[1]
        assert store.journal.redact("w", {"b"}) == 2 - 1
        assert store.journal.append("w", Entry(Event.PLANNED, NOON, "plan-1", plan=PLAN)).seq == 4

    def test_the_size_grows_with_what_is_written(self, journal: Journal) -> None:
        assert journal.size("w") == JournalSize(0, 0)
        journal.append("w", Entry(Event.SWEEPING, NOON, "plan-1", plan=PLAN))
        journal.append("w", Entry(Event.SWEPT, NOON, "plan-1"))
        found = journal.size("w")
        assert found.entries == 2
        assert found.bytes > len(FULL.text)

    def test_workspaces_are_numbered_apart(self, journal: Journal) -> None:
        journal.append("one", Entry(Event.SWEPT, NOON))
        journal.append("two", Entry(Event.SWEPT, NOON))
        assert [each.seq for each in journal.read("two")] == [1]

    def test_hostile_names_are_names_in_the_journal(self, store: Store, another: Opener) -> None:
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
