"""Two processes on one store at once: nothing gets lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.audit import audit
from tests.faults.forge import Forge, Job


@pytest.mark.parametrize(
    ("kind", "processes", "deeds"), [("sqlite", 2, 150), ("sqlite", 4, 60), ("json", 2, 40)]
)
def test_processes_that_add_and_collect_at_once_lose_and_double_nothing(
    forge: Forge, tmp_path: Path, kind: str, processes: int, deeds: int
) -> None:
    path = tmp_path / "heap.store"
    notes = [tmp_path / f"note{number}" for number in range(processes)]
    outcomes = forge.run(
        *(
            Job(kind=kind, path=str(path), note=str(note), run=run, deeds=deeds)
            for run, note in enumerate(notes)
        )
    )
    assert not any(outcome.store_error for outcome in outcomes)
    assert audit(kind, path, *notes) > processes * deeds // 4
