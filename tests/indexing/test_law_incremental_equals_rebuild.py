"""After any change of a tree, an incremental index equals a clean one."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from marksweep.indexing import delta, indexer
from marksweep.indexing.report import Progress
from marksweep.indexing.selection import Selection
from marksweep.stores.graph.base import GraphStore, Item
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.nouns import Alias, Chunk, Entity, Memory, Mention, Relation
from tests.graph.servers import network_server
from tests.indexing.trees import (
    WORKSPACE,
    Graph,
    OpenStore,
    index,
    items_of,
    live,
    sqlite_at,
    stale_paths,
)

FOLDERS = ("", "src/", "src/sub/", "tests/")
FILES = ("a.py", "b.py", "c.js", "d.go", "notes.md")
PATHS = st.sampled_from([folder + name for folder in FOLDERS for name in FILES])
"""Few paths, so that steps affect the same files."""

CONTENTS = st.sampled_from(
    [
        "",
        "def f(): g()\n",
        "def f(): h()\n",
        "def g(): f()\n",
        "class A:\n    def f(self): self.g()\n    def g(self): h()\n",
        "class A:\n    def f(self): pass\n",
        "import os\nimport b\n\ndef h():\n    os.f()\n",
        "function f() { g() }\nclass A { g() { f() } }\n",
        'package p\nimport "os"\nfunc f() { g() }\n',
        "f and g and A\n\nmore\n",
        b"binary \0 content\n".decode(),
    ]
)
"""Contents that share names, some of the same size: edges and entities belong to several files."""

RULES = st.sampled_from(
    ["", "*.py\n", "src/\n", "!a.py\nb.*\n", "/a.py\nsub/\n", "*\n!.gitignore\n"]
)
IGNORE_FILES = st.sampled_from([".gitignore", "src/.gitignore"])

SELECTIONS = st.sampled_from(
    [
        Selection(),
        Selection(),
        Selection.of(["python"]),
        Selection.of(["javascript", "go"]),
        Selection.of(include_tests=False),
        Selection.of(["python"], include_tests=False),
    ]
)

TICK_NS = 20_000_000
"""Longer than a tick of the disk's clock; with the real limit no file would be trusted."""


class Tree(RuleBasedStateMachine):
    """A repository that is changed and indexed, compared with a clean index of every state."""

    kept: OpenStore
    clean: OpenStore

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.root = self.folder / "root"
        self.root.mkdir()
        self.before: dict[str, str] = {}
        """What each path held before its last change."""
        self.numbers = itertools.count()
        self.kept = self.new_store()
        self.selection = Selection()
        self.wait = 0
        """Steps left before the next run."""

    def new_store(self) -> OpenStore:
        return sqlite_at(self.folder / f"{next(self.numbers)}.db")

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def files(self) -> list[str]:
        return sorted(
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob("*")
            if path.is_file() and path.name != ".gitignore"
        )

    def pick(self, number: int) -> str | None:
        files = self.files()
        return files[number % len(files)] if files else None

    def put(self, path: str, content: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        self.before[path] = file.read_text() if file.exists() else content
        file.write_text(content)

    @rule(path=PATHS, content=CONTENTS)
    def create_or_edit(self, path: str, content: str) -> None:
        self.put(path, content)

    @rule(number=st.integers(0, 50), content=CONTENTS)
    def edit(self, number: int, content: str) -> None:
        if path := self.pick(number):
            self.put(path, content)

    @rule(number=st.integers(0, 50))
    def delete(self, number: int) -> None:
        if path := self.pick(number):
            self.before[path] = (self.root / path).read_text()
            (self.root / path).unlink()

    @rule(number=st.integers(0, 50), to=PATHS)
    def rename_also_to_another_language(self, number: int, to: str) -> None:
        if path := self.pick(number):
            (self.root / to).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).rename(self.root / to)

    @rule(number=st.integers(0, 50), to=PATHS)
    def copy_with_its_time(self, number: int, to: str) -> None:
        path = self.pick(number)
        if path and path != to:
            (self.root / to).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.root / path, self.root / to)

    @rule(one=st.integers(0, 50), other=st.integers(0, 50))
    def swap(self, one: int, other: int) -> None:
        first, second = self.pick(one), self.pick(other)
        if first and second and first != second:
            spare = self.folder / "spare"
            (self.root / first).rename(spare)
            (self.root / second).rename(self.root / first)
            spare.rename(self.root / second)

    @rule(number=st.integers(0, 50))
    def revert(self, number: int) -> None:
        if self.before:
            path = sorted(self.before)[number % len(self.before)]
            self.put(path, self.before[path])

    @rule(number=st.integers(0, 50), at=st.sampled_from([1, 2]))
    def set_the_time(self, number: int, at: int) -> None:
        if path := self.pick(number):
            os.utime(self.root / path, (at, at))

    @rule(at=st.sampled_from([1, 2]))
    def set_every_time(self, at: int) -> None:
        for path in self.files():
            os.utime(self.root / path, (at, at))

    @rule(path=IGNORE_FILES, rules=RULES)
    def change_what_is_ignored(self, path: str, rules: str) -> None:
        self.put(path, rules)
        if not rules:
            (self.root / path).unlink()

    @rule(source=st.sampled_from(["src", "src/sub"]), to=st.sampled_from(["lib", "src2/x"]))
    def move_a_folder(self, source: str, to: str) -> None:
        if (self.root / source).is_dir() and not (self.root / to).exists():
            (self.root / to).parent.mkdir(parents=True, exist_ok=True)
            (self.root / source).rename(self.root / to)

    @rule()
    def let_time_pass(self) -> None:
        time.sleep(2 * TICK_NS / 1e9)

    @rule()
    def purge_what_is_stale(self) -> None:
        items = items_of(self.kept)
        stale = [item.memory_id for item in items if isinstance(item, Memory) and item.stale]
        on_store(self.kept, lambda store: store.remove(WORKSPACE, stale))
        assert holds_together(items_of(self.kept))

    @rule(keep=st.integers(0, 50), gone=st.integers(0, 50))
    def merge_two_names(self, keep: int, gone: int) -> None:
        """From now on a clean index starts with the same aliases."""
        entities = sorted(i.entity_id for i in items_of(self.kept) if isinstance(i, Entity))
        if entities:
            kept, merged = entities[keep % len(entities)], entities[gone % len(entities)]
            on_store(self.kept, lambda store: store.merge(WORKSPACE, kept, [merged]))

    @rule(selection=SELECTIONS)
    def look_at_other_files(self, selection: Selection) -> None:
        self.selection = selection

    @rule(steps=st.integers(1, 4))
    def change_more_before_the_next_run(self, steps: int) -> None:
        self.wait = steps

    @rule(after=st.integers(1, 3))
    def interrupt_a_run(self, after: int) -> None:
        def interrupt(progress: Progress) -> None:
            if progress.done >= after:
                raise Interrupted

        stale = stale_paths(self.kept)
        with suppress(Interrupted):
            self.run(self.kept, self.selection, interrupt)
            return
        assert set(stale_paths(self.kept)) <= set(stale)

    @invariant()
    def the_index_of_what_changed_equals_a_clean_one(self) -> None:
        if self.wait:
            self.wait -= 1
            return
        takes = self.selection.takes

        def outside(items: list[Item]) -> Graph:
            return live(items, lambda path: not takes(path))

        before = items_of(self.kept)
        self.run(self.kept, self.selection)
        after = items_of(self.kept)
        assert holds_together(after)
        assert live(after, takes) == self.rebuilt([i for i in after if isinstance(i, Alias)])
        assert outside(after) == outside(before)

    def run(
        self,
        store: OpenStore,
        selection: Selection,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        index(
            store,
            self.root,
            languages=selection.languages,
            include_tests=selection.include_tests,
            max_shrink=1.0,
            progress=progress,
        )

    def rebuilt(self, aliases: list[Alias]) -> Graph:
        clean = self.new_store()
        if aliases:
            on_store(clean, lambda store: store.load(WORKSPACE, aliases))
        self.run(clean, self.selection)
        items = items_of(clean)
        assert live(items) == everything(items)
        return live(items)


class Interrupted(Exception):
    pass


def on_store(open_store: OpenStore, work: Callable[[GraphStore], object]) -> None:
    store = open_store()
    try:
        work(store)
    finally:
        store.close()


def everything(items: list[Item]) -> Graph:
    """Return all rows, so that the filter of `live` hides nothing."""
    return Graph(
        live(items).memories,
        frozenset(item for item in items if isinstance(item, Chunk)),
        frozenset(item for item in items if isinstance(item, Entity)),
        frozenset(item for item in items if isinstance(item, Mention)),
        frozenset(item for item in items if isinstance(item, Relation)),
    )


def holds_together(items: list[Item]) -> bool:
    """Check that every edge has both ends, and every node the edge that keeps it."""
    graph = everything(items)
    memories = {item.memory_id for item in items if isinstance(item, Memory)}
    chunks = {chunk.chunk_id for chunk in graph.chunks}
    entities = {entity.entity_id for entity in graph.entities}
    return (
        {chunk.memory_id for chunk in graph.chunks} <= memories
        and {mention.chunk_id for mention in graph.mentions} <= chunks
        and {mention.entity_id for mention in graph.mentions} == entities
        and {end for r in graph.relations for end in (r.source_id, r.target_id)} <= entities
        and {relation.memory_id for relation in graph.relations} <= memories
    )


def checked(machine: type[Tree], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture(autouse=True)
def short_ticks_and_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "RACY_NS", TICK_NS)
    monkeypatch.setattr(indexer, "BATCH_FILES", 1)


def test_incremental_equals_rebuild_on_sqlite() -> None:
    checked(Tree, examples=30, steps=14)


@pytest.fixture
def falkor_url(tmp_path: Path) -> Iterator[str]:
    with network_server(tmp_path) as url:
        yield url


def test_incremental_equals_rebuild_on_falkordb(falkor_url: str) -> None:
    graphs = itertools.count()

    class OnFalkor(Tree):
        def new_store(self) -> OpenStore:
            prefix = f"law{next(graphs)}:"

            def opened() -> GraphStore:
                return FalkorGraphStore(falkor_url, prefix=prefix)

            return opened

    checked(OnFalkor, examples=8, steps=10)
