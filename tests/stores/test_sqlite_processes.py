"""Several processes on one SQLite store at once."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from marksweep.errors import StoreBusy
from marksweep.stores.sqlite import SqliteStore
from marksweep.testing.contracts.handles import segment


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, lock_timeout=1)
    yield store
    store.close()


def test_a_forked_child_uses_its_own_connection(store: SqliteStore) -> None:
    store.segments.write("w", put=[segment("parent")])
    with store._file.reading() as parents:
        pass

    def work() -> None:
        store.segments.write("w", put=[segment("child")])
        with store._file.reading() as own:
            assert own is not parents

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    ids = {each.segment_id for each in store.segments.changes("w").put}
    assert ids == {"parent", "child"}
    store.segments.write("w", put=[segment("parent again")])


WORK = """
import sys
from marksweep.stores.sqlite import SqliteStore
from marksweep.model import Entry, Event
from marksweep.testing.contracts.handles import NOON, segment, stashed

path, me, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = SqliteStore(path, lock_timeout=60)
for n in range(rounds):
    name = f"{me}-{n}"
    with store.lock("w"):
        counter = {s.segment_id: s for s in store.segments.changes("w").put}.get("counter")
        value = int(counter.text) if counter else 0
        store.segments.write("w", put=[segment("counter", str(value + 1)), segment(name)])
    store.stash.put("w", [stashed(name, me, "words of " + me)])
    store.segments.write("w", remove=[name])
    store.journal.append("w", Entry(Event.SWEPT, NOON, me, segments=(name,)))
store.close()
"""


def test_processes_share_one_file(path: Path) -> None:
    processes, rounds = 3, 25
    workers = [
        subprocess.Popen([sys.executable, "-c", WORK, str(path), f"p{n}", str(rounds)])
        for n in range(processes)
    ]
    assert [worker.wait(120) for worker in workers] == [0] * processes
    store = SqliteStore(path)
    (counter,) = store.segments.changes("w").put
    assert counter.text == str(processes * rounds)
    assert store.stash.count("w") == processes * rounds
    for n in range(processes):
        assert len(store.stash.of_plan("w", f"p{n}")) == rounds
    numbers = [entry.seq for entry in store.journal.read("w")]
    assert numbers == list(range(processes * rounds, 0, -1))
    store.close()


HOLD = """
import sys, time
from marksweep.stores.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
with store.lock("w"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_killed_holder_is_released(path: Path, store: SqliteStore) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(StoreBusy, match="another process"), store.lock("w"):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with store.lock("w"):
        pass


def test_many_may_open_a_new_file_at_once(path: Path) -> None:
    program = (
        "import sys; from marksweep.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1])"
    )
    openers = [subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(4)]
    assert [opener.wait(60) for opener in openers] == [0] * 4
