"""Roots inside roots, roots that vanish or move: a file is one memory, a missing one garbage."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from marksweep.errors import NotFound, Refused
from marksweep.graph.memory import KnowledgeGraph
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import planned
from marksweep.indexing.readers import Inline, Reading, Source
from marksweep.stores.graph.base import GraphQuery, GraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.memory import MemoryStore
from tests.graph.memories import Clock
from tests.indexing.trees import WORKSPACE, index, write


class Disk:
    """A folder with trees, and the graph indexed from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.graph = self._open()
        self.memory = KnowledgeGraph(
            self.graph, MemoryStore(), backups=folder / "backups", clock=self.clock
        )

    def _open(self) -> GraphStore:
        return SqliteGraphStore(self.folder / "graph.db")

    def index(self, name: str, **options: object) -> int:
        report = index(self._open, self.folder / name, now=self.clock(), **options)
        assert report.path == str(self.folder / name)
        return report.files

    def found(self, words: str) -> list[tuple[str, str]]:
        hits = self.graph.search(WORKSPACE, GraphQuery(words=words))
        return [(Path(hit.memory.repository).name, hit.memory.relative_path) for hit in hits]

    def names(self) -> list[tuple[str, int, int]]:
        roots = self.memory.roots(workspace_id=WORKSPACE)
        return [(Path(root.path).name, root.files, root.stale) for root in roots]

    def pin(self, words: str) -> None:
        (hit,) = self.graph.search(WORKSPACE, GraphQuery(words=words))
        self.graph.pin(WORKSPACE, [hit.memory.memory_id], "me")

    def pinned(self, words: str) -> bool:
        (hit,) = self.graph.search(WORKSPACE, GraphQuery(words=words))
        return hit.memory.pinned

    def stale(self) -> set[str]:
        plan = self.memory.plan(WORKSPACE, PruneStrategy.STALE_CODE).plan
        records = self.graph.fetch(WORKSPACE, planned(plan).memories)
        return {record.memory.relative_path for record in records}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    write(tmp_path, "shop/main.py", "def startup():\n    pass\n")
    write(tmp_path, "shop/cart/cart.py", "def basket():\n    pass\n")
    write(tmp_path, "shop/cart/price.py", "def quote():\n    pass\n")
    yield made
    made.memory.close()


def test_a_folder_inside_a_root_is_a_part_of_it(disk: Disk) -> None:
    disk.index("shop")
    write(disk.folder, "shop/cart/price.py", "def bargain():\n    pass\n")
    (disk.folder / "shop/cart/cart.py").unlink()
    assert disk.index("shop/cart") == 1
    assert disk.names() == [("shop", 3, 1)]
    assert disk.found("bargain") == [("shop", "cart/price.py")]
    assert disk.found("basket") == []
    assert disk.found("startup") == [("shop", "main.py")]


def test_a_root_around_another_takes_its_files_over(disk: Disk) -> None:
    disk.index("shop/cart")
    disk.pin("basket")
    (disk.folder / "shop/cart/price.py").unlink()
    disk.index("shop")
    assert disk.found("basket") == [("shop", "cart/cart.py")]
    assert disk.pinned("basket")
    assert disk.names() == [("shop", 2, 0), ("cart", 1, 1)]
    assert disk.stale() == {"price.py"}
    assert disk.index("shop/cart") == 0


def test_a_folder_that_the_root_around_it_ignores_stays_a_root(disk: Disk) -> None:
    write(disk.folder, "shop/.gitignore", "cart/\n")
    disk.index("shop/cart")
    disk.index("shop")
    disk.index("shop/cart")
    assert disk.names() == [("shop", 2, 0), ("cart", 2, 0)]
    assert disk.stale() == set()


def test_a_folder_that_the_root_around_it_ignores_from_now_on_becomes_a_root(disk: Disk) -> None:
    disk.index("shop")
    disk.pin("basket")
    write(disk.folder, "shop/.gitignore", "cart/\n")
    disk.index("shop/cart")
    assert disk.found("basket") == [("cart", "cart.py")]
    assert disk.pinned("basket")
    disk.index("shop")
    assert disk.found("basket") == [("cart", "cart.py")]


def test_a_folder_that_was_ignored_for_a_while_is_one_memory_per_file(disk: Disk) -> None:
    disk.index("shop")
    write(disk.folder, "shop/.gitignore", "cart/\n")
    disk.index("shop")
    assert disk.found("basket") == []
    disk.index("shop/cart")
    (disk.folder / "shop/.gitignore").unlink()
    disk.index("shop")
    assert disk.found("basket") == [("shop", "cart/cart.py")]


def test_the_ignore_files_of_a_root_apply_to_a_folder_that_is_a_part_of_it(disk: Disk) -> None:
    write(disk.folder, "shop/.gitignore", "*.log\n")
    write(disk.folder, "shop/cart/requests.log", "a request came\n")
    disk.index("shop")
    assert disk.index("shop/cart") == 0
    assert disk.found("request") == []


def test_a_folder_of_a_root_that_lost_its_files_is_refused_by_its_own_name(disk: Disk) -> None:
    for n in range(20):
        write(disk.folder, f"shop/cart/f{n}.py", f"x = {n}\n")
    disk.index("shop")
    write(disk.folder, "shop/cart/.gitignore", "*.py\n")
    named = rf"'{disk.folder}/shop/cart' no longer has 22 of the 22 files .* no ignore file hides"
    with pytest.raises(Refused, match=named):
        disk.index("shop/cart")


def test_a_folder_of_a_root_that_cannot_be_listed_hides_its_files(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.index("shop")
    closed = str(disk.folder / "shop/cart")
    listing = os.scandir

    def scandir(path: Path) -> Iterator[os.DirEntry[str]]:
        if os.path.normpath(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied")
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = index(disk._open, disk.folder / "shop/cart")
    assert [(each.path, each.reason) for each in report.skipped] == [(".", "permission denied")]
    assert disk.found("basket") == [("shop", "cart/cart.py")]


def test_a_root_around_another_leaves_what_its_filter_leaves_out(disk: Disk) -> None:
    write(disk.folder, "shop/cart/cart.go", "package cart\n")
    disk.index("shop/cart")
    disk.index("shop", languages=["go"])
    assert disk.found("package") == [("shop", "cart/cart.go")]
    assert disk.found("quote") == [("cart", "price.py")]
    disk.index("shop")
    assert disk.found("quote") == [("shop", "cart/price.py")]


def test_a_root_around_another_leaves_what_it_cannot_read_for_now(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.index("shop/cart")
    opening = os.open

    def refuse(path: Path, *args: int) -> int:
        if Path(path).name == "price.py":
            raise PermissionError(errno.EACCES, "Permission denied")
        return opening(path, *args)

    monkeypatch.setattr(os, "open", refuse)
    disk.index("shop")
    assert disk.found("quote") == [("cart", "price.py")]


def test_a_root_with_an_explicit_name_is_never_part_of_another(disk: Disk) -> None:
    disk.index("shop")
    disk.index("shop/cart", repository="cart")
    assert [root.repository for root in disk.memory.roots(workspace_id=WORKSPACE)] == [
        str(disk.folder / "shop"),
        "cart",
    ]


def test_a_root_that_vanished_is_garbage_after_the_grace_period(disk: Disk) -> None:
    disk.index("shop")
    disk.pin("startup")
    shutil.rmtree(disk.folder / "shop")
    disk.clock.wait(days=30)
    assert disk.stale() == set(), "a month, but nobody has looked: the grace begins now"
    disk.clock.wait(days=6)
    assert disk.stale() == set()
    disk.clock.wait(days=2)
    assert disk.stale() == {"cart/cart.py", "cart/price.py"}
    preview = disk.memory.plan(WORKSPACE, PruneStrategy.ALL)
    assert "shop is gone since 2026-03-31 or longer" in preview.rows[0].reason
    (root,) = disk.memory.roots(workspace_id=WORKSPACE)
    assert not root.there
    assert root.last_seen_at == disk.clock() - timedelta(days=38)
    assert root.gone_since == disk.clock() - timedelta(days=8)


def test_a_root_that_cannot_be_examined_is_not_gone(disk: Disk) -> None:
    (disk.folder / "mount").mkdir()
    (disk.folder / "shop").rename(disk.folder / "mount/shop")
    disk.index("mount/shop")
    shutil.rmtree(disk.folder / "mount")
    (disk.folder / "mount").symlink_to("mount")
    assert disk.stale() == set()
    disk.clock.wait(days=30)
    assert disk.stale() == set(), "a path that fails may work again"
    (root,) = disk.memory.roots(workspace_id=WORKSPACE)
    assert root.there


def test_a_root_that_cannot_be_examined_keeps_its_files_beside_a_copy(disk: Disk) -> None:
    (disk.folder / "mount").mkdir()
    (disk.folder / "shop").rename(disk.folder / "mount/shop")
    disk.index("mount/shop")
    disk.pin("basket")
    (disk.folder / "mount/shop").rename(disk.folder / "copy")
    (disk.folder / "mount").rmdir()
    (disk.folder / "mount").symlink_to("mount")
    disk.index("copy")
    assert disk.names() == [("copy", 3, 0), ("shop", 3, 0)]
    assert [root.pinned for root in disk.memory.roots(workspace_id=WORKSPACE)] == [0, 1]


def test_a_root_that_was_back_in_between_gets_a_new_grace_period(disk: Disk) -> None:
    disk.index("shop")
    away = disk.folder / "away"
    (disk.folder / "shop").rename(away)
    (root,) = disk.memory.roots(workspace_id=WORKSPACE)
    assert root.gone_since == disk.clock()
    disk.clock.wait(days=5)
    away.rename(disk.folder / "shop")
    (root,) = disk.memory.roots(workspace_id=WORKSPACE)
    assert (root.there, root.gone_since) == (True, None)
    events = [entry.event.value for entry in disk.memory.history(workspace_id=WORKSPACE)]
    assert events == ["returned", "vanished"]
    (disk.folder / "shop").rename(away)
    disk.clock.wait(days=5)
    assert disk.stale() == set()
    disk.clock.wait(days=8)
    assert disk.stale() != set()


def test_a_root_of_another_machine_is_not_looked_for_here(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.index("shop")
    shutil.rmtree(disk.folder / "shop")
    disk.clock.wait(days=30)
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert disk.stale() == set()


def test_a_root_that_moved_keeps_its_pins(disk: Disk) -> None:
    disk.index("shop")
    disk.pin("basket")
    (disk.folder / "shop").rename(disk.folder / "store")
    write(disk.folder, "store/main.py", "def begin():\n    pass\n")
    disk.index("store")
    assert disk.found("basket") == [("store", "cart/cart.py")]
    assert disk.pinned("basket")
    assert sorted(disk.names()) == [("shop", 1, 0), ("store", 3, 0)], "which looks at them"
    disk.clock.wait(days=8)
    assert disk.stale() == {"main.py"}


def test_a_root_with_a_name_is_where_it_was_indexed_last(disk: Disk) -> None:
    disk.index("shop", repository="shop")
    disk.pin("basket")
    (disk.folder / "shop").rename(disk.folder / "store")
    (disk.folder / "store/cart/price.py").unlink()
    disk.clock.wait(days=1)
    disk.index("store", repository="shop")
    (root,) = disk.memory.roots(workspace_id=WORKSPACE)
    assert (root.path, root.there, root.stale) == (str(disk.folder / "store"), True, 1)
    (hit,) = disk.graph.search(WORKSPACE, GraphQuery(words="basket"))
    assert hit.memory.file_path == str(disk.folder / "store/cart/cart.py")
    assert hit.memory.pinned
    disk.clock.wait(days=30)
    assert disk.stale() == {"cart/price.py"}
    assert disk.index("store", repository="shop") == 0, "nothing is read again"


def test_a_file_imported_from_another_workspace_keeps_its_pin_when_it_changes(disk: Disk) -> None:
    disk.index("shop", workspace_id="other")
    (hit,) = disk.graph.search("other", GraphQuery(words="basket"))
    disk.graph.pin("other", [hit.memory.memory_id], "me")
    backup = disk.memory.export_backup(workspace_id="other")
    disk.memory.import_backup(backup.path, workspace_id=WORKSPACE)
    write(disk.folder, "shop/cart/cart.py", "def basket():\n    return 1\n")
    disk.index("shop")
    assert disk.names() == [("shop", 3, 0)]
    assert disk.pinned("basket")


def test_a_copy_of_a_root_that_is_there_shares_its_hits(disk: Disk) -> None:
    disk.index("shop")
    shutil.copytree(disk.folder / "shop", disk.folder / "worktree")
    write(disk.folder, "worktree/main.py", "def startup():\n    return 1\n")
    disk.index("worktree")
    assert len(disk.found("basket")) == 1
    assert {root for root, _ in disk.found("startup")} == {"shop", "worktree"}


class Counting(Inline):
    """A reader that counts the files it parses."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def read(self, source: Source) -> Reading:
        self.paths.append(source.memory.relative_path)
        return super().read(source)


def test_a_worktree_reuses_what_is_equal_and_is_dropped_alone(disk: Disk) -> None:
    disk.index("shop")
    shutil.copytree(disk.folder / "shop", disk.folder / "worktree")
    write(disk.folder, "worktree/main.py", "def startup():\n    return basket()\n")
    reader = Counting()
    assert disk.index("worktree", reader=reader) == 3
    assert reader.paths == ["main.py"]
    alone = Disk(disk.folder / "alone")
    index(alone._open, disk.folder / "worktree", now=disk.clock())
    mine = str(disk.folder / "worktree")
    ids = [row.memory_id for row in alone.graph.files(WORKSPACE, mine)]
    both = [
        [(r.chunks, r.entities, set(r.mentions), set(r.relations), r.memory.metadata) for r in some]
        for some in (disk.graph.fetch(WORKSPACE, ids), alone.graph.fetch(WORKSPACE, ids))
    ]
    assert both[0] == both[1]
    alone.memory.close()
    asked = disk.memory.call_graph("quote", workspace_id=WORKSPACE)
    assert [(each.file, each.line) for each in asked.definitions] == [("cart/price.py", 1)]
    gone = disk.memory.drop_root(disk.folder / "shop", workspace_id=WORKSPACE)
    assert disk.found("basket") == [("worktree", "cart/cart.py"), ("worktree", "main.py")]
    disk.clock.wait(days=30)
    disk.memory.purge(workspace_id=WORKSPACE)
    assert disk.found("quote") == [("worktree", "cart/price.py")]
    disk.index("shop", reader=reader)
    assert reader.paths == ["main.py", "main.py"]
    gone = disk.memory.drop_root(disk.folder / "worktree", workspace_id=WORKSPACE)
    assert disk.found("quote") == [("shop", "cart/price.py")]
    disk.memory.undo(gone.plan_id, workspace_id=WORKSPACE)
    assert len(disk.found("startup")) == 2


def test_a_root_is_dropped_and_can_be_restored(disk: Disk) -> None:
    disk.index("shop")
    for unknown in (disk.folder / "other", "no \0 path"):
        with pytest.raises(NotFound, match=r"the roots are: .*shop"):
            disk.memory.drop_root(unknown, workspace_id=WORKSPACE)
    gone = disk.memory.drop_root(disk.folder / "shop", workspace_id=WORKSPACE)
    assert len(gone.gone.memories) == 3
    assert disk.names() == []
    assert disk.found("basket") == []
    disk.memory.undo(gone.plan_id, workspace_id=WORKSPACE)
    assert disk.names() == [("shop", 3, 0)]
