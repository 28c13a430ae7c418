"""Only the owner may read what a store writes, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from marksweep.errors import StoreError
from marksweep.model import Entry, Event
from marksweep.stores.base import DEFAULT_WORKSPACE
from marksweep.stores.files import exposed, make_folder, tighten
from marksweep.stores.graph.open import open_graph
from marksweep.stores.json_file import JsonStore
from marksweep.stores.open import open_store
from marksweep.testing.contracts.handles import NOON, segment, stashed
from tests.graph.graphs import note

KINDS = ("store.db", "context.json")


@pytest.fixture(params=[0o000, 0o022], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fill(where: Path) -> None:
    store = open_store(where)
    for name in (DEFAULT_WORKSPACE, "another"):
        with store.lock(name):
            store.segments.write(name, put=[segment("a", "words")])
            store.stash.put(name, [stashed("b")])
            store.journal.append(name, Entry(Event.SWEPT, NOON))
            assert {mode(file) for file in where.parent.rglob("*") if file.is_file()} == {0o600}
    store.close()


def test_what_is_not_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    tighten(pipe)
    assert mode(pipe) == 0o666


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("name", KINDS)
def test_files_are_their_owners_alone_under_every_umask(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "project" / ".marksweep"
    fill(folder / name)
    assert {mode(file) for file in folder.iterdir()} == {0o600}
    assert mode(folder) == 0o700


@pytest.mark.parametrize("name", KINDS)
def test_files_that_were_open_to_others_are_closed_when_the_store_is_opened(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / ".marksweep"
    fill(folder / name)
    held = open_store(folder / name)
    held.segments.write(DEFAULT_WORKSPACE, put=[segment("b")])
    for file in folder.iterdir():
        file.chmod(0o666)
    folder.chmod(0o755)
    assert set(exposed(folder)) == {folder, *folder.iterdir()} - {folder / ".gitignore"}
    open_store(folder / name).close()
    assert exposed(folder) == ()
    held.close()


@pytest.mark.usefixtures("umask")
def test_the_long_term_memory_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".marksweep"
    with closing(open_graph(folder)) as graph:
        graph.put("w", [note("w", "words")])
        assert {"graph.db", "graph.db-wal", "graph.db-shm"} <= {
            each.name for each in folder.iterdir()
        }
        assert exposed(folder) == ()
        for file in folder.iterdir():
            file.chmod(0o666)
        open_graph(folder).close()
        assert exposed(folder) == ()


def test_a_folder_of_the_user_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    folder.chmod(0o755)
    fill(folder / "store.db")
    assert mode(folder) == 0o755
    assert not (folder / ".gitignore").exists()


def test_closing_a_file_to_others_does_not_open_it_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    path.touch()
    path.chmod(0o444)
    tighten(path)
    assert mode(path) == 0o400


def test_git_does_not_see_what_a_project_keeps(tmp_path: Path) -> None:
    make_folder(tmp_path / ".marksweep" / "backups")
    ignored = tmp_path / ".marksweep" / ".gitignore"
    assert ignored.read_text() == "*\n"
    ignored.write_text("*\n!settings.toml\n")
    make_folder(tmp_path / ".marksweep" / "backups")
    assert ignored.read_text() == "*\n!settings.toml\n"


def test_a_planted_link_in_place_of_a_temporary_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".context.json.draft").symlink_to(victim)
    store = JsonStore(tmp_path / "context.json")
    store.segments.write(DEFAULT_WORKSPACE, put=[segment("a")])
    assert victim.read_text() == "mine"
    assert not (tmp_path / "context.json").is_symlink()


def test_the_names_of_temporary_files_cannot_be_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts: list[Path] = []

    def noting(draft: Path, path: Path) -> None:
        drafts.append(draft)
        os.rename(draft, path)  # noqa: PTH104

    monkeypatch.setattr(Path, "replace", noting)
    store = JsonStore(tmp_path / "context.json")
    for text in ("one", "two"):
        store.segments.write(DEFAULT_WORKSPACE, put=[segment("a", text)])
    assert len(set(drafts)) == 2


def test_what_a_killed_process_was_writing_goes_with_the_next_write(tmp_path: Path) -> None:
    store = JsonStore(tmp_path / "context.json")
    left = tmp_path / ".context.json.0123abcd.draft"
    left.write_bytes(b"half of")
    store.segments.write(DEFAULT_WORKSPACE, put=[segment("a")])
    assert not left.exists()


def test_a_link_to_nothing_is_not_followed(tmp_path: Path) -> None:
    aim = tmp_path / "elsewhere"
    (tmp_path / "store.db").symlink_to(aim)
    (tmp_path / "context.journal.jsonl").symlink_to(aim)
    with pytest.raises(StoreError):
        open_store(tmp_path / "store.db")
    store = open_store(tmp_path / "context.json")
    with pytest.raises(StoreError):
        store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON))
    assert not aim.exists()
