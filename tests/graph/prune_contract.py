"""What pruning promises, on any store."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from marksweep.errors import (
    BadInput,
    NotConfirmed,
    NotFound,
    Refused,
    StoreBusy,
    StoreError,
    UnknownName,
)
from marksweep.graph.client import GraphClient
from marksweep.graph.memory import GraphMemory
from marksweep.graph.pruning import MemorySettings
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import Limits, refs_of
from marksweep.mcp.memory_tools import prune_text
from marksweep.model import Entry, Event, Reference, Segment, Stashed
from marksweep.stores.graph.base import Nodes, Run, Seen
from marksweep.stores.graph.nouns import Memory, Record
from marksweep.stores.leases import CHANGE, hold
from tests.graph.graph_contract import everything, found, shape
from tests.graph.graphs import file, later, note
from tests.graph.memories import OnWorld, World


def cite(world: World, record: Record) -> None:
    """Add a segment in use that refers to a memory."""
    segment = Segment(
        segment_id="s",
        type="note",
        created_at=world.clock(),
        pinned=True,
        references=(Reference(record.memory.memory_id),),
    )
    world.store.segments.write("w", put=[segment])


def with_stale(world: World, *, kept: int = 3, stale: int = 2) -> list[Record]:
    """Index files, then index again without some of them; return those."""
    here = [file("w", f"kept{n}.py", {f"kept{n}": ["shared"]}) for n in range(kept)]
    gone = [file("w", f"gone{n}.py", {f"gone{n}": ["shared", f"only{n}"]}) for n in range(stale)]
    every = [*here, *gone]
    world.graph.begin_run("w", Run("run-1", "/repo", "all", world.clock()))
    world.graph.put("w", every)
    ids = [record.memory.memory_id for record in every]
    world.graph.finish_run("w", "run-1", ids, world.clock())
    world.clock.wait(days=1)
    world.graph.begin_run("w", Run("run-2", "/repo", "all", world.clock()))
    seen = [Seen(record.memory.memory_id, 1, 1) for record in here]
    world.graph.stamp("w", "run-2", seen, world.clock())
    world.graph.finish_run("w", "run-2", ids, world.clock())
    return gone


def ids_of(records: list[Record]) -> set[str]:
    return {record.memory.memory_id for record in records}


class PruneMemoryContract(OnWorld):
    """The tool: dry run, confirmation, strategies, isolation."""

    def test_dry_run_returns_preview(self, world: World) -> None:
        gone = with_stale(world)
        before = everything(world.graph, "w")
        answer = world.memory.prune_memory("w")
        text = prune_text(answer, Limits())
        assert text.startswith("Dry run complete. Preview of items to delete:\n\n")
        assert "gone0.py (1 lines, 1 chunks, created 2026-03-01 12:00): stale:" in text
        assert "Memories: 2\nChunks: 2\nEntities: 0" in text
        assert answer.plan_id in text
        assert set(answer.planned.memories) == ids_of(gone)
        assert everything(world.graph, "w") == before

    def test_deletion_requires_confirmation(self, world: World) -> None:
        with_stale(world)
        before = everything(world.graph, "w")
        expected = "Deletion requires explicit confirmation. Set confirm=true to proceed."
        with pytest.raises(NotConfirmed, match=expected):
            world.memory.prune_memory("w", dry_run=False)
        assert everything(world.graph, "w") == before

    def test_deletion_with_confirmation_succeeds(self, world: World) -> None:
        gone = with_stale(world)
        shown = world.memory.prune_memory("w")
        answer = world.memory.prune_memory("w", dry_run=False, confirm=True, plan_id=shown.plan_id)
        assert prune_text(answer, Limits()).startswith(
            "Successfully deleted 2 stale memory nodes and 2 chunks."
        )
        assert set(answer.deleted.memories) == ids_of(gone)
        assert found(world.graph, "w", "gone0") == []
        assert world.graph.counts("w").stale == 0

    def test_confirm_without_a_plan_applies_what_a_preview_would_show(self, world: World) -> None:
        gone = with_stale(world)
        answer = world.memory.prune_memory("w", dry_run=False, confirm=True)
        assert set(answer.deleted.memories) == ids_of(gone)

    def test_workspace_isolation(self, world: World) -> None:
        with_stale(world)
        other = file("other", "gone0.py", {"gone0": []})
        world.graph.put("other", [other])
        world.graph.mark_stale("other", [other.memory.memory_id])
        before = everything(world.graph, "other")
        shown = world.memory.prune_memory("w", strategy="all")
        world.memory.prune_memory(
            "w", dry_run=False, confirm=True, strategy="all", plan_id=shown.plan_id
        )
        assert everything(world.graph, "other") == before
        with pytest.raises(NotFound, match="no plan"):
            world.memory.prune_memory("other", dry_run=False, confirm=True, plan_id=shown.plan_id)

    def test_stale_code_strategy(self, world: World) -> None:
        gone = with_stale(world)
        world.memory.add_memory("a note that mentions gone0", workspace_id="w")
        answer = world.memory.prune_memory("w", strategy="stale_code")
        assert set(answer.planned.memories) == ids_of(gone)
        assert answer.planned.entities == ()

    def test_orphaned_chunks_strategy(self, world: World) -> None:
        orphan = note("w", "nobody's chunk")
        world.graph.put("w", [note("w", "somebody's chunk")])
        world.graph.load("w", orphan.chunks)
        answer = world.memory.prune_memory("w", strategy="orphaned_chunks")
        assert answer.planned == Nodes(chunks=(orphan.chunks[0].chunk_id,))
        answer = world.memory.prune_memory(
            "w", dry_run=False, confirm=True, strategy="orphaned_chunks", plan_id=answer.plan_id
        )
        assert prune_text(answer, Limits()).startswith("Successfully deleted 1 orphaned chunk.")

    def test_orphaned_entities_strategy_takes_islands_and_cycles(self, world: World) -> None:
        island = file("w", "x.py", {"ping": ["pong"], "pong": ["ping"]})
        world.graph.put("w", [file("w", "a.py", {"live": ["ping"]})])
        lonely = file("w", "y.py", {"round": ["and"], "and": ["round"]})
        for record in (island, lonely):
            world.graph.load("w", [*record.entities, *record.relations])
        answer = world.memory.prune_memory("w", strategy="orphaned_entities")
        names = {e.name for e in world.graph.find("w", answer.planned) if hasattr(e, "name")}
        assert names == {"pong", "round", "and"}

    def test_orphaned_entities_strategy_spares_what_a_stale_file_mentions(
        self, world: World
    ) -> None:
        with_stale(world)
        answer = world.memory.prune_memory("w", strategy="orphaned_entities")
        assert answer.planned == Nodes()

    def test_a_note_with_a_time_to_live_expires_and_can_be_restored(self, world: World) -> None:
        memory = world.memory
        short = memory.add_memory("the branch is frozen", ttl=timedelta(days=2), workspace_id="w")
        memory.add_memory("the branch is main", workspace_id="w")
        assert not memory.prune_memory("w", strategy="expired").planned.memories
        world.clock.wait(days=3)
        shown = memory.prune_memory("w", strategy="expired")
        assert shown.planned.memories == (short.memory_id,)
        assert "expired: its time to live ended on" in prune_text(shown, Limits())
        memory.prune_memory("w", False, True, "expired", plan_id=shown.plan_id)
        (left,) = memory.search_memory("branch", workspace_id="w").hits
        assert left.memory.text == "the branch is main"
        assert memory.undo(shown.plan_id, workspace_id="w").memories == (short.memory_id,)
        again = memory.add_memory("the branch is frozen", workspace_id="w")
        assert again.memory_id != short.memory_id
        assert memory.prune_memory("w", strategy="expired").planned.memories == (short.memory_id,)

    def test_expired_strategy_goes_by_the_life_of_the_source(self, world: World) -> None:
        memory = world.with_settings(MemorySettings(ttl={"chat": timedelta(days=30)}))
        old = memory.add_memory("old talk", source="chat", workspace_id="w")
        read = memory.add_memory("old talk, read lately", source="chat", workspace_id="w")
        memory.add_memory("old note", source="user", workspace_id="w")
        world.clock.wait(days=20)
        memory.touch([read.memory_id], workspace_id="w")
        world.clock.wait(days=20)
        young = memory.add_memory("new talk", source="chat", workspace_id="w")
        answer = memory.prune_memory("w", strategy="expired")
        assert answer.planned.memories == (old.memory_id,)
        assert "expired: memories of chat live for 30 days" in prune_text(answer, Limits())
        assert young.memory_id not in answer.planned.memories

    def test_duplicates_strategy_keeps_the_oldest_or_the_pinned(self, world: World) -> None:
        memory = world.memory
        first = memory.add_memory("Same  words", source="a", workspace_id="w")
        world.clock.wait(days=1)
        second = memory.add_memory("same words", source="b", workspace_id="w")
        memory.add_memory("other words", source="b", workspace_id="w")
        answer = memory.prune_memory("w", strategy="duplicates")
        assert answer.planned.memories == (second.memory_id,)
        memory.pin([second.memory_id], by="ann", workspace_id="w")
        answer = memory.prune_memory("w", strategy="duplicates")
        assert answer.planned.memories == (first.memory_id,)

    def test_a_fact_that_is_true_again_is_no_duplicate_of_the_replaced_one(
        self, world: World
    ) -> None:
        memory = world.memory
        first = memory.add_memory("The port is 8080", workspace_id="w")
        second = memory.add_memory("The port is 9090", replaces=[first.memory_id], workspace_id="w")
        again = memory.add_memory(
            "the port is  8080", replaces=[second.memory_id], workspace_id="w"
        )
        for strategy in ("duplicates", "all"):
            assert not memory.prune_memory("w", strategy=strategy).planned.memories
        (found,) = memory.search_memory("port", workspace_id="w").hits
        assert found.memory.memory_id == again.memory_id

    def test_a_text_whose_first_memory_was_purged_is_still_known(self, world: World) -> None:
        memory = world.memory
        first = memory.add_memory("The port is 80", workspace_id="w")
        world.clock.wait(days=1)
        other = memory.add_memory("There is none", replaces=[first.memory_id], workspace_id="w")
        world.clock.wait(days=1)
        again = memory.add_memory(
            "The port is 80", replaces=[other.memory_id], workspace_id="w", tags=["ops"]
        )
        memory.forget([first.memory_id], workspace_id="w")
        world.clock.wait(days=100)
        assert memory.purge(workspace_id="w").gone.memories == (first.memory_id,)
        known = memory.add_memory("The port is 80", workspace_id="w")
        assert (known.memory_id, known.tags) == (again.memory_id, ("ops",))
        world.clock.wait(days=1)
        memory.add_memory("It is closed", replaces=[again.memory_id], workspace_id="w")
        new = memory.add_memory("The port is 80", workspace_id="w").memory_id
        assert new not in (first.memory_id, again.memory_id)
        memory.forget([new], workspace_id="w")
        assert memory.add_memory("The port is 80", workspace_id="w").memory_id == new

    def test_of_equal_notes_the_one_that_lives_longest_is_kept(self, world: World) -> None:
        memory = world.with_settings(MemorySettings(ttl={"chat": timedelta(days=30)}))
        short = memory.add_memory("Same words", ttl=timedelta(days=2), workspace_id="w")
        chat = memory.add_memory("same words", source="chat", workspace_id="w")
        world.clock.wait(days=1)
        lasting = memory.add_memory("same  words", source="user", workspace_id="w")
        memory.pin([short.memory_id], by="ann", workspace_id="w")
        for strategy in ("duplicates", "all"):
            answer = memory.prune_memory("w", strategy=strategy)
            assert answer.planned.memories == (chat.memory_id,)
        memory.unpin([short.memory_id], workspace_id="w")
        world.clock.wait(days=40)
        answer = memory.prune_memory("w", strategy="all")
        assert set(answer.planned.memories) == {short.memory_id, chat.memory_id}
        memory.prune_memory("w", False, True, "all", plan_id=answer.plan_id)
        (found,) = memory.search_memory("words", workspace_id="w").hits
        assert found.memory.memory_id == lasting.memory_id

    def test_a_grace_period_of_hours_is_not_called_zero_days(self, world: World) -> None:
        with_stale(world)
        answer = world.memory.prune_memory("w")
        said = prune_text(answer, Limits(grace=timedelta(hours=12)))
        assert "restored for 0.5 days" in said

    def test_duplicates_strategy_spares_files_of_one_content(self, world: World) -> None:
        one, other = (file("w", path, {"same": []}) for path in ("a/__init__.py", "b/__init__.py"))
        assert one.memory.content_hash == other.memory.content_hash
        world.graph.put("w", [one, other])
        for strategy in ("duplicates", "all"):
            assert world.memory.prune_memory("w", strategy=strategy).planned == Nodes()

    def test_all_strategy(self, world: World) -> None:
        memory = world.with_settings(MemorySettings(ttl={"chat": timedelta(days=30)}))
        old = memory.add_memory("old talk", source="chat", workspace_id="w")
        first = memory.add_memory("same words", source="a", workspace_id="w")
        world.clock.wait(days=40)
        second = memory.add_memory("Same words", source="b", workspace_id="w")
        gone = with_stale(world)
        orphan = note("w", "nobody's chunk")
        world.graph.load("w", orphan.chunks)
        lonely = file("w", "y.py", {"round": ["and"], "and": ["round"]})
        world.graph.load("w", [*lonely.entities, *lonely.relations])
        each = {
            strategy: set(refs_of(memory.prune_memory("w", strategy=strategy).planned))
            for strategy in PruneStrategy
        }
        every = each.pop(PruneStrategy.ALL)
        assert set().union(*each.values()) <= every
        assert all(each.values())
        named = {f"memory:{memory_id}" for memory_id in ids_of(gone)}
        assert {ref for ref in every if ref.startswith("memory:")} == named | {
            f"memory:{old.memory_id}",
            f"memory:{second.memory_id}",
        }
        assert f"memory:{first.memory_id}" not in every

    def test_all_strategy_takes_what_only_the_rest_keeps(self, world: World) -> None:
        gone = with_stale(world)
        world.graph.load("w", note("w", "nobody's chunk").chunks)
        answer = world.memory.prune_memory("w", strategy="all")
        assert set(answer.planned.memories) == ids_of(gone)
        assert len(answer.planned.chunks) == 3
        names = {e.name for e in world.graph.find("w", answer.planned) if hasattr(e, "name")}
        assert names == {"gone0", "gone1", "only0", "only1"}
        answer = world.memory.prune_memory(
            "w", dry_run=False, confirm=True, strategy="all", plan_id=answer.plan_id
        )
        assert prune_text(answer, Limits()).startswith(
            "Successfully deleted 2 memory nodes, 3 chunks and 4 entities."
        )
        again = world.memory.prune_memory("w", strategy="all")
        assert again.planned == Nodes()
        assert "Nothing" in prune_text(again, Limits())

    def test_an_unknown_strategy_is_refused_with_the_known_ones(self, world: World) -> None:
        with pytest.raises(UnknownName, match="known are stale_code, orphaned_chunks"):
            world.memory.prune_memory("w", strategy="everything")

    def test_an_empty_workspace_has_nothing_to_prune(self, world: World) -> None:
        answer = world.memory.prune_memory("w", strategy="all")
        assert "Nothing" in prune_text(answer, Limits())

    def test_a_workspace_in_which_nothing_is_stale_keeps_everything(self, world: World) -> None:
        world.graph.put("w", [file("w", f"live{n}.py", {f"f{n}": []}) for n in range(3)])
        answer = world.memory.prune_memory("w", strategy="all")
        assert prune_text(answer, Limits()).endswith("Nothing: strategy all finds nothing in 'w'.")
        assert len(answer.planned) == 0

    def test_a_workspace_in_which_all_is_stale_is_emptied(self, world: World) -> None:
        records = [file("w", f"gone{n}.py", {f"f{n}": []}) for n in range(3)]
        world.graph.put("w", records)
        world.graph.mark_stale("w", [record.memory.memory_id for record in records])
        answer = world.memory.prune_memory("w", False, True, "all")
        assert (
            prune_text(answer, Limits()).partition("\n")[0]
            == "Successfully deleted 3 memory nodes, 3 chunks and 3 entities."
        )
        counts = world.graph.counts("w")
        assert (counts.memories, counts.chunks, counts.entities) == (0, 0, 0)

    def test_deleting_in_the_default_workspace_needs_its_name(self, world: World) -> None:
        record = file("default", "a.py", {"a": []})
        world.graph.put("default", [record])
        world.graph.mark_stale("default", [record.memory.memory_id])
        shown = world.memory.prune_memory()
        assert shown.planned.memories == (record.memory.memory_id,)
        with pytest.raises(Refused, match="workspace_id='default'"):
            world.memory.prune_memory(dry_run=False, confirm=True, plan_id=shown.plan_id)
        done = world.memory.prune_memory(
            "default", dry_run=False, confirm=True, plan_id=shown.plan_id
        )
        assert done.deleted.memories == (record.memory.memory_id,)


class SafetyContract(OnWorld):
    """What keeps live memory safe."""

    def test_pinned_and_recently_read_memories_stay(self, world: World) -> None:
        pinned, read = with_stale(world)
        world.memory.pin([pinned.memory.memory_id], by="ann", workspace_id="w")
        world.memory.touch([read.memory.memory_id], workspace_id="w")
        assert world.memory.prune_memory("w").planned == Nodes()
        world.clock.wait(days=2)
        answer = world.memory.prune_memory("w")
        assert answer.planned.memories == (read.memory.memory_id,)

    def test_rows_that_changed_since_the_preview_are_left_alone(self, world: World) -> None:
        back, gone = with_stale(world)
        shown = world.memory.prune_memory("w")
        world.graph.begin_run("w", Run("run-3", "/repo", "all", world.clock()))
        world.graph.stamp("w", "run-3", [Seen(back.memory.memory_id, 1, 1)], world.clock())
        answer = world.memory.prune_memory("w", dry_run=False, confirm=True, plan_id=shown.plan_id)
        assert answer.deleted.memories == (gone.memory.memory_id,)
        assert answer.left_alone.memories == (back.memory.memory_id,)
        assert "Left alone, because it changed since the preview" in prune_text(answer, Limits())
        assert found(world.graph, "w", "gone0") == [back.chunks[0].text]

    def test_a_plan_takes_what_the_cap_allows_and_the_next_run_continues(
        self, world: World
    ) -> None:
        gone = with_stale(world, kept=1, stale=60)
        deleted: set[str] = set()
        runs = 0
        while (shown := world.memory.prune_memory("w", strategy="all")).plan.steps:
            assert 0 < shown.plan.freed <= 100
            done = world.memory.prune_memory(
                "w", dry_run=False, confirm=True, strategy="all", plan_id=shown.plan_id
            )
            assert set(refs_of(done.deleted)) == set(refs_of(shown.planned))
            deleted |= set(done.deleted.memories)
            runs += 1
            if runs == 1:
                (blocker,) = shown.plan.blockers
                assert "over the 100 nodes that one plan may take" in blocker.reason
                assert blocker.size == shown.plan.short_by > 0
                assert f"Not taken: {blocker.size} nodes" in prune_text(done, Limits())
        assert runs == 3
        assert deleted == ids_of(gone)
        assert world.graph.counts("w").entities == 2

    def test_a_limit_lets_one_run_take_more_than_the_cap(self, world: World) -> None:
        gone = with_stale(world, kept=1, stale=60)
        shown = world.memory.prune_memory("w", strategy="all", limit=1000)
        number = len(shown.planned)
        assert number > 100
        assert f"limit={number}" in prune_text(shown, Limits())
        with pytest.raises(Refused, match=f"limit={number}"):
            world.memory.prune_memory(
                "w", dry_run=False, confirm=True, strategy="all", plan_id=shown.plan_id
            )
        assert world.graph.counts("w").deleted == 0
        done = world.memory.prune_memory(
            "w", dry_run=False, confirm=True, strategy="all", plan_id=shown.plan_id, limit=number
        )
        assert set(done.deleted.memories) == ids_of(gone)

    def test_a_memory_that_a_segment_in_use_cites_stays_if_the_setting_says_so(
        self, world: World
    ) -> None:
        cited, other = with_stale(world)
        cite(world, cited)
        memory = world.with_settings(MemorySettings(keeps_segments=True))
        answer = memory.prune_memory("w")
        assert answer.planned.memories == (other.memory.memory_id,)
        assert len(world.memory.prune_memory("w").planned.memories) == 2
        world.store.segments.write("w", remove=["s"])
        assert len(memory.prune_memory("w").planned.memories) == 2

    def test_a_memory_that_is_cited_since_the_preview_is_left_alone(self, world: World) -> None:
        cited, other = with_stale(world)
        memory = world.with_settings(MemorySettings(keeps_segments=True))
        shown = memory.prune_memory("w")
        assert set(shown.planned.memories) == ids_of([cited, other])
        cite(world, cited)
        done = memory.prune_memory("w", dry_run=False, confirm=True, plan_id=shown.plan_id)
        assert done.deleted.memories == (other.memory.memory_id,)
        assert done.left_alone.memories == (cited.memory.memory_id,)
        assert done.left_alone.chunks == (cited.chunks[0].chunk_id,)

    def test_a_plan_to_forget_is_applied_by_its_id_too(self, world: World) -> None:
        memory = world.memory.add_memory("forget me", workspace_id="w")
        gone = world.memory.forget([memory.memory_id], workspace_id="w")
        world.memory.restore(plan_id=gone.plan_id, workspace_id="w")
        again = world.memory.prune_memory("w", dry_run=False, confirm=True, plan_id=gone.plan_id)
        assert prune_text(again, Limits()).startswith(
            "Successfully deleted nothing.\nLeft alone, because it changed"
        )

    def test_a_workspace_that_is_being_changed_refuses(self, world: World) -> None:
        with_stale(world)
        with (
            hold(world.graph, "w", CHANGE),
            pytest.raises(StoreBusy, match="held for change"),
        ):
            world.memory.prune_memory("w", dry_run=False, confirm=True)

    def test_deleted_rows_are_restored_by_plan_with_all_they_hold(self, world: World) -> None:
        with_stale(world)
        before = everything(world.graph, "w")
        shown = world.memory.prune_memory("w", strategy="all")
        world.memory.prune_memory(
            "w", dry_run=False, confirm=True, strategy="all", plan_id=shown.plan_id
        )
        world.clock.wait(days=6)
        world.memory.purge(workspace_id="w")
        world.memory.restore(plan_id=shown.plan_id, workspace_id="w")
        assert everything(world.graph, "w") == before
        with pytest.raises(NotFound, match=f"nothing that '{shown.plan_id}' swept is left"):
            world.memory.restore(plan_id=shown.plan_id, workspace_id="w")

    def test_a_purge_waits_for_the_grace_and_leaves_a_backup(self, world: World) -> None:
        gone = with_stale(world)
        before = everything(world.graph, "w")
        world.memory.prune_memory("w", dry_run=False, confirm=True, strategy="all")
        world.clock.wait(days=7)
        assert world.memory.purge(workspace_id="w").backup is None
        world.clock.wait(minutes=1)
        purged = world.memory.purge(workspace_id="w")
        assert set(purged.gone.memories) == ids_of(gone)
        assert shape(world.graph, "w") == (3, 3, 4, 6, 3)
        assert world.graph.counts("w").deleted == 0
        assert purged.backup is not None
        world.memory.import_backup(purged.backup.path)
        assert everything(world.graph, "w") == before

    def test_every_step_is_in_the_journal(self, world: World) -> None:
        with_stale(world)
        shown = world.memory.prune_memory("w")
        world.memory.prune_memory("w", dry_run=False, confirm=True, plan_id=shown.plan_id)
        world.memory.restore(plan_id=shown.plan_id, workspace_id="w")
        again = world.memory.prune_memory("w", dry_run=False, confirm=True)
        world.clock.wait(days=8)
        world.memory.purge(workspace_id="w")
        entries = world.memory.history(workspace_id="w")
        assert [(entry.event, entry.plan_id) for entry in entries[::-1]] == [
            (Event.PLANNED, shown.plan_id),
            (Event.SWEEPING, shown.plan_id),
            (Event.SWEPT, shown.plan_id),
            (Event.RESTORING, shown.plan_id),
            (Event.UNDONE, shown.plan_id),
            (Event.PLANNED, again.plan_id),
            (Event.SWEEPING, again.plan_id),
            (Event.SWEPT, again.plan_id),
            (Event.PURGED, ""),
        ]
        assert {entry.actor for entry in entries} == {"tester"}
        ids = refs_of(shown.planned)
        assert len(ids) == 4
        for entry in entries:
            if entry.event in (Event.UNDONE, Event.PURGED):
                assert set(entry.segments) == set(ids)
            if entry.event is Event.SWEPT:
                assert entry.report is not None
                assert set(entry.report.swept) == set(ids)
                assert entry.report.freed == len(ids)
        assert entries[0].at == world.clock()
        (purged,) = world.memory.history(workspace_id="w", events=[Event.PURGED])
        assert purged == entries[0]
        of_plan = world.memory.history(workspace_id="w", plan_id=again.plan_id)
        assert [entry.event for entry in of_plan] == [*(Event.SWEPT, Event.SWEEPING, Event.PLANNED)]

    def test_a_purge_is_in_the_journal_first_and_then_what_came_back_meanwhile(
        self, world: World
    ) -> None:
        gone = with_stale(world)
        world.memory.prune_memory("w", dry_run=False, confirm=True)
        world.clock.wait(days=8)
        recorded: list[int] = []
        erase = world.graph.purge

        def come_back_first(workspace_id: str, nodes: Nodes, *, before: datetime) -> Nodes:
            (entry,) = world.memory.history(workspace_id="w", events=[Event.PURGED])
            recorded.append(len(entry.segments))
            world.graph.put("w", [gone[0]])
            return erase(workspace_id, nodes, before=before)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.graph, "purge", come_back_first)
            world.memory.purge(workspace_id="w")
        assert recorded == [4]
        (back,) = world.memory.history(workspace_id="w", events=[Event.ROLLED_BACK])
        assert set(back.segments) == {
            f"memory:{gone[0].memory.memory_id}",
            f"chunk:{gone[0].chunks[0].chunk_id}",
        }

    def test_a_purge_that_cannot_write_its_backup_erases_nothing_and_the_journal_says_so(
        self, world: World
    ) -> None:
        gone = with_stale(world)
        world.memory.prune_memory("w", dry_run=False, confirm=True)
        world.clock.wait(days=8)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.memory, "backups", Path(__file__) / "backups")
            with pytest.raises(StoreError, match="A part of the path is a file"):
                world.memory.purge(workspace_id="w")
        back, purged = world.memory.history(workspace_id="w", limit=2)
        assert (back.event, purged.event) == (Event.ROLLED_BACK, Event.PURGED)
        assert set(back.segments) == set(purged.segments)
        assert set(world.memory.purge(workspace_id="w").gone.memories) == ids_of(gone)

    def test_memories_of_several_plans_come_back_together_or_none_does(self, world: World) -> None:
        notes = [world.memory.add_memory(f"note {n}", workspace_id="w") for n in range(3)]
        ids = [note.memory_id for note in notes]
        for each in ids:
            world.memory.forget([each], workspace_id="w")
        back = world.memory.restore(memory_ids=ids[:2], workspace_id="w")
        assert set(back.memories) == set(ids[:2])
        (recorded,) = world.memory.history(workspace_id="w", events=[Event.RESTORED])
        assert {f"memory:{each}" for each in ids[:2]} < set(recorded.segments)
        with pytest.raises(NotFound, match="Nothing was restored"):
            world.memory.restore(memory_ids=ids, workspace_id="w")
        assert world.graph.counts("w").memories == 2

    def test_an_interrupted_plan_is_finished_by_the_next_run(self, world: World) -> None:
        gone = with_stale(world)
        shown = world.memory.prune_memory("w")
        intent = Entry(Event.SWEEPING, world.clock(), shown.plan_id, plan=shown.plan)
        world.store.journal.append("graph:w", intent)
        world.graph.soft_delete(
            "w",
            Nodes(memories=(gone[0].memory.memory_id,)),
            version=world.graph.version("w"),
            plan_id=shown.plan_id,
            at=world.clock(),
        )
        world.memory.recover(workspace_id="w")
        rows = world.graph.deleted("w", plan_id=shown.plan_id)
        assert {row.node_id for row in rows} == {*shown.planned.memories, *shown.planned.chunks}
        before = world.memory.history(workspace_id="w")
        assert before[0].event is Event.SWEPT
        world.memory.recover(workspace_id="w")
        assert world.memory.history(workspace_id="w") == before

    def test_a_plan_that_never_began_is_rolled_back(self, world: World) -> None:
        with_stale(world)
        shown = world.memory.prune_memory("w")
        intent = Entry(Event.SWEEPING, world.clock(), shown.plan_id, plan=shown.plan)
        world.store.journal.append("graph:w", intent)
        world.memory.recover(workspace_id="w")
        assert world.memory.history(workspace_id="w")[0].event is Event.ROLLED_BACK
        assert world.graph.counts("w").deleted == 0

    def test_an_interrupted_restore_is_finished_by_the_next_run(self, world: World) -> None:
        with_stale(world)
        before = everything(world.graph, "w")
        done = world.memory.prune_memory("w", dry_run=False, confirm=True)
        names = refs_of(done.deleted)
        intent = Entry(Event.RESTORING, world.clock(), done.plan_id, segments=names)
        world.store.journal.append("graph:w", intent)
        world.graph.restore("w", Nodes(memories=done.deleted.memories[:1]))
        world.memory.recover(workspace_id="w")
        assert world.memory.history(workspace_id="w")[0].event is Event.RESTORED
        assert everything(world.graph, "w") == before


class ClientContract(OnWorld):
    """The client's methods."""

    def test_the_client_marks_counts_previews_and_deletes(self, world: World) -> None:
        client = GraphClient(GraphMemory(world.memory))
        records = [file("w", f"{n}.py", {f"f{n}": []}) for n in range(3)]
        world.graph.put("w", records)
        world.memory.add_memory("a note", workspace_id="w")
        assert asyncio.run(client.mark_code_memories_stale("w")) == 3
        assert (
            asyncio.run(client.mark_memory_fresh("/repo/1.py", "w")) == records[1].memory.memory_id
        )
        assert asyncio.run(client.mark_memory_fresh("/repo/none.py", "w")) is None
        assert asyncio.run(client.count_stale_memories("w")) == 2
        preview = asyncio.run(client.get_stale_memories_preview("w", limit=1))
        assert (preview["memory_count"], preview["chunk_count"]) == (2, 2)
        (row,) = preview["preview"]
        assert row["file_path"] in {"/repo/0.py", "/repo/2.py"}
        assert (row["lines"], row["chunk_count"]) == (1, 1)
        assert asyncio.run(client.delete_stale_memories("w", source="user")) == {
            "deleted_memories": 0,
            "deleted_chunks": 0,
        }
        assert asyncio.run(client.delete_stale_memories("w")) == {
            "deleted_memories": 2,
            "deleted_chunks": 2,
        }
        assert asyncio.run(client.count_stale_memories("w")) == 0

    def test_a_file_is_made_fresh_without_a_look_at_the_whole_graph(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = GraphClient(GraphMemory(world.memory))
        records = [file("w", f"{n}.py", {f"f{n}": []}) for n in range(3)]
        world.graph.put("w", records)
        world.graph.put("v", [file("v", "0.py", {"v": []})])
        gone = records[2].memory.memory_id
        world.graph.mark_stale("w", [record.memory.memory_id for record in records])
        world.memory.forget([gone], workspace_id="w")

        def refused(workspace_id: str) -> object:
            raise AssertionError(f"{workspace_id} was surveyed")

        for name in ("survey", "survey_memories", "files"):
            monkeypatch.setattr(world.graph, name, refused)
        assert asyncio.run(client.mark_memory_fresh("/repo/1.py", "w")) == (
            records[1].memory.memory_id
        )
        assert asyncio.run(client.mark_memory_fresh("/repo/2.py", "w")) is None, "it was deleted"
        assert asyncio.run(client.mark_memory_fresh("1.py", "w")) is None
        assert asyncio.run(client.mark_memory_fresh("/repo/0.py", "nowhere")) is None
        assert asyncio.run(client.count_stale_memories("w")) == 1

    def test_the_client_deletes_within_the_cap_or_up_to_a_limit(self, world: World) -> None:
        memory = world.with_settings(MemorySettings(limits=Limits(cap_percent=1, cap_floor=4)))
        client = GraphClient(GraphMemory(memory))
        records = [file("w", f"{n}.py", {f"f{n}": []}) for n in range(6)]
        world.graph.put("w", records)
        asyncio.run(client.mark_code_memories_stale("w"))
        preview = asyncio.run(client.get_stale_memories_preview("w"))
        assert (preview["memory_count"], preview["chunk_count"]) == (6, 6), "all, not what fits"
        taken = [
            asyncio.run(client.delete_stale_memories("w", limit=limit))["deleted_memories"]
            for limit in (None, 2, 100)
        ]
        assert taken == [2, 1, 3], "a memory and its chunk are two nodes"

    def test_the_client_finds_and_deletes_orphans(self, world: World) -> None:
        client = GraphClient(GraphMemory(world.memory))
        orphan = note("w", "nobody's chunk", mentions=("Nobody",))
        world.graph.load("w", [*orphan.chunks, *orphan.entities, *orphan.mentions])
        world.graph.put("w", [note("w", "somebody", mentions=("Somebody",))])
        assert asyncio.run(client.get_orphaned_chunks("w")) == [
            {"chunk_id": orphan.chunks[0].chunk_id, "workspace_id": "w", "text_length": 14}
        ]
        assert [e["name"] for e in asyncio.run(client.get_orphaned_entities("w"))] == ["Nobody"]
        assert asyncio.run(client.delete_orphaned_chunks("w")) == 1
        assert asyncio.run(client.delete_orphaned_entities("w")) == 1
        assert asyncio.run(client.get_orphaned_chunks("w")) == []
        assert asyncio.run(client.get_orphaned_entities("w")) == []


class ForgetContract(OnWorld):
    """Remembering and forgetting."""

    def test_a_note_is_remembered_with_its_entities(self, world: World) -> None:
        text = "Ask Ada Lovelace about parse_config() in src/app.py #urgent"
        memory = world.memory.add_memory(text, tags=["todo"], metadata={"n": 1}, workspace_id="w")
        answer = world.memory.search_memory("ada config", workspace_id="w")
        (hit,) = answer.hits
        assert hit.memory == memory
        assert {(e.kind, e.name) for e in hit.entities} == {
            ("path", "src/app.py"),
            ("tag", "urgent"),
            ("identifier", "parse_config"),
            ("name", "Ask Ada Lovelace"),
        }

    def test_remembering_the_same_again_keeps_one_memory(self, world: World) -> None:
        first = world.memory.add_memory("same", workspace_id="w")
        world.clock.wait(days=1)
        world.memory.add_memory("same", workspace_id="w")
        (record,) = world.memory.read_memory([first.memory_id], workspace_id="w")
        assert record.memory.created_at == later()
        assert record.memory.read_at == later(days=1)

    def test_a_forgotten_memory_can_be_restored(self, world: World) -> None:
        memory = world.memory.add_memory("forget me", workspace_id="w")
        gone = world.memory.forget([memory.memory_id], workspace_id="w")
        assert gone.gone.memories == (memory.memory_id,)
        assert found(world.graph, "w", "forget") == []
        world.memory.restore(plan_id=gone.plan_id, workspace_id="w")
        assert found(world.graph, "w", "forget") == ["forget me"]

    def test_a_pinned_memory_is_not_forgotten(self, world: World) -> None:
        memory = world.memory.add_memory("keep me", workspace_id="w")
        world.memory.pin([memory.memory_id], by="ann", workspace_id="w")
        gone = world.memory.forget([memory.memory_id], workspace_id="w")
        assert len(gone.gone) == 0
        assert "unpin it first" in gone.unreached[0]

    def test_erasing_everywhere_reaches_graph_stash_and_backups(self, world: World) -> None:
        secret = world.memory.add_memory("Secret Agent Smith", workspace_id="w")
        world.memory.add_memory("Agent Jones stays", workspace_id="w")
        backup = world.memory.export_backup(workspace_id="w")
        copy = Segment(
            segment_id="s",
            type="note",
            created_at=world.clock(),
            text="Agent Smith again",
            references=(Reference(secret.memory_id),),
        )
        world.store.stash.put("w", [Stashed(copy, "plan-1", world.clock())])
        broken = world.backups / "broken.jsonl.gz"
        broken.write_bytes(b"not a backup")
        gone = world.memory.forget([secret.memory_id], workspace_id="w", everywhere=True)
        assert gone.gone.memories == (secret.memory_id,)
        assert gone.backups > 0
        assert (gone.stash, world.store.stash.count("w")) == (1, 0)
        assert any(str(broken) in line for line in gone.unreached)
        texts = [i.text for i in everything(world.graph, "w") if isinstance(i, Memory)]
        assert texts == ["Agent Jones stays"]
        world.memory.import_backup(backup.path)
        texts = [i.text for i in everything(world.graph, "w") if isinstance(i, Memory)]
        assert texts == ["Agent Jones stays"]
        assert "Secret" not in str(world.graph.entities("w"))

    def test_erasing_everywhere_clears_partial_backups_and_names_what_may_still_hold_it(
        self, world: World
    ) -> None:
        secret = world.memory.add_memory("Secret Agent Smith", workspace_id="w")
        world.backups.mkdir()
        old, young = (world.backups / f"{n}.jsonl.gz.aabbccdd.part" for n in range(2))
        for path, at in ((old, later(days=-1)), (young, later())):
            path.write_bytes(b"half")
            os.utime(path, (at.timestamp(), at.timestamp()))
        kept = world.backups.parent / "graph.db.before-20260301T120000"
        kept.mkdir()
        quoting = Segment(
            segment_id="q",
            type="note",
            created_at=world.clock(),
            text="Agent Smith again",
            tags=(f"ref:{secret.memory_id}",),
        )
        world.store.segments.write("w", put=[quoting])
        gone = world.memory.forget([secret.memory_id], workspace_id="w", everywhere=True)
        assert not old.exists()
        assert young.exists()
        for expected in (str(young), str(kept), "segment q "):
            assert any(expected in line for line in gone.unreached), expected

    def test_erasing_everywhere_is_in_the_journal_even_if_only_a_backup_had_it(
        self, world: World
    ) -> None:
        secret = world.memory.add_memory("Agent Smith", workspace_id="w")
        world.memory.export_backup(workspace_id="w")
        world.graph.remove("w", [secret.memory_id])
        world.memory.forget(["unknown"], workspace_id="w", everywhere=True)
        assert world.memory.history(workspace_id="w") == ()
        gone = world.memory.forget([secret.memory_id], workspace_id="w", everywhere=True)
        assert (len(gone.gone), gone.backups > 0) == (0, True)
        (entry,) = world.memory.history(workspace_id="w")
        assert (entry.event, entry.segments) == (Event.PURGED, (f"memory:{secret.memory_id}",))

    def test_entities_are_merged_by_the_plan_that_was_shown(self, world: World) -> None:
        world.memory.add_memory("We met ada lovelace, said Bob. #To-Do", workspace_id="w")
        world.graph.put("w", [note("w", "x", mentions=("Ada Lovelace", "ADA LOVELACE"))])
        plan = world.memory.plan_merge_entities(workspace_id="w")
        (step,) = plan.steps
        assert "is also written" in step.reason
        assert len(world.graph.entities("w")) == 4
        report = world.memory.merge_entities(plan.plan_id, workspace_id="w")
        assert len(report.swept) == 1
        with pytest.raises(BadInput, match="deletes nothing"):
            world.memory.prune_memory("w", dry_run=False, confirm=True, plan_id=plan.plan_id)
        names = [entity.name for entity in world.graph.entities("w")]
        assert len([name for name in names if name.casefold() == "ada lovelace"]) == 1
