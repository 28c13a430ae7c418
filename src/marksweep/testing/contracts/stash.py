"""What every stash must do."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import msgspec
import pytest

from marksweep.errors import StoreError
from marksweep.model import Entry, Event, Stashed
from marksweep.stores.base import Stash, Store
from marksweep.testing.contracts import handles
from marksweep.testing.contracts.handles import Handles, Opener, segment, stashed
from marksweep.testing.contracts.segments import FULL


class StashContract(Handles):
    """What every stash must do."""

    def test_an_entry_comes_back_as_it_was(self, store: Store, another: Opener) -> None:
        entry = Stashed(
            FULL, "plan", handles.NOON, "why", expires_at=handles.later(days=7), replaced_by="short"
        )
        store.stash.put("w", [entry])
        assert another().stash.get("w", ["full"]) == (entry,)

    def test_an_empty_stash_has_nothing(self, stash: Stash) -> None:
        assert stash.get("w", ["a"]) == ()
        assert stash.of_plan("w", "plan") == ()
        assert stash.expired("w", handles.NOON) == ()
        assert stash.count("w") == 0
        stash.remove("w", "plan", ["a"])

    def test_a_segment_is_there_once_per_plan_the_last_put_first(self, stash: Stash) -> None:
        stash.put("w", [stashed("a", "plan-2"), stashed("b", "plan-2")])
        stash.put("w", [stashed("a", "plan-1")])
        found = stash.get("w", ["a"])
        assert [each.plan_id for each in found] == ["plan-1", "plan-2"]
        assert stash.count("w") == 3
        assert [stash.count("w", most) for most in (0, 2, 3, 9)] == [0, 2, 3, 3]

    def test_many_ids_are_fetched_at_once_and_each_entry_once(self, stash: Stash) -> None:
        entries = [stashed(f"s{n}") for n in range(2_500)]
        stash.put("w", entries)
        asked = [f"s{n}" for n in range(2_500)] * 2
        assert stash.get("w", asked) == tuple(reversed(entries))
        assert list(stash.entries("w")) == entries
        assert list(stash.entries("other")) == []

    def test_a_store_names_all_that_it_holds_and_how_large_it_is(self, store: Store) -> None:
        assert store.all_workspaces() == ()
        store.stash.put("swept", [stashed("a")])
        store.segments.write("live", put=[segment("a"), segment("b")])
        assert store.all_workspaces() == ("live", "swept")
        store.segments.write("live", remove=["a", "b"])
        store.stash.remove("swept", "plan-1", ["a"])
        assert store.all_workspaces() == ()
        store.journal.append("erased: of 1", Entry(Event.PURGED, handles.NOON, segments=("a",)))
        assert store.all_workspaces() == ("erased: of 1",)
        assert store.size() >= 0

    def test_the_same_plan_and_segment_again_replaces(self, stash: Stash) -> None:
        stash.put("w", [stashed("a", text="old words"), stashed("b")])
        stash.put("w", [stashed("a", text="new words")])
        assert stash.get("w", ["a"]) == (stashed("a", text="new words"),)
        assert stash.count("w") == 2

    def test_the_last_of_two_in_one_put_wins(self, stash: Stash) -> None:
        stash.put("w", [stashed("a", text="old"), stashed("a", text="new")])
        assert stash.get("w", ["a"]) == (stashed("a", text="new"),)

    def test_a_plans_entries_come_in_heap_order(self, stash: Stash) -> None:
        stash.put("w", [stashed("a", position=3), stashed("z", position=1)])
        stash.put("w", [stashed("m", position=1), stashed("b", "plan-2", position=0)])
        found = stash.of_plan("w", "plan-1")
        assert [each.segment.segment_id for each in found] == ["m", "z", "a"]

    def test_only_the_plans_own_entries_are_removed(self, stash: Stash) -> None:
        stash.put("w", [stashed("a"), stashed("b"), stashed("a", "plan-2")])
        stash.remove("w", "plan-1", ["a", "nobody", "a"])
        assert [each.plan_id for each in stash.get("w", ["a"])] == ["plan-2"]
        assert stash.of_plan("w", "plan-1") == (stashed("b"),)
        assert stash.count("w") == 2

    @pytest.mark.parametrize("order", list(permutations(("plan-1", "plan-2", "plan-3"))))
    def test_the_entries_of_a_segment_go_in_any_order(
        self, stash: Stash, order: tuple[str, ...]
    ) -> None:
        left = ["plan-3", "plan-2", "plan-1"]
        for plan_id in reversed(left):
            stash.put("w", [stashed("a", plan_id)])
        for plan_id in order:
            assert [each.plan_id for each in stash.get("w", ["a"])] == left
            stash.remove("w", plan_id, ["a"])
            left.remove(plan_id)
        assert stash.get("w", ["a"]) == ()
        stash.put("w", [stashed("a", "plan-4")])
        assert [each.plan_id for each in stash.get("w", ["a"])] == ["plan-4"]

    def test_what_another_handle_put_and_removed_shows_up(
        self, store: Store, another: Opener
    ) -> None:
        neighbour = another()
        assert neighbour.stash.count("w") == 0
        store.stash.put("w", [stashed("a"), stashed("b")])
        assert neighbour.stash.count("w") == 2
        neighbour.stash.remove("w", "plan-1", ["a"])
        assert store.stash.get("w", ["a", "b"]) == (stashed("b"),)

    def test_deletions_become_final_at_their_moment(self, stash: Stash) -> None:
        soon = msgspec.structs.replace(stashed("soon"), expires_at=handles.later(hours=1))
        late = msgspec.structs.replace(stashed("late"), expires_at=handles.later(hours=2))
        stash.put("w", [late, soon, stashed("never")])
        assert stash.expired("w", handles.later(hours=1) - timedelta(microseconds=1)) == ()
        assert stash.expired("w", handles.later(hours=1)) == (soon,)
        assert stash.expired("w", handles.later(days=999)) == (late, soon)

    def test_stashes_are_apart(self, stash: Stash) -> None:
        stash.put("one", [stashed("a", text="first")])
        stash.put("two", [stashed("a", text="second")])
        assert stash.get("one", ["a"]) == (stashed("a", text="first"),)
        stash.remove("two", "plan-1", ["a"])
        assert stash.count("one") == 1
        assert stash.count("two") == 0

    @pytest.mark.parametrize("name", handles.HOSTILE_NAMES, ids=ascii)
    def test_hostile_names_are_names_in_the_stash(
        self, store: Store, another: Opener, name: str
    ) -> None:
        entry = Stashed(segment(name, "words"), name, handles.NOON, name, replaced_by=name)
        store.stash.put(name, [entry, stashed("plain", "plan-0")])
        again = another().stash
        assert again.get(name, [name]) == (entry,)
        assert again.of_plan(name, name) == (entry,)
        again.remove(name, name, [name])
        assert again.count(name) == 1

    def test_a_put_that_fails_halfway_leaves_nothing(self, stash: Stash) -> None:
        stash.put("w", [stashed("a", text="old")])
        with pytest.raises(RuntimeError, match="torn"):
            stash.put("w", handles.Torn([stashed("a", text="new"), stashed("b"), stashed("c")]))
        assert stash.get("w", ["a", "b", "c"]) == (stashed("a", text="old"),)

    def test_a_closed_stash_refuses(self, store: Store) -> None:
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.stash.put("w", [stashed("a")])
        with pytest.raises(StoreError, match="closed"):
            store.stash.count("w")
