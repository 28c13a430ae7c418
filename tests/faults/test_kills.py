"""A process is killed at every boundary between two writes, and at random moments in between.

More than 200 kills on SQLite, 50 on JSON and 50 on Redis.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.faults.audit import audit
from tests.faults.forge import Forge, Job
from tests.faults.workload import read_note
from tests.servers import running_redis


class Places(Protocol):
    """Where the stores of a test are."""

    def __call__(self, kind: str, folder: Path) -> Path: ...


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_redis() as url:
        yield url


@pytest.fixture
def place(server: str) -> Places:
    def find(kind: str, folder: Path) -> Path:
        path = folder / f"heap.{kind}"
        if kind == "redis":
            path.write_text(server)
        return path

    return find


@pytest.mark.parametrize(
    ("kind", "run", "operations", "at_least"),
    [("sqlite", 1, 30, 100), ("json", 1, 12, 40), ("redis", 1, 10, 30)],
)
def test_a_kill_at_any_step_boundary_loses_and_duplicates_nothing(
    forge: Forge,
    place: Places,
    tmp_path: Path,
    *,
    kind: str,
    run: int,
    operations: int,
    at_least: int,
) -> None:
    def job(name: str, **fate: int) -> Job:
        folder = tmp_path / name
        folder.mkdir()
        path, note = place(kind, folder), folder / "note"
        return Job(
            kind=kind, path=str(path), note=str(note), run=run, operations=operations, **fate
        )

    (whole,) = forge.run(job("whole"))
    assert whole.edges >= at_least
    for edge in range(1, whole.edges + 1):
        doomed = job(str(edge), kill_at_edge=edge)
        (outcome,) = forge.run(doomed)
        assert outcome.killed, f"edge {edge} was not reached"
        audit(kind, Path(doomed.path), Path(doomed.note))


@pytest.mark.parametrize(
    ("kind", "kills", "longest"), [("sqlite", 90, 0.06), ("json", 15, 0.2), ("redis", 15, 0.2)]
)
def test_kills_at_random_moments_on_one_store_lose_and_duplicate_nothing(
    forge: Forge, place: Places, tmp_path: Path, *, kind: str, kills: int, longest: float
) -> None:
    rng = random.Random(kind)
    path = place(kind, tmp_path)
    notes: list[Path] = []
    cut_short = 0
    for run in range(4 * kills):
        if run >= kills and cut_short:
            break
        notes.append(tmp_path / f"note{run}")
        # On a slow machine, all of the first kills may precede the first addition.
        delay = rng.uniform(0, longest * (1 + run // kills))
        job = Job(kind=kind, path=str(path), note=str(notes[-1]), run=run, kill_after=delay)
        (outcome,) = forge.run(job)
        assert outcome.killed
        cut_short += bool(read_note(notes[-1]).open)
        audit(kind, path, *notes, run=run)
    assert cut_short, "no kill interrupted an addition; make the delays longer"


@pytest.mark.parametrize(
    ("kind", "kills", "longest"), [("sqlite", 20, 0.15), ("json", 5, 0.3), ("redis", 10, 0.3)]
)
def test_another_process_keeps_working_while_one_is_killed(
    forge: Forge, place: Places, tmp_path: Path, *, kind: str, kills: int, longest: float
) -> None:
    rng = random.Random(kind)
    path = place(kind, tmp_path)
    notes: list[Path] = []
    for run in range(0, 2 * kills, 2):
        notes += [tmp_path / f"note{run}", tmp_path / f"note{run + 1}"]
        doomed = Job(
            kind=kind,
            path=str(path),
            note=str(notes[-2]),
            run=run,
            kill_after=rng.uniform(0, longest),
        )
        spared = Job(kind=kind, path=str(path), note=str(notes[-1]), run=run + 1, operations=8)
        killed, finished = forge.run(doomed, spared)
        assert killed.killed
        assert not finished.killed
        assert not finished.store_error
        audit(kind, path, *notes, run=run + 1)
