"""Two processes on one store at once: nothing is lost or duplicated."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from marksweep.stores.database import check_version
from marksweep.stores.sqlite import SCHEMA
from marksweep.testing.builders import segment
from tests.faults.audit import audit
from tests.faults.forge import Forge, Job
from tests.faults.workload import FILES, open_heap


@pytest.mark.parametrize(
    ("kind", "processes", "operations"), [("sqlite", 2, 150), ("sqlite", 4, 60), ("json", 2, 40)]
)
def test_processes_that_add_and_collect_at_once_lose_and_duplicate_nothing(
    forge: Forge, tmp_path: Path, kind: str, processes: int, operations: int
) -> None:
    path = tmp_path / "heap.store"
    notes = [tmp_path / f"note{number}" for number in range(processes)]
    outcomes = forge.run(
        *(
            Job(kind=kind, path=str(path), note=str(note), run=run, operations=operations)
            for run, note in enumerate(notes)
        )
    )
    assert not any(outcome.store_error for outcome in outcomes)
    assert audit(kind, path, *notes) > processes * operations // 4


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("operation", ["undo", "restore"])
def test_a_process_sees_the_changes_of_another_before_it_restores(
    tmp_path: Path, kind: str, operation: str
) -> None:
    here, there = (open_heap(FILES[kind](tmp_path / "heap.store")) for _ in range(2))
    here.add(segment("a"), segment("b"))
    plan = here.plan_for(["a"])
    here.collect(plan)
    here.add(segment("c"))
    if operation == "undo":
        there.undo(plan.plan_id)
    else:
        there.restore("a")
    assert [s.segment_id for s in there.list()] == ["a", "b", "c"]
    assert there.list() == here.list()
    for heap in (here, there):
        heap.close()


def test_version_and_tables_are_read_from_one_state_of_the_file(tmp_path: Path) -> None:
    """Another process may be creating the file: between two statements it could be both."""
    statements: list[str] = []
    with closing(sqlite3.connect(tmp_path / "heap.db")) as database:
        database.set_trace_callback(statements.append)
        assert check_version(database, tmp_path / "heap.db", SCHEMA) == 0
    nested = "--"
    assert len([each for each in statements if not each.startswith(nested)]) == 1
