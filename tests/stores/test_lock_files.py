"""The lock file: on every platform, one holder at a time, and nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from marksweep.stores.base import Store
from marksweep.stores.files import FileLock
from marksweep.stores.json_file import JsonStore
from marksweep.stores.sqlite import SqliteStore
from marksweep.testing.contracts.handles import HOSTILE_NAMES, segment

WITHOUT_FCNTL = """
import sys
sys.modules['fcntl'] = None
import marksweep
marksweep.tidy; marksweep.Conversation; marksweep.Segments; marksweep.GraphMemory
import marksweep.stores.graph.falkor
"""

COUNT = """
import sys
from pathlib import Path
from marksweep.stores import files

files.POLL_SECONDS = 0.0001  # more attempts find a file that was just removed more often
lock, total = files.FileLock(Path(sys.argv[1]), 60), Path(sys.argv[2])
for _ in range(300):
    with lock.held():
        total.write_text(str(int(total.read_text()) + 1))
"""


def test_the_library_is_imported_where_there_is_no_fcntl() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_FCNTL], check=True)


def test_one_process_at_a_time_though_the_lock_file_comes_and_goes(tmp_path: Path) -> None:
    lock, total = tmp_path / "count.lock", tmp_path / "total"
    total.write_text("0")
    command = [sys.executable, "-c", COUNT, str(lock), str(total)]
    workers = [subprocess.Popen(command) for _ in range(4)]
    assert [worker.wait(120) for worker in workers] == [0, 0, 0, 0]
    assert total.read_text() == "1200"
    assert not lock.exists()


def test_the_lock_file_stays_until_the_outermost_holder_is_done(tmp_path: Path) -> None:
    path = tmp_path / "nested.lock"
    lock = FileLock(path)
    with lock.held():
        with lock.held():
            assert path.exists()
        assert path.exists()
    assert not path.exists()


@pytest.mark.parametrize("kind", [SqliteStore, JsonStore])
def test_no_workspace_leaves_a_lock_file(tmp_path: Path, kind: Callable[[Path], Store]) -> None:
    store = kind(tmp_path / ("store.json" if kind is JsonStore else "store.db"))
    for name in HOSTILE_NAMES:
        with store.lock(name):
            store.segments.write(name, put=[segment("a")])
    store.close()
    assert [each.name for each in tmp_path.iterdir() if "lock" in each.name] == []
