"""What is specific to the JSON store: the shape of its files, other tools, damage."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from marksweep.errors import StoreCorrupt, StoreError, StoreTooNew
from marksweep.model import Entry, Event, Hold, Reference
from marksweep.stores.base import DEFAULT_WORKSPACE, PlanRetention
from marksweep.stores.checkpoint import forget, get_state, put_state
from marksweep.stores.json_file import JsonStore
from marksweep.testing.contracts.handles import HOSTILE_NAMES, NOON, later, segment, stashed
from marksweep.testing.contracts.journal import shown
from marksweep.testing.contracts.segments import FULL


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "context.json"


@pytest.fixture
def store(path: Path) -> Iterator[JsonStore]:
    store = JsonStore(path, lock_timeout=1)
    yield store
    store.close()


BARE = """{"segments": [
  {"segment_id": "a", "text": "made elsewhere", "type": "code",
   "created_at": "2025-06-01T12:00:00", "last_touched_at": "2025-06-01T13:00:00Z",
   "pinned": false, "generation": "young", "gc_survival_count": 0, "refcount": 0,
   "file_path": null, "line_range": [3, 9], "tags": ["x"], "topic_id": null,
   "references": ["b", {"target": "c", "hold": "weak"}], "unknown": 1},
  {"segment_id": "b", "type": "log", "created_at": "2025-06-01T14:00:00+02:00"}
]}"""


def test_live_segments_are_written_for_people_to_read(path: Path, store: JsonStore) -> None:
    store.segments.write(DEFAULT_WORKSPACE, put=[segment("a", "多 text", tags=["x"]), segment("b")])
    text = path.read_text()
    assert '\n      "text": "多 text",\n' in text
    found = json.loads(text)
    assert [each["segment_id"] for each in found["segments"]] == ["a", "b"]
    assert found["segments"][0]["tags"] == ["x"]


def test_the_stash_has_the_same_shape_and_says_why_beside_each(
    path: Path, store: JsonStore
) -> None:
    entry = msgspec.structs.replace(stashed("a", "p", "text"), expires_at=later(days=1))
    store.stash.put(DEFAULT_WORKSPACE, [entry])
    (found,) = json.loads(path.with_name("context.stash.json").read_text())["segments"]
    assert found["segment_id"] == "a"
    assert found["stashed"] == {
        "plan_id": "p",
        "stashed_at": "2025-06-01T12:00:00Z",
        "reason": "it was old",
        "expires_at": "2025-06-02T12:00:00Z",
    }


def test_a_workspace_is_forgotten_and_restored_in_one_write_of_its_stash(
    path: Path, store: JsonStore
) -> None:
    stash = path.with_name("context.stash.json")

    def version() -> int:
        return int(json.loads(stash.read_text())["version"])

    store.stash.put(DEFAULT_WORKSPACE, [stashed(f"s{n}", "p", "text") for n in range(5)])
    state, before = get_state(store, DEFAULT_WORKSPACE, "openai"), version()
    forget(store, DEFAULT_WORKSPACE)
    assert (store.stash.count(DEFAULT_WORKSPACE), version()) == (0, before + 1)
    put_state(store, DEFAULT_WORKSPACE, state)
    assert (store.stash.count(DEFAULT_WORKSPACE), version()) == (5, before + 2)


def test_the_journal_is_one_entry_per_line(path: Path, store: JsonStore) -> None:
    store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEEPING, NOON, "p"))
    store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON, "p", "line\nbreak"))
    lines = path.with_name("context.journal.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["sweeping", "swept"]


def test_a_bare_file_of_another_tool_is_read_and_kept(path: Path, store: JsonStore) -> None:
    path.write_text(BARE)
    a, b = store.segments.changes(DEFAULT_WORKSPACE).put
    assert (a.text, a.line_range, a.tags) == ("made elsewhere", (3, 9), ("x",))
    assert a.created_at == NOON
    assert a.references == (Reference("b"), Reference("c", hold=Hold.WEAK))
    assert b.created_at == NOON
    version = store.segments.changes(DEFAULT_WORKSPACE).version
    store.segments.write(DEFAULT_WORKSPACE, put=[segment("c")])
    assert store.segments.changes(DEFAULT_WORKSPACE, version).put == (segment("c"),)
    again = JsonStore(path)
    assert set(again.segments.changes(DEFAULT_WORKSPACE).put) == {a, b, segment("c")}


def test_what_another_tool_changes_shows_up(path: Path, store: JsonStore) -> None:
    store.segments.write(DEFAULT_WORKSPACE, put=[segment("a"), segment("b")])
    version = store.segments.changes(DEFAULT_WORKSPACE).version
    found = json.loads(path.read_text())
    del found["version"]
    found["segments"][0]["text"] = "edited"
    del found["segments"][1]
    path.write_text(json.dumps(found))
    changes = store.segments.changes(DEFAULT_WORKSPACE, version)
    assert changes.put == (segment("a", "edited"),)
    assert changes.removed == ("b",)
    assert changes.version > version


def test_a_change_within_one_tick_of_the_clock_is_noticed(path: Path, store: JsonStore) -> None:
    version = store.segments.write(DEFAULT_WORKSPACE, put=[segment("a", "old")])
    before = path.stat()
    changed = path.read_bytes().replace(b"old", b"new")
    changed = changed.replace(b'"version": 1', b'"version": 2')
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (before.st_ino, before.st_size, before.st_mtime_ns) == (
        (after.st_ino, after.st_size, after.st_mtime_ns)
    )
    assert store.segments.changes(DEFAULT_WORKSPACE, version).put == (segment("a", "new"),)


def test_a_write_is_synced_and_its_name_too(
    path: Path, store: JsonStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def noting(handle: int) -> None:
        kind = stat.S_ISDIR(os.fstat(handle).st_mode)
        synced.append("folder" if kind else "file")
        sync(handle)

    monkeypatch.setattr(os, "fsync", noting)
    for work in (
        lambda: store.segments.write(DEFAULT_WORKSPACE, put=[segment("a")]),
        lambda: store.stash.put(DEFAULT_WORKSPACE, [stashed("a")]),
        lambda: store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON)),
    ):
        synced.clear()
        work()
        assert synced == ["file", "folder"]


def test_a_file_that_vanishes_is_empty(path: Path, store: JsonStore) -> None:
    version = store.segments.write(DEFAULT_WORKSPACE, put=[segment("a")])
    path.unlink()
    assert store.segments.changes(DEFAULT_WORKSPACE, version).removed == ("a",)


def test_all_files_are_private_and_names_lead_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    store = JsonStore(folder)
    for name in HOSTILE_NAMES:
        store.segments.write(name, put=[segment("a")])
        store.stash.put(name, [stashed("a")])
        store.journal.append(name, Entry(Event.SWEPT, NOON))
        with store.lock(name):
            pass
    files = list(folder.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(file.name.startswith(("context", ".context")) for file in files)
    assert [file.name for file in tmp_path.iterdir()] == ["new"]


def cut(text: bytes, pieces: int) -> Iterator[bytes]:
    for n in range(pieces):
        yield text[: len(text) * n // pieces]


def test_a_truncated_file_is_refused_with_its_place_and_left_alone(path: Path) -> None:
    store = JsonStore(path)
    store.segments.write(DEFAULT_WORKSPACE, put=[FULL, segment("b", "text")])
    store.stash.put(DEFAULT_WORKSPACE, [stashed("a", text="text"), stashed("b")])
    stash_path = path.with_name("context.stash.json")
    calls: list[tuple[Path, Callable[[JsonStore], object]]] = [
        (path, lambda store: store.segments.changes(DEFAULT_WORKSPACE)),
        (path, lambda store: store.segments.write(DEFAULT_WORKSPACE, put=[segment("new")])),
        (stash_path, lambda store: store.stash.count(DEFAULT_WORKSPACE)),
        (stash_path, lambda store: store.stash.put(DEFAULT_WORKSPACE, [stashed("new")])),
    ]
    for file, call in calls:
        whole = file.read_bytes()
        for part in cut(whole.rstrip(), 40):
            file.write_bytes(part)
            with pytest.raises(StoreCorrupt, match=rf"{file.name}: invalid JSON at line \d+, col"):
                call(JsonStore(path))
            assert file.read_bytes() == part
        file.write_bytes(whole)
        call(JsonStore(path))
        file.write_bytes(whole)


def test_a_file_that_is_damaged_while_open_is_refused_until_it_is_repaired(
    path: Path, store: JsonStore
) -> None:
    store.segments.write(DEFAULT_WORKSPACE, put=[segment("a")])
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"note"', b"17"))
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=r"segments\[0\]\.type"):
            store.segments.changes(DEFAULT_WORKSPACE)
    path.write_bytes(whole)
    assert len(store.segments.changes(DEFAULT_WORKSPACE).put) == 1


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("[]", "found a list, expected an object"),
        ("{}", "an object with nothing in it"),
        ('{"segment": []}', "an object with segment,"),
        ('{"segments": [1]}', r"segments\[0\]"),
        ('{"segments": [{"segment_id": "a"}]}', r"missing required field `type` in segments\[0\]"),
        ('{"segments": [{"segment_id": "a", "type": "x", "created_at": "soon"}]}', "created_at"),
        ('{"segments": [], "version": "x"}', "version"),
        ('{"segments": [{"segment_id": "\xff', "line 1, column"),
        ("[" * 100_000, "nested too deeply|line 1"),
        (f'{{"segments": [], "version": {"9" * 5_000}}}', "digits"),
    ],
)
def test_a_file_of_another_shape_is_refused_with_its_place(
    path: Path, store: JsonStore, content: str, place: str
) -> None:
    path.write_text(content)
    with pytest.raises(StoreCorrupt, match=rf"context\.json: .*({place})"):
        store.segments.changes(DEFAULT_WORKSPACE)
    assert path.read_text() == content


def test_what_is_not_utf8_is_refused_with_its_place(path: Path, store: JsonStore) -> None:
    path.write_bytes(b'{"segments": ["\xff"]}')
    with pytest.raises(StoreCorrupt, match="invalid UTF-8 at byte 15"):
        store.segments.changes(DEFAULT_WORKSPACE)


def test_a_duplicate_id_is_refused(path: Path, store: JsonStore) -> None:
    path.write_text(BARE.replace('"segment_id": "b"', '"segment_id": "a"'))
    with pytest.raises(StoreCorrupt, match=r"segments\[1\] has the id 'a'"):
        store.segments.changes(DEFAULT_WORKSPACE)


def test_a_newer_format_is_refused(path: Path, store: JsonStore) -> None:
    path.write_text('{"format": 2, "segments": []}')
    with pytest.raises(StoreTooNew, match="Upgrade"):
        store.segments.changes(DEFAULT_WORKSPACE)


def test_a_torn_last_line_is_skipped_and_reported(
    path: Path, store: JsonStore, caplog: pytest.LogCaptureFixture
) -> None:
    journal = path.with_name("context.journal.jsonl")
    store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEEPING, NOON))
    store.journal.append(
        DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON, actor="a longer line than the next")
    )
    whole = journal.read_bytes()
    second = whole.index(b"\n") + 1
    for end in range(second + 1, len(whole), 7):
        journal.write_bytes(whole[:end])
        caplog.clear()
        again = JsonStore(path)
        with caplog.at_level(logging.WARNING):
            assert [entry.seq for entry in again.journal.read(DEFAULT_WORKSPACE)] == [1]
            again.journal.read(DEFAULT_WORKSPACE)
        assert [record.getMessage().count("line 2 was cut off") for record in caplog.records] == [1]
        assert journal.read_bytes() == whole[:end]
        assert again.journal.append(DEFAULT_WORKSPACE, Entry(Event.ROLLED_BACK, NOON)).seq == 2
        assert [entry.event for entry in JsonStore(path).journal.read(DEFAULT_WORKSPACE)] == [
            Event.ROLLED_BACK,
            Event.SWEEPING,
        ]


def test_a_handle_that_reported_a_torn_line_does_not_report_its_repair(
    path: Path, store: JsonStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEEPING, NOON))
    with path.with_name("context.journal.jsonl").open("ab") as file:
        file.write(b'{"event"')
    store.journal.read(DEFAULT_WORKSPACE)
    assert len(caplog.records) == 1
    caplog.clear()
    neighbour = JsonStore(path)
    neighbour.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON))
    caplog.clear()
    assert [entry.seq for entry in store.journal.read(DEFAULT_WORKSPACE)] == [2, 1]
    assert caplog.records == []


@pytest.mark.parametrize("damaged", [b'{"event":', b"[" * 100_000], ids=["cut", "nested"])
def test_a_damaged_line_inside_the_journal_is_refused_with_its_number(
    path: Path, store: JsonStore, damaged: bytes
) -> None:
    journal = path.with_name("context.journal.jsonl")
    for _ in range(3):
        store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON))
    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([lines[0], damaged, lines[2], b""]))
    with pytest.raises(StoreCorrupt, match=r"journal\.jsonl: line 2 is not a journal entry"):
        JsonStore(path).journal.read(DEFAULT_WORKSPACE)


def fail(number: int) -> object:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return failing


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_reported_and_nothing_is_changed(
    path: Path, store: JsonStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = store.segments.write(DEFAULT_WORKSPACE, put=[segment("a")])
    store.stash.put(DEFAULT_WORKSPACE, [stashed("a")])
    store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON))
    files = {file: file.read_bytes() for file in path.parent.iterdir()}
    target = os if call == "fsync" else Path
    with monkeypatch.context() as patch:
        patch.setattr(target, call, fail(errno.ENOSPC))
        with pytest.raises(StoreError, match=r"context\.json: No space left.*disk is full"):
            store.segments.write(DEFAULT_WORKSPACE, put=[segment("b")], remove=["a"])
        with pytest.raises(StoreError, match="disk is full"):
            store.stash.remove(DEFAULT_WORKSPACE, "plan-1", ["a"])
        if call == "fsync":
            with pytest.raises(StoreError, match="disk is full"):
                store.journal.append(DEFAULT_WORKSPACE, Entry(Event.UNDONE, NOON))
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == files
    assert store.segments.changes(DEFAULT_WORKSPACE, before).put == ()
    assert store.stash.count(DEFAULT_WORKSPACE) == 1
    assert store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON)).seq == 2


LIMITED = """
import resource, sys
from marksweep.errors import StoreError
from marksweep.stores.json_file import JsonStore
from marksweep.testing.contracts.handles import segment, stashed

store = JsonStore(sys.argv[1])
store.segments.write("default", put=[segment("a")])
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
try:
    store.segments.write("default", put=[segment("b", "x" * 9000)])
except StoreError as error:
    print(error)
assert [s.segment_id for s in store.segments.changes("default").put] == ["a"]
"""


def test_a_file_that_may_not_grow_is_reported_and_nothing_is_changed(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout
    assert [s.segment_id for s in JsonStore(path).segments.changes(DEFAULT_WORKSPACE).put] == ["a"]
    assert not [file for file in path.parent.iterdir() if "draft" in file.name]


def test_a_read_only_file_is_reported_and_nothing_is_changed(path: Path, store: JsonStore) -> None:
    store.segments.write(DEFAULT_WORKSPACE, put=[segment("a")])
    store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON))
    for file in (path, path.with_name("context.journal.jsonl")):
        file.chmod(0o400)
    with pytest.raises(StoreError, match=r"context\.json: The file is read-only"):
        store.segments.write(DEFAULT_WORKSPACE, remove=["a"])
    with pytest.raises(StoreError, match="read-only"):
        store.journal.append(DEFAULT_WORKSPACE, Entry(Event.SWEPT, NOON))
    assert len(JsonStore(path).segments.changes(DEFAULT_WORKSPACE).put) == 1
    assert len(JsonStore(path).journal.read(DEFAULT_WORKSPACE)) == 1


READ = """
import sys
from pathlib import Path
from marksweep.errors import StoreError
from marksweep.stores.json_file import JsonStore
store = JsonStore(Path(sys.argv[1]))
try:
    store.segments.changes("default")
    store.journal.read("default")
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["context.json", "context.journal.jsonl"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    reader = [sys.executable, "-c", READ, str(tmp_path / "context.json")]
    done = subprocess.run(reader, capture_output=True, text=True, timeout=60, check=True)
    assert "Not a regular file" in done.stdout


def test_an_impossible_location_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="A part of the path is a file"):
        JsonStore(tmp_path / "file" / "context.json")


def test_a_journal_that_others_replace_again_and_again_is_read_afresh(tmp_path: Path) -> None:
    """A file system may give the second replacement the inode of the first file."""
    keep = PlanRetention(plans=3)
    ours, theirs = (JsonStore(tmp_path / "store.json", retention=keep) for _ in range(2))
    for number in range(0, 40, 2):
        ours.journal.append("default", shown(number, NOON))
        ours.journal.append("default", shown(number + 1, NOON))
        ours.journal.append("default", Entry(Event.SWEPT, NOON, f"plan-{number}", "ann"))
        assert theirs.journal.read("default") == ours.journal.read("default")
    theirs.journal.append("default", Entry(Event.SWEPT, NOON, "last"))
    assert len(ours.journal.read("default")) == 3 + 20 + 1
