from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from marksweep.errors import BadInput, Refused, StoreBusy
from marksweep.indexing import delta, gather, selection, walk
from marksweep.indexing.files import MAX_FILE_BYTES, Unreadable, read_source
from marksweep.indexing.indexer import PURPOSE, index_codebase
from marksweep.indexing.readers import Inline, Reading, Source
from marksweep.indexing.report import IndexReport, Progress
from marksweep.stores.graph.base import GraphQuery
from marksweep.stores.graph.nouns import Memory, file_memory_id
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.leases import hold
from tests.indexing.trees import (
    WORKSPACE,
    OpenStore,
    index,
    items_of,
    live,
    live_paths,
    sqlite_at,
    stale_paths,
    write,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def store(tmp_path: Path) -> OpenStore:
    return sqlite_at(tmp_path / "graph.db")


class Counting:
    """Reads in this process and records what it read."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def read(self, source: Source) -> Reading:
        self.paths.append(source.memory.relative_path)
        return Inline().read(source)

    def close(self) -> None:
        raise AssertionError("a reader that was passed in belongs to the caller")


def read_by(store: OpenStore, root: Path, **options: Any) -> list[str]:
    reader = Counting()
    index(store, root, reader=reader, **options)
    return reader.paths


def memory_at(store: OpenStore, path: str) -> Memory:
    found = [
        item for item in items_of(store) if isinstance(item, Memory) and item.relative_path == path
    ]
    assert len(found) == 1
    return found[0]


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the modification time of every file that is a little older than its reading."""
    monkeypatch.setattr(delta, "RACY_NS", 20_000_000)
    time.sleep(0.05)


def test_the_response_names_files_functions_classes_languages_lines_time_and_stale(
    root: Path, store: OpenStore
) -> None:
    write(root, "a.py", "class A:\n    def f(self): pass\n")
    write(root, "b.py", "def g(): pass\n")
    write(root, "c.js", "function h() {}\n")
    write(root, "d.md", "x\n" * 1000)
    text = str(index(store, root))
    assert text.splitlines()[:6] == [
        "Repository indexed successfully.",
        f"Path: {root}",
        "Files indexed: 4",
        "Functions: 3",
        "Classes: 1",
        "Languages: Python (2), JavaScript (1), Markdown (1)",
    ]
    assert "Total lines: 1,004\nIndexing time: 0." in text
    assert text.endswith("Stale memories: 0")
    (root / "b.py").unlink()
    assert str(index(store, root)).splitlines()[-1] == (
        "Stale memories: 1 (run prune_memory to clean up)"
    )


def test_a_second_run_reads_nothing_not_even_the_bytes(
    root: Path, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        write(root, f"f{n}.py")
    settle(monkeypatch)
    assert index(store, root).files == 30

    def refuse(*_: object) -> None:
        raise AssertionError("an unchanged file was opened")

    monkeypatch.setattr(selection, "read_source", refuse)
    report = index(store, root)
    assert (report.files, report.unchanged, report.newly_stale) == (0, 30, 0)


def test_a_file_with_a_new_time_and_the_same_content_is_not_parsed_again(
    root: Path, store: OpenStore
) -> None:
    file = write(root, "a.py")
    index(store, root)
    os.utime(file, (1, 1))
    assert read_by(store, root) == []


def test_a_change_that_keeps_size_and_time_within_a_tick_is_seen(
    root: Path, store: OpenStore
) -> None:
    file = write(root, "a.py", "x = 1\n")
    before = file.stat()
    index(store, root)
    file.write_text("y = 2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_by(store, root) == ["a.py"]


def test_a_disk_whose_clock_has_stopped_hides_no_change(
    root: Path, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = time.time_ns()
    for module in (gather, walk):
        monkeypatch.setattr(module, "changed_ns", lambda _: at)
    file = write(root, "a.py", "x = 1\n")
    index(store, root)
    file.write_text("y = 2\n")
    assert read_by(store, root) == ["a.py"]


def test_two_files_of_one_size_and_time_that_change_places_are_seen(
    root: Path, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("a.py", "x = 1\n"), ("b.py", "y = 2\n")):
        os.utime(write(root, name, text), (1, 1))
    settle(monkeypatch)
    index(store, root)
    (root / "a.py").rename(root / "c")
    (root / "b.py").rename(root / "a.py")
    (root / "c").rename(root / "b.py")
    assert read_by(store, root) == ["a.py", "b.py"]


def test_symbols_that_vanish_from_a_changed_file_vanish_from_the_graph(
    root: Path, store: OpenStore
) -> None:
    write(root, "a.py", "def old(): only_here()\ndef kept(): shared()\n")
    write(root, "b.py", "def other(): shared()\n")
    index(store, root)
    write(root, "a.py", "def kept(): pass\n")
    index(store, root)
    names = {entity.name for entity in live(items_of(store)).entities}
    assert names == {"a.py", "b.py", "kept", "other", "shared"}
    assert {getattr(item, "name", "") for item in items_of(store)} - {""} == names


def test_a_deleted_file_is_stale_at_the_end_of_the_run_and_live_again_when_it_returns(
    root: Path, store: OpenStore
) -> None:
    write(root, "a.py")
    file = write(root, "b.py", "y = 1\n")
    index(store, root)
    file.unlink()
    report = index(store, root)
    assert (report.newly_stale, report.stale) == (1, 1)
    assert (live_paths(store), stale_paths(store)) == (["a.py"], ["b.py"])
    assert index(store, root).newly_stale == 0
    write(root, "b.py", "y = 1\n")
    report = index(store, root)
    assert (report.files, report.unchanged, report.stale) == (0, 2, 0)
    assert stale_paths(store) == []


def test_a_rename_keeps_the_creation_time_and_the_pin_and_leaves_nothing_stale(
    root: Path, store: OpenStore
) -> None:
    write(root, "a.py", "def f(): pass\n")
    write(root, "other.py", "z = 3\n")
    first = datetime(2026, 1, 1, tzinfo=UTC)
    index(store, root, now=first)
    opened = store()
    opened.pin(WORKSPACE, [file_memory_id(WORKSPACE, str(root), "a.py")], "me: it matters")
    opened.close()
    (root / "sub").mkdir()
    (root / "a.py").rename(root / "sub/b.py")
    report = index(store, root)
    assert (report.files, report.renamed, report.newly_stale, report.stale) == (1, 1, 0, 0)
    moved = memory_at(store, "sub/b.py")
    assert (moved.created_at, moved.pinned_by) == (first, "me: it matters")
    assert live_paths(store) == ["other.py", "sub/b.py"]
    assert stale_paths(store) == []


def test_a_copy_is_not_a_rename_and_empty_files_are_never_renamed(
    root: Path, store: OpenStore
) -> None:
    write(root, "a.py", "def f(): pass\n")
    write(root, "e1.py", "")
    index(store, root)
    shutil.copy(root / "a.py", root / "b.py")
    (root / "e1.py").rename(root / "e2.py")
    report = index(store, root)
    assert (report.files, report.renamed, report.newly_stale) == (2, 0, 1)
    assert live_paths(store) == ["a.py", "b.py", "e2.py"]


class Interrupted(Exception):
    pass


def test_an_interrupted_run_marks_nothing_and_the_next_one_finishes(
    root: Path, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        write(root, f"f{n}.py", f"x = {n}\n")
    index(store, root)
    (root / "f0.py").unlink()
    for n in range(1, 6):
        write(root, f"f{n}.py", f"y = {n}\n")
    monkeypatch.setattr("marksweep.indexing.indexer.BATCH_FILES", 1)

    def interrupt(progress: Progress) -> None:
        if progress.done == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        index(store, root, progress=interrupt)
    assert stale_paths(store) == []
    assert len(live_paths(store)) == 6
    assert read_by(store, root) == ["f4.py", "f5.py"]
    assert stale_paths(store) == ["f0.py"]


def test_indexing_in_one_workspace_leaves_another_alone(root: Path, store: OpenStore) -> None:
    write(root, "a.py", "def f(): g()\n")
    write(root, "b.py", "def g(): f()\n")
    index(store, root, workspace_id="other")
    before = live(items_of(store, "other"))
    index(store, root)
    write(root, "a.py", "pass\n")
    (root / "b.py").unlink()
    index(store, root)
    assert live(items_of(store, "other")) == before
    assert stale_paths(store, "other") == []
    assert live_paths(store) == ["a.py"]


def test_two_repositories_of_one_workspace_leave_each_other_alone(
    tmp_path: Path, store: OpenStore
) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, "a.py", f"# {name}\n")
        write(tmp_path / name, "b.py", "shared()\n")
        index(store, tmp_path / name)
    (tmp_path / "one/b.py").unlink()
    index(store, tmp_path / "one")
    assert stale_paths(store) == ["b.py"]
    stale = [item for item in items_of(store) if isinstance(item, Memory) and item.stale]
    assert stale[0].repository == str(tmp_path / "one")
    assert live_paths(store) == ["a.py", "a.py", "b.py"]


def test_what_a_filter_leaves_out_does_not_become_stale(root: Path, store: OpenStore) -> None:
    for name in ("a.py", "tests/test_a.py", "b.go", "c.js"):
        write(root, name, f"// {name}\n")
    index(store, root)
    for name in ("tests/test_a.py", "b.go"):
        (root / name).unlink()
    index(store, root, languages=["python"], include_tests=False)
    assert stale_paths(store) == []
    index(store, root, languages=["javascript"])
    assert stale_paths(store) == []
    index(store, root, languages=["go"])
    assert stale_paths(store) == ["b.go"]
    index(store, root)
    assert stale_paths(store) == ["b.go", "tests/test_a.py"]


def test_a_file_that_grows_beyond_the_limit_becomes_stale(root: Path, store: OpenStore) -> None:
    write(root, "big.py")
    write(root, "a.py", "y = 1\n")
    index(store, root)
    write(root, "big.py", "#" * (MAX_FILE_BYTES + 1))
    index(store, root)
    assert stale_paths(store) == ["big.py"]


def test_a_file_that_turns_binary_or_is_ignored_becomes_stale(root: Path, store: OpenStore) -> None:
    for name in ("a.py", "b.py", "c.py"):
        write(root, name, f"# {name}\n")
    index(store, root)
    write(root, "a.py", b"\0\0")
    write(root, ".gitignore", "b.py\n")
    report = index(store, root)
    assert stale_paths(store) == ["a.py", "b.py"]
    assert [(each.path, each.reason) for each in report.skipped] == [
        ("a.py", "binary: it has NUL bytes")
    ]
    assert report.ignored == 1


def test_a_file_that_cannot_be_read_for_now_stays_as_it_was_known(
    root: Path, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py")
    write(root, "b.py", "y = 1\n")
    index(store, root)
    write(root, "b.py", "z = 12\n")

    def failing(path: Path) -> tuple[bytes, os.stat_result]:
        if path.name == "b.py":
            raise Unreadable("input/output error")
        return read_source(path)

    monkeypatch.setattr(selection, "read_source", failing)
    report = index(store, root)
    assert [(each.path, each.reason) for each in report.skipped] == [("b.py", "input/output error")]
    assert (live_paths(store), stale_paths(store)) == (["a.py", "b.py"], [])


def test_a_folder_that_cannot_be_listed_hides_its_files_and_does_not_make_them_stale(
    root: Path, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py")
    write(root, "sub/b.py", "y = 1\n")
    write(root, "subway.py", "z = 1\n")
    index(store, root)
    (root / "subway.py").unlink()
    real = os.scandir

    def scandir(path: Path) -> Any:
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("marksweep.indexing.walk.os.scandir", scandir)
    index(store, root)
    assert stale_paths(store) == ["subway.py"]


def test_a_root_that_is_missing_is_refused(root: Path, store: OpenStore) -> None:
    write(root, "a.py")
    index(store, root)
    shutil.rmtree(root)
    with pytest.raises(BadInput, match="whether its disk is mounted"):
        index(store, root)
    assert live_paths(store) == ["a.py"]


def test_a_root_that_is_empty_by_accident_is_refused(root: Path, store: OpenStore) -> None:
    write(root, "a.py")
    index(store, root)
    (root / "a.py").unlink()
    with pytest.raises(Refused, match="no longer has 1 of the 1 files that the graph knows"):
        index(store, root)
    assert live_paths(store) == ["a.py"]
    assert index(store, root, max_shrink=1.0).newly_stale == 1


def test_an_empty_root_that_was_never_more_is_indexed(root: Path, store: OpenStore) -> None:
    assert index(store, root).files == 0


def test_a_root_that_shrank_by_more_than_the_cap_is_refused_with_the_number_to_name(
    root: Path, store: OpenStore
) -> None:
    for n in range(30):
        write(root, f"f{n}.py", f"x = {n}\n")
    index(store, root)
    for n in range(16):
        (root / f"f{n}.py").unlink()
    with pytest.raises(Refused, match=r"16 of the 30 files .* run again with max_shrink=0\.54"):
        index(store, root)
    assert len(live_paths(store)) == 30
    assert index(store, root, max_shrink=0.54).newly_stale == 16


def test_moving_every_file_is_not_shrinking(root: Path, store: OpenStore) -> None:
    for n in range(30):
        write(root, f"src/f{n}.py", f"x = {n}\n")
    index(store, root)
    (root / "src").rename(root / "lib")
    report = index(store, root)
    assert (report.renamed, report.stale) == (30, 0)


def test_files_that_all_turn_binary_are_refused_before_anything_is_stale(
    root: Path, store: OpenStore
) -> None:
    for n in range(30):
        write(root, f"f{n}.py", f"x = {n}\n")
    index(store, root)
    for n in range(30):
        write(root, f"f{n}.py", b"\0" * 7)
    with pytest.raises(Refused, match="30 of the 30 files"):
        index(store, root)
    assert stale_paths(store) == []


def test_two_indexers_of_one_workspace_take_turns_or_one_is_refused(
    tmp_path: Path, root: Path
) -> None:
    write(root, "a.py")

    async def body() -> tuple[int, int]:
        one, two = (SqliteGraphStore(tmp_path / "graph.db") for _ in range(2))
        with hold(one, WORKSPACE, PURPOSE):
            with pytest.raises(StoreBusy, match="is held for indexing by process"):
                await run(two, wait_seconds=0)
            waiting = asyncio.create_task(run(two, wait_seconds=20))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        first = (await waiting).files
        both = await asyncio.gather(run(one, wait_seconds=20), run(two, wait_seconds=20))
        one.close()
        two.close()
        return first, sum(report.files for report in both)

    async def run(store: SqliteGraphStore, wait_seconds: float) -> IndexReport:
        return await index_codebase(
            root,
            store=store,
            workspace_id=WORKSPACE,
            reader=Inline(),
            wait_seconds=wait_seconds,
        )

    assert asyncio.run(body()) == (1, 0)


def test_an_indexer_that_lost_its_lease_writes_nothing_more(
    root: Path, store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marksweep.indexing.indexer.BATCH_FILES", 1)
    for n in range(4):
        write(root, f"f{n}.py", f"x = {n}\n")

    def take_it_away(progress: Progress) -> None:
        if progress.done == 2:
            with closing(sqlite3.connect(tmp_path / "graph.db")) as database, database:
                database.execute("UPDATE lease SET holder = 'elsewhere:1:00'")

    with pytest.raises(StoreBusy, match="lost"):
        index(store, root, progress=take_it_away)
    assert live_paths(store) == ["f0.py", "f1.py"]


def test_progress_counts_up_to_all_files(
    root: Path, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marksweep.indexing.indexer.BATCH_FILES", 2)
    for n in range(5):
        write(root, f"f{n}.py")
    seen: list[Progress] = []
    index(store, root, progress=seen.append)
    assert seen == [Progress(2, 5, "f1.py"), Progress(4, 5, "f3.py"), Progress(5, 5, "f4.py")]


def test_a_new_way_of_reading_reads_everything_again(
    root: Path, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py")
    settle(monkeypatch)
    index(store, root)
    assert read_by(store, root) == []
    monkeypatch.setattr(delta, "LAYOUT", "next")
    assert read_by(store, root) == ["a.py"]


def test_a_rename_is_recognised_also_if_files_are_read_in_a_new_way(
    root: Path, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.py")
    index(store, root)
    monkeypatch.setattr(delta, "LAYOUT", "next")
    (root / "a.py").rename(root / "b.py")
    assert index(store, root).renamed == 1
    root.rename(root.parent / "moved")
    monkeypatch.setattr(delta, "LAYOUT", "the one after")
    assert index(store, root.parent / "moved").renamed == 1


def test_hostile_names_and_contents_are_stored_and_found_as_they_are(
    root: Path, store: OpenStore
) -> None:
    names = [
        *('a"b.py', "a'b.py", "a\nb.py", "a`b.py", "a\\b.py", "{x: 1}.py", "$id.py", "é.py"),
        *("MATCH (n) DETACH DELETE n.py", "'; DROP TABLE memory; --.py", "NEAR(a b).py", "a*.py"),
    ]
    for name in names:
        write(root, name, f"def needle(): {name!r}\n")
    assert index(store, root).files == len(names)
    assert live_paths(store) == sorted(names)
    assert read_by(store, root) == []
    opened = store()
    assert len(opened.search(WORKSPACE, GraphQuery(words="needle", limit=50))) == len(names)
    opened.close()


def test_minified_code_of_many_chunks_on_one_line_is_stored_whole(
    root: Path, store: OpenStore
) -> None:
    source = "".join(f"function f{n}(){{g{n}()}}" for n in range(2000))
    write(root, "min.js", source)
    index(store, root, include=["minified"])
    chunks = sorted(live(items_of(store)).chunks, key=lambda chunk: chunk.position)
    assert "".join(chunk.text for chunk in chunks) == source
    assert len(chunks) > 5


def test_the_report_names_what_was_skipped_on_one_line_each(root: Path, store: OpenStore) -> None:
    write(root, "bad\nname.py", b"\0")
    for n in range(12):
        write(root, f"z{n:02}.py", b"\0")
    lines = str(index(store, root)).splitlines()
    assert lines[9:11] == ["Skipped: 13", "  'bad\\nname.py': binary: it has NUL bytes"]
    assert lines[-1] == "  and 3 more"


def test_another_name_keeps_a_repository_when_its_folder_moves(
    tmp_path: Path, root: Path, store: OpenStore
) -> None:
    write(root, "a.py")
    index(store, root, repository="shop")
    root.rename(tmp_path / "elsewhere")
    report = index(store, tmp_path / "elsewhere", repository="shop")
    assert (report.files, report.unchanged) == (0, 1)


@pytest.mark.parametrize("name", ["languages", "include"])
def test_a_text_where_a_list_of_names_belongs_is_refused(
    store: OpenStore, tmp_path: Path, name: str
) -> None:
    with pytest.raises(BadInput, match=f"{name} is 'python'; expected a list of names"):
        index(store, tmp_path, **{name: "python"})


def test_a_path_that_is_not_text_is_refused(store: OpenStore) -> None:
    with pytest.raises(BadInput, match="a folder to index was expected"):
        index(store, Path("\ud800"))
