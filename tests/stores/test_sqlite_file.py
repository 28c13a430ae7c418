"""What is specific to the SQLite store: its file, its schema, its errors."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from marksweep.errors import StoreBusy, StoreCorrupt, StoreError, StoreTooNew
from marksweep.model import Entry, Event
from marksweep.stores.base import Query
from marksweep.stores.database import SYNC_AT_COMMIT
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.sqlite import SCHEMA, SqliteStore, search
from marksweep.stores.sqlite import statements as sql
from marksweep.testing.contracts.handles import NOON, segment, stashed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, lock_timeout=1)
    yield store
    store.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    store = SqliteStore(folder / "store.db")
    store.segments.write("w", put=[segment("a")])
    with store.lock("w"):
        modes = {file.name: mode(file) for file in folder.iterdir()}
    store.close()
    assert {"store.db", "store.db-wal", "store.db-shm"} < modes.keys()
    assert sum(name.endswith(".lock") for name in modes) == 1
    assert set(modes.values()) == {0o600}
    assert mode(tmp_path / "new") == mode(folder) == 0o700


def test_the_file_is_in_write_ahead_mode(path: Path, store: SqliteStore) -> None:
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def test_a_file_from_before_the_first_release_is_refused_and_left_alone(path: Path) -> None:
    SqliteStore(path).close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {SCHEMA.oldest - 1}")
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"version {SCHEMA.oldest - 1}.*before the first release"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_newer_file_is_refused_and_left_alone(path: Path) -> None:
    SqliteStore(path).close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {SCHEMA.version + 1}")
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=rf"version {SCHEMA.version + 1}.*Upgrade"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE theirs (x)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="not marksweep's"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_memory_named_as_a_store_and_the_reverse_are_refused_as_such(tmp_path: Path) -> None:
    store, graph = tmp_path / "store.db", tmp_path / "graph.db"
    SqliteStore(store).close()
    SqliteGraphStore(graph).close()
    with pytest.raises(StoreCorrupt, match="a memory named as a store"):
        SqliteStore(graph)
    with pytest.raises(StoreCorrupt, match="a store named as a memory"):
        SqliteGraphStore(store)


def test_a_file_that_is_not_a_database_is_refused_and_left_unchanged(path: Path) -> None:
    path.write_text("dear diary, " * 100)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=r"store\.db: this is not a SQLite database"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_row_that_cannot_be_read_is_named_as_damage(path: Path, store: SqliteStore) -> None:
    store.segments.write("w", put=[segment("a")])
    store.stash.put("w", [stashed("a")])
    store.journal.append("w", Entry(Event.SWEPT, NOON))
    database = sqlite3.connect(path)
    for table in ("segments", "stash", "journal"):
        database.execute(f"UPDATE {table} SET body = x'7b22'")  # noqa: S608
    database.commit()
    database.close()
    with pytest.raises(StoreCorrupt, match=r"store\.db: a live segment cannot be read"):
        store.segments.changes("w")
    with pytest.raises(StoreCorrupt, match="a stash entry cannot be read"):
        store.stash.get("w", ["a"])
    with pytest.raises(StoreCorrupt, match="a journal entry cannot be read"):
        store.journal.read("w")


def test_a_full_disk_is_reported_and_nothing_is_changed(store: SqliteStore) -> None:
    store.stash.put("w", [stashed("kept")])
    before = store.segments.write("w", put=[segment("kept")])
    with store._file.reading() as database:
        pass
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages + 4}")
    big = "x" * 100_000
    with pytest.raises(StoreError, match=r"store\.db: the disk is full\. Nothing was changed"):
        store.stash.put("w", [stashed("new"), stashed("big", text=big)])
    with pytest.raises(StoreError, match="the disk is full"):
        store.segments.write("w", put=[segment("big", big)], remove=["kept"])
    assert store.stash.count("w") == 1
    assert store.segments.changes("w").version == before
    database.execute("PRAGMA max_page_count = 1000000")
    store.stash.put("w", [stashed("big", text=big)])
    assert store.stash.count("w") == 2


def test_a_read_only_file_is_reported_and_nothing_is_changed(
    path: Path, store: SqliteStore
) -> None:
    store.stash.put("w", [stashed("kept")])
    path.chmod(0o400)
    with pytest.raises(StoreError, match=r"store\.db: The file is read-only"):
        store.stash.put("w", [stashed("new")])
    assert store.stash.count("w") == 1
    with pytest.raises(StoreError, match="read-only"):
        SqliteStore(path)


def test_a_file_that_was_moved_away_is_not_written_to(path: Path, store: SqliteStore) -> None:
    store.stash.put("w", [stashed("kept")])
    path.rename(path.with_name("moved.db"))
    with pytest.raises(StoreError, match="put it back, or open the store again"):
        store.stash.put("w", [stashed("lost")])
    path.touch()
    with pytest.raises(StoreError, match="replaced while it was open"):
        store.stash.put("w", [stashed("lost")])


def test_an_impossible_location_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="A part of the path is a file"):
        SqliteStore(tmp_path / "file" / "store.db")
    with pytest.raises(StoreError, match="This is a folder"):
        SqliteStore(tmp_path)


def test_a_writer_that_never_finishes_is_reported(path: Path, store: SqliteStore) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    assert store.stash.count("w") == 0
    with pytest.raises(StoreBusy, match="another process is writing"):
        store.stash.put("w", [stashed("a")])
    database.rollback()
    database.close()
    store.stash.put("w", [stashed("a")])


def test_common_words_find_without_ranking(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "RANKED_AT_MOST", 5)
    texts = ["common rare", *["common"] * 20, "common rare rare"]
    store.stash.put("w", [stashed(f"s{n:02}", text=text) for n, text in enumerate(texts)])

    def found(words: str, **query: object) -> list[str]:
        hits = store.stash.search("w", Query(words=words, **query))  # type: ignore[arg-type]
        return [hit.found.segment.segment_id for hit in hits]

    assert found("rare common", limit=4) == ["s21", "s00", "s20", "s19"]
    assert found("common", limit=2) == ["s21", "s20"]
    assert len(found("rare common", limit=99)) == 22
    assert found("common", types=("code",)) == []
    assert found("common", types=("note",), limit=2) == ["s21", "s20"]
    store.stash.put("w", [stashed("log1", text="common rare", type="log")])
    store.stash.put("w", [stashed("log2", text="common", type="log")])
    assert found("rare common", types=("log",)) == ["log1", "log2"]


def test_of_common_words_the_newest_that_has_all_comes_first(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "RANKED_AT_MOST", 5)
    texts = [*["disk"] * 8, "disk full", *["full"] * 8]
    store.stash.put("w", [stashed(f"s{n:02}", text=text) for n, text in enumerate(texts)])
    hits = store.stash.search("w", Query(words="disk full", limit=3))
    assert [hit.found.segment.segment_id for hit in hits] == ["s08", "s16", "s15"]


def test_a_common_word_ranks_what_a_rarer_one_found(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "RANKED_AT_MOST", 5)
    texts = ["rare", "rare", "common rare", "rare", *["common"] * 9, *["other"] * 30]
    store.stash.put("w", [stashed(f"s{n:02}", text=text) for n, text in enumerate(texts)])

    def first() -> str:
        hits = store.stash.search("w", Query(words="rare common", limit=1))
        return hits[0].found.segment.segment_id

    assert first() == "s02"
    monkeypatch.setattr(search, "WEIGHED_AT_MOST", 9)
    assert first() != "s02"


def test_an_intent_reaches_the_disk_at_once_and_what_closes_it_with_the_next(
    store: SqliteStore,
) -> None:
    done: list[str] = []
    with store._file.reading() as database:
        database.set_trace_callback(done.append)
    store.journal.append("w", Entry(Event.SWEEPING, NOON, "plan-1"))
    assert SYNC_AT_COMMIT in done
    done.clear()
    store.journal.append("w", Entry(Event.SWEPT, NOON, "plan-1"))
    assert any("INSERT INTO journal" in statement for statement in done)
    assert SYNC_AT_COMMIT not in done


def test_forgotten_removals_make_a_reader_start_over(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marksweep.stores.sqlite.segments.CHANGES_KEPT", 3)
    ids = [f"s{n}" for n in range(10)]
    first = store.segments.write("w", put=[segment(key) for key in ids])
    versions = [store.segments.write("w", remove=[key]) for key in ids]
    assert store.segments.changes("w", first).complete
    late = store.segments.changes("w", versions[-3])
    assert not late.complete
    assert late.removed == ("s8", "s9")


def test_asking_for_changes_when_there_are_none_reads_no_segment(store: SqliteStore) -> None:
    version = store.segments.write("w", put=[segment("s", "some text")])
    done: list[str] = []
    with store._file.reading() as database:
        database.set_trace_callback(done.append)
    assert store.segments.changes("w", version).put == ()
    assert [each for each in done if "FROM segments" in each] == []
    assert len([each for each in done if "SELECT" in each]) == 1
    assert store.segments.changes("w").complete
    assert [each for each in done if "FROM segments" in each] != []


def test_statements_hold_no_values() -> None:
    texts = [
        value for name, value in vars(sql).items() if name.isupper() and isinstance(value, str)
    ]
    assert len(texts) > 30
    assert not any("'" in text.replace("col = 'words'", "") for text in texts)
