"""An indexer that is killed at any moment loses and marks nothing; the next one finishes."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marksweep.indexing import indexer
from marksweep.indexing.report import Progress
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.falkor.connection import RECONNECT_SECONDS
from marksweep.stores.graph.nouns import Memory
from tests.graph.servers import free_port, network_server, often_rewritten, start
from tests.indexing.trees import (
    WORKSPACE,
    OpenStore,
    index,
    items_of,
    live,
    sqlite_at,
    stale_paths,
    write,
)

KILLS = 100
SERVER_KILLS = 100
CHECK_EVERY = 5
"""Kills of the server between two checks that the next run finishes the work."""
FILES = 24

NewStore = Callable[[str], OpenStore]


def change(root: Path, random_: random.Random) -> None:
    """Edit, add, rename and delete a few files."""
    for _ in range(random_.randint(1, 6)):
        name = f"d{random_.randrange(3)}/f{random_.randrange(FILES)}.py"
        file = root / name
        match random_.randrange(4):
            case 0 if file.exists():
                file.unlink()
            case 1 if file.exists():
                file.rename(file.with_name(f"f{random_.randrange(FILES)}.py"))
            case _:
                calls = "".join(f"    g{random_.randrange(9)}()\n" for _ in range(5))
                write(root, name, f"def f{random_.randrange(9)}():\n{calls}")
    write(root, "always.py", "def here(): pass\n")


def index_in_a_child(open_store: OpenStore, root: Path, call_after: int = 0) -> tuple[int, int]:
    """Start an indexer in a separate process; return its id, and a pipe from it.

    It writes to the pipe after this many files. Forking saves the time of starting Python.
    """
    hear, call = os.pipe()
    child = os.fork()
    if child == 0:

        def progress(progress: Progress) -> None:
            if progress.done >= call_after:
                os.write(call, b"!")

        try:
            index(open_store, root, max_shrink=1.0, progress=progress)
        finally:
            os._exit(0)
    os.close(call)
    return child, hear


def runs_of(open_store: OpenStore) -> tuple[set[str], set[str]]:
    """Return the runs that finished, and those that began and did not finish."""
    store = open_store()
    runs = store.runs(WORKSPACE)
    store.close()
    finished = {run.run_id for run in runs if run.finished_at is not None}
    return finished, {run.run_id for run in runs} - finished


def rows(open_store: OpenStore) -> dict[str, Memory]:
    return {item.memory_id: item for item in items_of(open_store) if isinstance(item, Memory)}


@pytest.fixture(params=["sqlite", "falkordb"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewStore]:
    """Return a function that opens a store by name; opening it again opens the same graph."""
    if request.param == "sqlite":
        yield lambda name: sqlite_at(tmp_path / f"{name}.db")
        return
    (tmp_path / "server").mkdir()
    with network_server(tmp_path / "server") as url:
        yield lambda name: falkor_at(url, name)


def falkor_at(url: str, name: str, patience_seconds: float = RECONNECT_SECONDS) -> OpenStore:
    return lambda: FalkorGraphStore(url, prefix=f"{name}:", patience_seconds=patience_seconds)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a small repository, indexed in many transactions."""
    monkeypatch.setattr(indexer, "BATCH_FILES", 2)
    for n in range(FILES):
        write(tmp_path / "root", f"d{n % 3}/f{n}.py", f"def f{n % 9}():\n    g{n % 7}()\n")
    return tmp_path / "root"


def assert_complete(store: OpenStore, clean: OpenStore, root: Path) -> None:
    """Check that the next run finishes the work of interrupted ones."""
    index(store, root, max_shrink=1.0)
    index(clean, root)
    assert live(items_of(store)) == live(items_of(clean))


@pytest.mark.timeout(600)
def test_no_row_is_lost_however_often_the_indexer_is_killed(
    root: Path, new_store: NewStore
) -> None:
    random_ = random.Random(7)
    store = new_store("graph")
    started = time.monotonic()
    index(store, root)
    longest = time.monotonic() - started
    for number in range(KILLS):
        change(root, random_)
        stale, known = stale_paths(store), rows(store)
        finished, _ = runs_of(store)
        child, hear = index_in_a_child(store, root, random_.randrange(FILES))
        if number % 2:
            os.read(hear, 1)  # in the middle of its work
        else:
            time.sleep(random_.uniform(0, longest))  # at any moment, also before and after it
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(hear)
        if runs_of(store)[0] == finished:
            assert set(stale_paths(store)) <= set(stale)
            now_known = rows(store)
            lost = {known[each].content_hash for each in known.keys() - now_known.keys()}
            assert lost <= {row.content_hash for row in now_known.values()}
        if number % 10 == 9:
            assert_complete(store, new_store(f"clean{number}"), root)
    _, cut_short = runs_of(store)
    assert len(cut_short) >= KILLS / 5, "hardly any kill interrupted a run"


@pytest.mark.timeout(600)
def test_no_row_is_lost_when_the_falkordb_server_is_killed_under_the_indexer(
    root: Path, tmp_path: Path
) -> None:
    random_ = random.Random(11)
    port = free_port()
    url = f"redis://127.0.0.1:{port}"
    (tmp_path / "server").mkdir()
    server = start(tmp_path / "server", port, *often_rewritten())
    store = falkor_at(url, "graph", patience_seconds=0.1)
    try:
        index(store, root)
        for number in range(SERVER_KILLS):
            for n in range(FILES):
                write(root, f"d{n % 3}/f{n}.py", f"def f{number}():\n    g{n % 7}()\n")
            child, hear = index_in_a_child(store, root, random_.randrange(FILES - 4))
            os.read(hear, 1)
            server.kill()
            server.wait()
            os.waitpid(child, 0)
            os.close(hear)
            server = start(tmp_path / "server", port, *often_rewritten())
            if number % CHECK_EVERY == CHECK_EVERY - 1:
                assert_complete(store, falkor_at(url, f"clean{number}"), root)
        _, cut_short = runs_of(store)
        assert len(cut_short) >= SERVER_KILLS / 2, "hardly any kill interrupted a run"
    finally:
        server.kill()
        server.wait()
