from __future__ import annotations

import errno
import gzip
import os
from pathlib import Path

import pytest

from marksweep.errors import StoreCorrupt, StoreError, StoreTooNew
from marksweep.graph.backup import check_backup, load_backup, read_backup, write_backup
from marksweep.stores.graph.base import GraphStore, Nodes
from marksweep.stores.graph.nouns import Memory
from tests.graph.graph_contract import OpenStore, everything, found
from tests.graph.graphs import HOSTILE, START, file, note
from tests.graph.memories import World, sqlite_graphs
from tests.graph.servers import fresh_graphs


def filled(store: GraphStore) -> None:
    store.put("w", [file("w", "a.py", {"a": ["b"], "b": ["a"]}), note("w", "one")])
    store.put("w", [note("w", name, source=name, mentions=(name,)) for name in HOSTILE])


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    with sqlite_graphs(tmp_path / "graph.db")() as store:
        filled(store)
        return write_backup(store, "w", tmp_path / "backups" / "one.jsonl.gz", START).path


class RoundTrip:
    def test_a_backup_read_back_is_the_same_graph(
        self, open_store: OpenStore, tmp_path: Path
    ) -> None:
        with open_store() as store:
            filled(store)
            before = everything(store, "w")
            backup = write_backup(store, "w", tmp_path / "backups" / "one.jsonl.gz", START)
            assert backup.items == len(before)
            assert sorted(read_backup(backup.path), key=repr) == before
            store.remove("w", [i.memory_id for i in before if isinstance(i, Memory)])
            assert check_backup(backup.path) == backup
            load_backup(store, backup, "w")
            assert everything(store, "w") == before
            load_backup(store, backup, "copy")
            assert found(store, "copy", "one") == ["one"]
            assert everything(store, "w") == before

    def test_what_was_forgotten_is_not_in_a_backup_of_the_workspace(
        self, open_store: OpenStore, tmp_path: Path
    ) -> None:
        with open_store() as store:
            filled(store)
            store.put("w", [note("w", "stays", mentions=("shared",))])
            before = everything(store, "w")
            secret = note("w", "the plan of Omega", mentions=("Omega", "shared"))
            code = file("w", "gone.py", {"gone": ["a"]})
            store.put("w", [secret, code])
            store.soft_delete(
                "w",
                Nodes((secret.memory.memory_id, code.memory.memory_id)),
                version=store.version("w"),
                plan_id="plan-1",
                at=START,
            )
            backup = write_backup(store, "w", tmp_path / "backups" / "one.jsonl.gz", START)
            assert sorted(read_backup(backup.path), key=repr) == before


class TestBackupOnSqlite(RoundTrip):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return sqlite_graphs(tmp_path / "graph.db")


class TestBackupOnFalkor(RoundTrip):
    @pytest.fixture
    def open_store(self, falkor_url: str) -> OpenStore:
        return fresh_graphs(falkor_url)


def test_a_backup_moves_between_stores(backup: Path, falkor_url: str, tmp_path: Path) -> None:
    with fresh_graphs(falkor_url)() as falkor:
        load_backup(falkor, check_backup(backup), "w")
        with sqlite_graphs(tmp_path / "graph.db")() as sqlite:
            assert everything(falkor, "w") == everything(sqlite, "w")


def test_a_flipped_byte_is_found_before_anything_is_loaded(backup: Path, tmp_path: Path) -> None:
    lines = gzip.decompress(backup.read_bytes()).replace(b"one", b"two")
    backup.write_bytes(gzip.compress(lines))

    with sqlite_graphs(tmp_path / "other.db")() as graph:
        world = World(graph, tmp_path / "backups")
        with pytest.raises(StoreCorrupt, match="checksum does not match"):
            world.memory.import_backup(backup)
        assert everything(graph, "w") == []


@pytest.mark.parametrize("size", [0, 10, 0.5])
def test_a_cut_backup_is_refused(backup: Path, size: float) -> None:
    content = backup.read_bytes()
    backup.write_bytes(content[: int(size * len(content)) if size < 1 else int(size)])
    with pytest.raises(StoreCorrupt, match="not a complete backup"):
        check_backup(backup)


def test_a_backup_whose_last_line_is_missing_is_refused(backup: Path) -> None:
    lines = gzip.decompress(backup.read_bytes()).splitlines(keepends=True)
    backup.write_bytes(gzip.compress(b"".join(lines[:-1])))
    with pytest.raises(StoreCorrupt, match="its end is missing"):
        check_backup(backup)


def test_a_backup_of_a_newer_format_is_refused(backup: Path) -> None:
    content = gzip.decompress(backup.read_bytes())
    newer = content.replace(b'"marksweep_graph":1', b'"marksweep_graph":9', 1)
    backup.write_bytes(gzip.compress(newer))
    with pytest.raises(StoreTooNew, match="format 9"):
        check_backup(backup)


def test_a_backup_that_fails_leaves_no_half_file(tmp_path: Path) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as store:
        filled(store)
        store.close()
        with pytest.raises(Exception, match="is closed"):
            write_backup(store, "w", tmp_path / "backups" / "one.jsonl.gz", START)
        assert list((tmp_path / "backups").iterdir()) == []


def test_a_full_disk_is_reported_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with sqlite_graphs(tmp_path / "graph.db")() as store:
        filled(store)
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(StoreError, match="The disk is full"):
            write_backup(store, "w", tmp_path / "backups" / "one.jsonl.gz", START)
        assert list((tmp_path / "backups").iterdir()) == []
