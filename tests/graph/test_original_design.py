"""Every section of the original design, and every test it names, has a test whose name says so."""

from __future__ import annotations

import ast
import inspect
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import marksweep
from marksweep import KnowledgeGraph
from marksweep.errors import NotConfirmed
from marksweep.graph.client import GraphClient
from marksweep.heaps.graph import Limits, nodes_of, planned
from marksweep.mcp.memory_results import prune_text
from marksweep.model import Event
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.nouns import Kind
from tests.graph.graphs import file
from tests.graph.memories import World, sqlite_graphs
from tests.graph.servers import fresh_graphs

SECTIONS = {
    "3.1 properties of a memory": (
        "test_every_property_of_a_memory_survives",
        "test_what_a_complete_run_did_not_see_becomes_stale",
    ),
    "3.2 an index on stale": ("test_stale_is_indexed_where_the_index_can_be_trusted",),
    "3.3 migration": (
        "test_a_graph_of_the_original_layout_is_taken_over",
        "test_a_file_of_an_older_layout_is_brought_up",
        "test_a_graph_of_the_first_layout_is_brought_up",
        "test_a_graph_of_a_newer_marksweep_is_refused",
    ),
    "4.1 the client's methods": (
        "test_section_4_1_every_method_of_the_client_has_its_name_and_parameters",
        "test_the_client_marks_counts_previews_and_deletes",
        "test_the_client_finds_and_deletes_orphans",
    ),
    "5.1, 5.2 stale and fresh": (
        "test_only_code_memories_can_become_stale",
        "test_a_stale_file_that_is_seen_again_is_live",
    ),
    "5.3 to 5.5 preview, count and delete what is stale": (
        "test_dry_run_returns_preview",
        "test_stale_code_strategy",
    ),
    "5.6, 5.7 orphaned chunks": ("test_orphaned_chunks_strategy",),
    "5.8, 5.9 orphaned entities": ("test_orphaned_entities_strategy_takes_islands_and_cycles",),
    "6.1 the tool's input": ("test_prune_memory_takes_what_the_design_of_the_memory_says",),
    "6.2 the tool's answers": (
        "test_section_6_2_the_answers_are_worded_as_designed",
        "test_dry_run_returns_preview",
        "test_deletion_requires_confirmation",
        "test_deletion_with_confirmation_succeeds",
    ),
    "7.1 delta indexing": (
        "test_a_second_run_reads_nothing_not_even_the_bytes",
        "test_symbols_that_vanish_from_a_changed_file_vanish_from_the_graph",
        "test_a_deleted_file_is_stale_at_the_end_of_the_run_and_live_again_when_it_returns",
        "test_an_interrupted_run_marks_nothing_and_the_next_one_finishes",
    ),
    "7.2 the response": (
        "test_the_response_names_files_functions_classes_languages_lines_time_and_stale",
    ),
    "8.1 dry run, confirmation, isolation, preview": (
        "test_dry_run_returns_preview",
        "test_deletion_requires_confirmation",
        "test_workspace_isolation",
        "test_no_deed_reaches_another_workspace",
        "test_deleting_in_the_default_workspace_needs_its_name",
    ),
    "8.2 validation": (
        "test_confirm_without_a_plan_applies_what_a_preview_would_show",
        "test_an_unknown_strategy_is_refused_with_the_known_ones",
    ),
    "8.3 audit": (
        "test_section_8_3_the_audit_tells_deed_workspace_strategy_counts_time_and_who",
        "test_every_step_is_in_the_journal",
        "test_the_audit_survives_a_restart",
    ),
    "10.1 unit tests": (
        "test_dry_run_returns_preview",
        "test_deletion_requires_confirmation",
        "test_deletion_with_confirmation_succeeds",
        "test_workspace_isolation",
        "test_stale_code_strategy",
        "test_orphaned_chunks_strategy",
        "test_all_strategy",
    ),
    "10.2 integration tests": (
        "test_full_gc_workflow",
        "test_an_empty_workspace_has_nothing_to_prune",
        "test_a_workspace_in_which_all_is_stale_is_emptied",
        "test_a_workspace_in_which_nothing_is_stale_keeps_everything",
    ),
    "12.1 accidental loss": (
        "test_a_limit_lets_one_run_take_more_than_the_cap",
        "test_rows_that_changed_since_the_preview_are_left_alone",
        "test_a_pruner_killed_at_any_moment_hurts_no_live_row",
    ),
    "12.2 large graphs": (
        "test_purging_many_rows_works_in_batches",
        "test_a_statement_that_takes_long_is_waited_for",
    ),
    "12.3 entities left behind": ("test_all_strategy_takes_what_only_the_rest_keeps",),
    "12.4 races": (
        "test_two_indexers_at_once_take_turns_and_corrupt_nothing",
        "test_a_pruner_beside_an_indexer_takes_nothing_that_is_live",
        "test_no_row_is_lost_however_often_the_indexer_is_killed",
    ),
    "13.1 background runs": (
        "test_collections_run_at_intervals_until_stopped",
        "test_a_server_collects_at_its_interval_and_the_journal_tells",
        "test_two_collections_of_one_workspace_do_not_overlap",
    ),
    "13.2 soft delete": (
        "test_deleted_rows_are_restored_by_plan_with_all_they_hold",
        "test_a_purge_waits_for_the_grace_and_leaves_a_backup",
    ),
    "13.3 lives": ("test_expired_strategy_goes_by_the_life_of_the_source",),
    "13.4 backup before prune": (
        "test_a_purge_waits_for_the_grace_and_leaves_a_backup",
        "test_a_backup_read_back_is_the_same_graph",
    ),
    "13.5 audit log": ("test_every_step_is_in_the_journal", "test_the_audit_survives_a_restart"),
    "13.6 entity deduplication": (
        "test_entities_are_merged_by_the_plan_that_was_shown",
        "test_what_comes_later_under_a_merged_name_goes_to_the_one_that_was_kept",
    ),
}
"""Sections, and the tests that hold them."""


@pytest.fixture(scope="module")
def tests() -> set[str]:
    """The name of every test there is, here and in the contracts."""
    places = (Path(__file__).parents[1], Path(marksweep.__file__).parent / "testing")
    return {
        node.name
        for place in places
        for path in place.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_has_its_tests(section: str, tests: set[str]) -> None:
    for wanted in SECTIONS[section]:
        assert wanted in tests


def test_section_4_1_every_method_of_the_client_has_its_name_and_parameters() -> None:
    expected: dict[str, dict[str, object]] = {
        "mark_code_memories_stale": {},
        "mark_memory_fresh": {},
        "count_stale_memories": {},
        "get_stale_memories_preview": {"source": None, "limit": 20},
        "delete_stale_memories": {"source": None},
        "get_orphaned_chunks": {"limit": 20},
        "get_orphaned_entities": {"limit": 20},
        "delete_orphaned_chunks": {},
        "delete_orphaned_entities": {},
    }
    for name, defaults in expected.items():
        method = getattr(GraphClient, name)
        assert inspect.iscoroutinefunction(method), name
        given = {
            each.name: each.default
            for each in inspect.signature(method).parameters.values()
            if each.default is not each.empty
        }
        assert given == defaults, name
        first = ["file_path"] if name == "mark_memory_fresh" else []
        required = [each for each in inspect.signature(method).parameters if each not in given]
        assert required == ["self", *first, "workspace_id"], name


def test_section_6_2_the_answers_are_worded_as_designed(tmp_path: Path) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        memory = World(graph, tmp_path / "backups").memory
        sizes = [3] * 12 + [4] * 30
        gone = [
            file("w", f"{n}.py", {f"f{n}_{place}": [] for place in range(size)})
            for n, size in enumerate(sizes)
        ]
        graph.put("w", gone)
        graph.mark_stale("w", [record.memory.memory_id for record in gone])
        shown = memory.prune_memory("w", limit=1000)
        with pytest.raises(NotConfirmed, match="requires explicit confirmation"):
            memory.prune_memory("w", dry_run=False)
        done = memory.prune_memory("w", dry_run=False, confirm=True, limit=len(shown.planned))
        for answer, words in (
            (shown, "Dry run complete. Preview of items to delete:\n\n"),
            (done, "Successfully deleted 42 stale memory nodes and 156 chunks."),
        ):
            assert prune_text(answer, Limits()).startswith(words)


def test_section_8_3_the_audit_tells_deed_workspace_strategy_counts_time_and_who(
    tmp_path: Path,
) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        world = World(graph, tmp_path / "backups")
        record = file("w", "a.py", {"a": [], "b": []})
        graph.put("w", [record, file("w", "c.py", {"c": []})])
        graph.mark_stale("w", [record.memory.memory_id])
        world.memory.prune_memory("w", dry_run=False, confirm=True)
        swept, _, shown = world.memory.history(workspace_id="w")
        assert shown.plan is not None
        assert (shown.event, shown.plan.workspace) == (Event.PLANNED, "w")
        assert shown.plan.strategy == "stale_code"
        assert (swept.event, swept.plan_id) == (Event.SWEPT, shown.plan_id)
        assert swept.report is not None
        for names in (planned(shown.plan), nodes_of(swept.report.swept)):
            assert [len(names.of(kind)) for kind in Kind] == [1, 2, 0]
        assert {(each.at, each.actor) for each in (shown, swept)} == {(world.clock(), "tester")}


def test_stale_is_indexed_where_the_index_can_be_trusted(tmp_path: Path, falkor_url: str) -> None:
    """FalkorDB's index on truth values finds nothing after a restart from a rewritten file."""
    with sqlite_graphs(tmp_path / "graph.db")() as store:
        store.put("w", [file("w", "a.py", {"a": []})])
    with fresh_graphs(falkor_url)() as falkor:
        falkor.put("w", [file("w", "a.py", {"a": []})])
        assert isinstance(falkor, FalkorGraphStore)
        rows = falkor.query(
            "w", "CALL db.indexes() YIELD label, properties RETURN label, properties", {}
        )
    indexed = [str(columns) for label, columns in rows if label == "Memory"]
    assert any("id" in columns for columns in indexed)
    assert not any("stale" in columns for columns in indexed)
    with closing(sqlite3.connect(tmp_path / "graph.db")) as db:
        plan = db.execute(
            "EXPLAIN QUERY PLAN SELECT count(*) FROM memory WHERE ws = 1 AND stale = 1"
        ).fetchall()
    assert "memory_stale" in str(plan)


def test_the_audit_survives_a_restart(tmp_path: Path) -> None:
    memory = KnowledgeGraph.open(tmp_path, actor="ada")
    note = memory.add_memory("to be forgotten", workspace_id="w")
    memory.forget([note.memory_id], workspace_id="w")
    told = memory.history(workspace_id="w")
    memory.close()
    memory = KnowledgeGraph.open(tmp_path, actor="bob")
    assert memory.history(workspace_id="w") == told
    assert [entry.event for entry in told] == [Event.SWEPT, Event.SWEEPING, Event.PLANNED]
    assert {entry.actor for entry in told} == {"ada"}
    (swept,) = memory.history(workspace_id="w", events=[Event.SWEPT])
    assert swept.report is not None
    assert swept.report.swept[0] == f"memory:{note.memory_id}"
    memory.close()
