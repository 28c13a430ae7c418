"""No operation in one workspace changes a row or a count in another: as a property."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marksweep.stores.graph.base import GraphStore, Nodes, Run, Seen
from marksweep.stores.graph.nouns import Chunk, Memory, entity_id
from tests.graph.graph_contract import OpenStore, everything
from tests.graph.graphs import file, later, note
from tests.graph.memories import World, sqlite_graphs
from tests.graph.servers import fresh_graphs

WORKSPACES = ("one", "two", 'it\'s "three"')

names = st.sampled_from(["a", "b", "c"])
Operation = Callable[[World, str, Nodes], object]


def put(world: World, workspace_id: str, nodes: Nodes) -> object:
    record = file(workspace_id, "new.py", {"new": ["a"]})
    world.graph.put(workspace_id, [record])
    return record


def remove(world: World, workspace_id: str, nodes: Nodes) -> object:
    return world.graph.remove(workspace_id, nodes.memories)


def pin(world: World, workspace_id: str, nodes: Nodes) -> object:
    return world.graph.pin(workspace_id, nodes.memories, "x")


def touch(world: World, workspace_id: str, nodes: Nodes) -> object:
    return world.graph.touch(workspace_id, nodes.memories, later(days=3))


def stale(world: World, workspace_id: str, nodes: Nodes) -> object:
    return world.graph.mark_stale(workspace_id, nodes.memories)


def run(world: World, workspace_id: str, nodes: Nodes) -> object:
    world.graph.begin_run(workspace_id, Run("r", "/repo", "", later()))
    seen = [Seen(each, 1, 1) for each in nodes.memories[:1]]
    world.graph.stamp(workspace_id, "r", seen, later(days=1))
    return world.graph.finish_run(workspace_id, "r", nodes.memories, later(days=1))


def delete(world: World, workspace_id: str, nodes: Nodes) -> object:
    return world.graph.soft_delete(workspace_id, nodes, version=10**6, plan_id="p", at=later())


def restore(world: World, workspace_id: str, nodes: Nodes) -> object:
    return world.graph.restore(workspace_id, nodes)


def purge(world: World, workspace_id: str, nodes: Nodes) -> object:
    return world.graph.purge(workspace_id, nodes, before=later(days=9))


def merge(world: World, workspace_id: str, nodes: Nodes) -> object:
    every = nodes.entities
    return world.graph.merge(workspace_id, every[0], every[1:]) if every else None


def prune(world: World, workspace_id: str, nodes: Nodes) -> object:
    return world.memory.prune_memory(workspace_id, dry_run=False, confirm=True, strategy="all")


def final(world: World, workspace_id: str, nodes: Nodes) -> object:
    world.clock.wait(days=9)
    return world.memory.purge(workspace_id=workspace_id)


OPERATIONS: list[Operation] = [
    put, remove, pin, touch, stale, run, delete, restore, purge, merge, prune, final,
]  # fmt: skip

operations = st.lists(
    st.tuples(st.sampled_from(WORKSPACES), st.sampled_from(OPERATIONS)), min_size=1, max_size=8
)


def every_node(store: GraphStore) -> Nodes:
    """Return the nodes of all workspaces: operations get the ids of others too."""
    found = [(w, item) for w in WORKSPACES for item in everything(store, w)]
    memories = tuple(item.memory_id for _, item in found if isinstance(item, Memory))
    entities = tuple(entity_id(w, "function", name) for w in WORKSPACES for name in "abc")
    chunks = tuple(item.chunk_id for _, item in found if isinstance(item, Chunk))
    return Nodes(memories, chunks, entities)


class IsolationContract:
    def check(self, open_store: OpenStore, steps: list[tuple[str, Operation]]) -> None:
        def body(folder: str) -> None:
            with open_store() as store:
                world = World(store, Path(folder))
                for w in WORKSPACES:
                    code = file(w, "a.py", {"a": ["b"], "c": []})
                    store.put(w, [code, note(w, "same", mentions=("a",))])
                for workspace_id, operation in steps:
                    others = [w for w in WORKSPACES if w != workspace_id]
                    before = [state(store, w) for w in others]
                    operation(world, workspace_id, every_node(store))
                    assert [state(store, w) for w in others] == before, operation.__name__

        def state(store: GraphStore, w: str) -> object:
            return everything(store, w), store.counts(w), store.version(w)

        with tempfile.TemporaryDirectory() as folder:
            body(folder)


class TestIsolationOnSqlite(IsolationContract):
    @given(steps=operations)
    @settings(max_examples=25, deadline=None)
    def test_no_operation_reaches_another_workspace(
        self, steps: list[tuple[str, Operation]]
    ) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.check(sqlite_graphs(Path(folder) / "graph.db"), steps)


class TestIsolationOnFalkor(IsolationContract):
    @given(steps=operations)
    @settings(
        max_examples=5,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    def test_no_operation_reaches_another_workspace(
        self, falkor_url: str, steps: list[tuple[str, Operation]]
    ) -> None:
        self.check(fresh_graphs(falkor_url), steps)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_every_operation_changes_its_own_workspace(operation: Operation, tmp_path: Path) -> None:
    """Guard the property above: an operation that does nothing would prove nothing."""

    with sqlite_graphs(tmp_path / "graph.db")() as store:
        world = World(store, tmp_path / "backups")
        store.put("one", [file("one", "a.py", {"a": ["b"], "c": []})])
        nodes = every_node(store)
        if operation in (prune, final):
            stale(world, "one", nodes)
        if operation in (restore, purge):
            delete(world, "one", nodes)
        if operation is final:
            prune(world, "one", nodes)
        before = everything(store, "one")
        operation(world, "one", nodes)
        assert everything(store, "one") != before
