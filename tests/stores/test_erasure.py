"""After an erasure no file of a store holds the words, even while another process has it open."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from marksweep.model import Entry, Event
from marksweep.stores.base import Store
from marksweep.stores.json_file import JsonStore
from marksweep.stores.open import open_store
from marksweep.stores.sqlite import SqliteStore
from marksweep.testing.contracts.handles import NOON, segment, stashed
from marksweep.testing.contracts.journal import PLAN

SECRET = "xylophonist"  # noqa: S105
KEPT = "marigold"

NEIGHBOUR = """
import sys
from marksweep.stores.base import Query
from marksweep.stores.open import open_store

store = open_store(sys.argv[1])
assert store.stash.search("w", Query(words=sys.argv[2]))
if sys.argv[3] == "reads":
    reading = store._file.reading()
    reading.__enter__().execute("SELECT count(*) FROM stash").fetchone()
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def neighbour(path: Path, does: str) -> Iterator[None]:
    """Keep the store open in another process until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR, str(path), SECRET, does],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield


def fill(store: Store) -> None:
    """Write the secret to every part of the store, among other words, in several writes."""
    for number in range(40):
        store.stash.put("w", [stashed(f"s{number}", f"plan-{number}", f"{KEPT} of {number}" * 9)])
    long = f"the {SECRET} of the {KEPT} " * 400
    store.segments.write("w", put=[segment("secret", long)])
    store.stash.put("w", [stashed("secret", "plan-1", long)])
    (step,) = PLAN.steps
    step = msgspec.structs.replace(
        step, segments=("secret",), reason=f"{SECRET} is old", replacement=segment("short", SECRET)
    )
    plan = msgspec.structs.replace(PLAN, steps=(step,))
    store.journal.append("w", Entry(Event.PLANNED, NOON, "plan-1", plan=plan))
    store.journal.append("w", Entry(Event.SWEEPING, NOON, "plan-1", plan=plan))


def erase(store: Store) -> tuple[str, ...]:
    store.segments.write("w", remove=["secret"])
    store.stash.remove("w", "plan-1", ["secret"])
    store.journal.redact("w", {"secret"})
    return store.scrub()


def holding(folder: Path, word: str) -> list[str]:
    """Return the files whose bytes hold a word."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if word.encode() in file.read_bytes()]


@pytest.mark.parametrize("kind", [SqliteStore, JsonStore])
def test_no_file_holds_the_words_while_another_process_has_the_store_open(
    tmp_path: Path, kind: Callable[[Path], Store]
) -> None:
    path = tmp_path / ("store.json" if kind is JsonStore else "store.db")
    store = kind(path)
    fill(store)
    assert holding(tmp_path, SECRET)
    with neighbour(path, "waits"):
        assert erase(store) == ()
        assert holding(tmp_path, SECRET) == []
        assert holding(tmp_path, KEPT)
    assert store.stash.count("w") == 40
    store.close()


def test_what_a_reader_keeps_is_reported_and_goes_when_the_store_is_next_opened(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path, lock_timeout=0.2)
    fill(store)
    with neighbour(path, "reads"):
        (left,) = erase(store)
        assert "another process" in left
        assert holding(tmp_path, SECRET)
        with closing(SqliteStore(path, lock_timeout=0.2)):
            assert holding(tmp_path, SECRET)
    held = open_store(path)
    assert holding(tmp_path, SECRET) == []
    assert held.stash.count("w") == 40
    held.close()
    store.close()


NOT_OVERWRITTEN = """
PRAGMA secure_delete = OFF;
DELETE FROM segments_words WHERE rowid IN (SELECT row FROM segments WHERE segment_id = 'secret');
DELETE FROM segments WHERE segment_id = 'secret';
DELETE FROM stash_words WHERE rowid IN (SELECT row FROM stash WHERE segment_id = 'secret');
DELETE FROM stash WHERE segment_id = 'secret';
"""
"""Turns a file into what a SQLite leaves that does not overwrite freed pages."""


def test_what_was_removed_long_ago_goes_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    fill(store)
    store.close()
    with closing(sqlite3.connect(path)) as database:
        database.executescript(NOT_OVERWRITTEN)
    again = SqliteStore(path)
    assert again.journal.redact("w", {"secret"}) == 2
    assert holding(tmp_path, SECRET)
    assert again.scrub() == ()
    assert holding(tmp_path, SECRET) == []
    assert again.stash.count("w") == 40
    again.close()
