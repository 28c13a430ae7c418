"""Two indexers and a pruner on one workspace at the same time."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from marksweep.errors import StoreBusy
from marksweep.graph.memory import KnowledgeGraph
from marksweep.graph.pruning import MemorySettings
from marksweep.heaps.graph import Limits
from marksweep.indexing import indexer
from marksweep.indexing.indexer import index_codebase
from marksweep.indexing.readers import Inline
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.leases import hold
from marksweep.stores.memory import MemoryStore
from tests.indexing.test_law_incremental_equals_rebuild import holds_together
from tests.indexing.trees import WORKSPACE, index, items_of, live, write

ROUNDS = 12
FILES = 16
SETTINGS = MemorySettings(
    limits=Limits(grace=timedelta(0), cap_percent=100, wait_seconds=30), recently_read=timedelta(0)
)

CHANGING = threading.Lock()
"""Held during one change of the tree: the threads of both indexers make them."""

NewStore = Callable[[str], GraphStore]


@pytest.fixture(params=["sqlite", "falkordb"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    """Return a function that opens a new store on the same graph by name."""
    if request.param == "sqlite":
        return lambda name: SqliteGraphStore(tmp_path / f"{name}.db")
    url = str(request.getfixturevalue("falkor_url"))
    prefix = f"{tmp_path.name}-{random.randrange(10**9)}-"
    return lambda name: FalkorGraphStore(url, prefix=f"{prefix}{name}:")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a small repository, indexed in many transactions."""
    monkeypatch.setattr(indexer, "BATCH_FILES", 3)
    folder = tmp_path / "root"
    for _ in change(folder, random.Random(1), FILES):
        pass
    return folder


def change(root: Path, rng: random.Random, steps: int) -> Iterator[None]:
    """Write, rename and delete files, one after the other."""
    write(root, "always.py", "def here(): f1()\n")
    for _ in range(steps):
        with CHANGING:
            file = write(root, f"f{rng.randrange(FILES)}.py", f"def f{rng.randrange(5)}(): g()\n")
            match rng.randrange(4):
                case 0:
                    file.unlink()
                case 1:
                    file.rename(file.with_name(f"f{rng.randrange(FILES)}.py"))
        yield


def index_again_and_again(store: GraphStore, root: Path) -> None:
    rng = random.Random(2)
    for _ in range(ROUNDS):
        for _ in change(root, rng, 4):
            pass
        asyncio.run(
            index_codebase(
                root, store=store, workspace_id=WORKSPACE, max_shrink=1.0, reader=Inline()
            )
        )


def prune_again_and_again(store: GraphStore, backups: Path, stop: threading.Event) -> int:
    memory = KnowledgeGraph(store, MemoryStore(), backups=backups, settings=SETTINGS)
    gone = 0
    while not stop.is_set():
        shown = memory.prune_memory(WORKSPACE, strategy="all")
        memory.prune_memory(
            WORKSPACE, dry_run=False, confirm=True, strategy="all", plan_id=shown.plan_id
        )
        gone += len(memory.purge(workspace_id=WORKSPACE).gone)
    return gone


def assert_sound(new_store: NewStore, root: Path) -> None:
    """Check that the graph is consistent, and that one more run makes it equal to a clean index."""
    assert holds_together(items_of(lambda: new_store("graph")))
    index(lambda: new_store("graph"), root, max_shrink=1.0)
    index(lambda: new_store("clean"), root)
    ours = items_of(lambda: new_store("graph"))
    assert live(ours) == live(items_of(lambda: new_store("clean")))


def test_a_pruner_beside_an_indexer_takes_nothing_that_is_live(
    new_store: NewStore, root: Path, tmp_path: Path
) -> None:
    one, two = new_store("graph"), new_store("graph")
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pruning = pool.submit(prune_again_and_again, two, tmp_path / "backups", stop)
        try:
            index_again_and_again(one, root)
        finally:
            stop.set()
    one.close()
    two.close()
    assert pruning.result() > 0, "the pruner never had anything to prune"
    assert_sound(new_store, root)


def test_two_indexers_at_once_take_turns_and_corrupt_nothing(
    new_store: NewStore, root: Path
) -> None:
    one, two = new_store("graph"), new_store("graph")
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(index_again_and_again, store, root) for store in (one, two)]
    for run in runs:
        run.result()
    one.close()
    two.close()
    assert_sound(new_store, root)


def test_an_indexer_that_will_not_wait_is_refused_and_says_who_has_it(
    new_store: NewStore, root: Path
) -> None:
    store = new_store("graph")
    late = index_codebase(
        root, store=store, workspace_id=WORKSPACE, wait_seconds=0, reader=Inline()
    )
    with (
        hold(store, WORKSPACE, indexer.PURPOSE),
        pytest.raises(StoreBusy, match="is held for indexing by process"),
    ):
        asyncio.run(late)
    assert store.runs(WORKSPACE) == ()
    store.close()
