"""The knowledge graph passes the contract of heaps, on real stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from marksweep.core.heap import Heap
from marksweep.core.plan import plan_from
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import GRACE, GraphHeap, GraphRules
from marksweep.model import Plan
from marksweep.stores.base import Journal
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.nouns import Chunk, Entity, Memory, Mention
from marksweep.stores.open import open_store
from marksweep.testing.builders import NOW
from marksweep.testing.contracts.heap import HeapContract, NewPlace, nothing_happens
from marksweep.testing.faults import FaultyStore
from tests.graph.graph_contract import OpenStore, everything
from tests.graph.graphs import file
from tests.graph.memories import sqlite_graphs
from tests.graph.servers import fresh_graphs

WRITES = frozenset({"soft_delete", "restore", "purge", "merge", "put", "remove", "load"})


class FaultyGraph:
    """A graph store that calls a hook before and after every write."""

    def __init__(self, store: GraphStore, moment: Callable[[], None]) -> None:
        self._store = store
        self._moment = moment

    def __getattr__(self, name: str) -> object:
        method: Callable[..., object] = getattr(self._store, name)
        if name not in WRITES:
            return method

        def call(*args: object, **kwargs: object) -> object:
            self._moment()
            done = method(*args, **kwargs)
            self._moment()
            return done

        return call


class GraphPlace:
    """A workspace with stale files that share entities with each other and with a live one."""

    grace: timedelta = GRACE

    def __init__(self, graph: GraphStore, journal: Path) -> None:
        self._graph = graph
        self._store = open_store(journal)
        self.close = self._store.close
        stale = [
            file("w", f"{n}.py", {f"f{n}": ["shared", f"only{n}"], f"g{n}": []}) for n in range(6)
        ]
        graph.put("w", [*stale, file("w", "live.py", {"live": ["shared"]})])
        graph.mark_stale("w", [record.memory.memory_id for record in stale])

    def open(self, moment: Callable[[], None] = nothing_happens) -> tuple[Heap, Journal]:
        heap = GraphHeap(FaultyGraph(self._graph, moment), "w")  # type: ignore[arg-type]
        return heap, FaultyStore(self._store, moment).journal

    def plan(self, heap: Heap) -> Plan:
        """Plan two files with what only they mention."""
        assert isinstance(heap, GraphHeap)
        context = heap.context(GraphRules(), NOW)
        stale = tuple(PruneStrategy.STALE_CODE.rank(context))
        return plan_from(context, "two files", stale[:2])

    def deletion(self, heap: Heap) -> Plan:
        """Plan all that is stale, with its entities."""
        assert isinstance(heap, GraphHeap)
        context = heap.context(GraphRules(), NOW)
        return plan_from(context, PruneStrategy.ALL, PruneStrategy.ALL.rank(context))

    def content(self) -> object:
        nodes = [i for i in everything(self._graph, "w") if isinstance(i, Memory | Chunk | Entity)]
        return [node for node in nodes if node.deleted_at is None]

    def problems(self) -> list[str]:
        """List chunks without their memory, memories without chunks, hidden mentions."""
        items = everything(self._graph, "w")
        hidden = {
            name
            for item in items
            if isinstance(item, Memory | Chunk | Entity) and item.deleted_at is not None
            for name in _ids(item)
        }
        split = [
            f"{item.chunk_id} and its memory {item.memory_id} are not both visible"
            for item in items
            if isinstance(item, Chunk) and (item.chunk_id in hidden) != (item.memory_id in hidden)
        ]
        hanging = [
            f"{item.chunk_id} mentions the hidden {item.entity_id}"
            for item in items
            if isinstance(item, Mention)
            and item.chunk_id not in hidden
            and item.entity_id in hidden
        ]
        return [*split, *hanging]


def _ids(item: Memory | Chunk | Entity) -> tuple[str, ...]:
    if isinstance(item, Memory):
        return (item.memory_id,)
    return (item.chunk_id,) if isinstance(item, Chunk) else (item.entity_id,)


class GraphContract(HeapContract):
    """The contract, on whatever store `new_graphs` opens."""

    @pytest.fixture
    def new_place(
        self, new_graphs: Callable[[int], OpenStore], tmp_path: Path
    ) -> Iterator[NewPlace]:
        numbers = count()
        with ExitStack() as places:

            def made() -> GraphPlace:
                number = next(numbers)
                graph = places.enter_context(new_graphs(number)())
                place = GraphPlace(graph, tmp_path / f"journal{number}.db")
                places.callback(place.close)
                return place

            yield made


class TestGraphOnSqlite(GraphContract):
    @pytest.fixture
    def new_graphs(self, tmp_path: Path) -> Callable[[int], OpenStore]:
        return lambda number: sqlite_graphs(tmp_path / f"graph{number}.db")


class TestGraphOnFalkor(GraphContract):
    @pytest.fixture
    def new_graphs(self, falkor_url: str) -> Callable[[int], OpenStore]:
        return lambda _: fresh_graphs(falkor_url)
