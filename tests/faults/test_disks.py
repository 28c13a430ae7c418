"""A full disk and a read-only location: a clear error, and nothing is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from marksweep.errors import StoreError
from tests.faults.audit import audit
from tests.faults.forge import Forge, Job, Outcome
from tests.faults.workload import FILES, open_heap

NOBODY = 65_534
DISK = 400_000
"""Bytes of a small disk: room for some hundred segments."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can reach."""
    path = Path(tempfile.mkdtemp(prefix="marksweep-faults-"))
    path.chmod(0o777)
    yield path
    for each in (path, *path.rglob("*")):
        each.chmod(0o777)
    shutil.rmtree(path)


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A separate small disk; an ordinary folder if none can be mounted."""
    place = folder / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(place)]
    if shutil.which("mount"):
        subprocess.run(mount, capture_output=True, check=False)
    yield place
    if place.is_mount():
        subprocess.run(["umount", str(place)], check=True)


def fill(forge: Forge, kind: str, path: Path, note: Path, run: int = 0) -> Outcome:
    """Work until the store complains."""
    limit = None if path.parent.is_mount() else DISK // {"sqlite": 2, "json": 8}[kind]
    (outcome,) = forge.run(
        Job(
            kind=kind, path=str(path), note=str(note), run=run, operations=5_000, largest_file=limit
        )
    )
    assert outcome.store_error, "the disk was not filled"
    return outcome


@pytest.mark.parametrize("kind", FILES)
def test_a_full_disk_is_a_clear_error_and_changes_nothing(
    forge: Forge, small_disk: Path, tmp_path: Path, kind: str
) -> None:
    path, notes = small_disk / "heap.store", [tmp_path / "note0", tmp_path / "note1"]
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * (DISK // 3))
    first = fill(forge, kind, path, notes[0])
    assert str(path.parent) in first.store_error
    assert first.unchanged, first.store_error

    again = fill(forge, kind, path, notes[1], run=1)
    assert again.unchanged, again.store_error

    ballast.unlink()
    held = audit(kind, path, *notes)
    assert held > 0
    store = FILES[kind](path)
    heap = open_heap(store)
    heap.collect(heap.plan(target_tokens=heap.tokens // 2))
    heap.write("there is room again", type="decision", segment_id="new")
    assert heap.get("new") is not None
    store.close()


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("what", ["files", "folder"])
def test_a_read_only_place_is_a_clear_error_and_changes_nothing(
    forge: Forge, folder: Path, tmp_path: Path, kind: str, what: str
) -> None:
    place = folder / "place"
    place.mkdir()
    path = place / "heap.store"
    (tmp_path / "note").touch()
    forge.run(Job(kind=kind, path=str(path), note=str(tmp_path / "note"), operations=10))
    before = contents(place)
    assert before
    for each in place.iterdir():
        each.chmod(0o444)
    place.chmod(0o555 if what == "folder" else 0o777)

    user = NOBODY if os.geteuid() == 0 else None
    note = folder / "note1"
    (outcome,) = forge.run(
        Job(kind=kind, path=str(path), note=str(note), run=1, operations=50, user=user)
    )
    assert str(place) in outcome.store_error
    assert "ermission" in outcome.store_error or "read-only" in outcome.store_error
    assert outcome.unchanged
    assert contents(place) == before

    place.chmod(0o777)
    for each in place.iterdir():
        each.chmod(0o600)
    audit(kind, path, tmp_path / "note", note)


def contents(place: Path) -> dict[str, bytes]:
    """Read all files of a folder, except for the locks and shared memory that readers make."""
    return {
        each.name: each.read_bytes()
        for each in place.iterdir()
        if "lock" not in each.name and not each.name.endswith("-shm")
    }


@pytest.mark.parametrize("kind", FILES)
def test_a_place_that_cannot_be_made_is_a_clear_error(kind: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="file"):
        open_heap(FILES[kind](tmp_path / "file" / "heap.store"))
    assert (tmp_path / "file").read_text() == "in the way"
