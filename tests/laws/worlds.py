"""Random heaps behind one interface, so that a law is written once and runs on all of them.

A world is a face (`Segments`, `Conversation`, `KnowledgeGraph`) on a real store, filled at random.
Its content, sizes and units are counted on what the face returns or on what the store holds, not
taken from the collector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Protocol

from marksweep.collector import Collector
from marksweep.core.heap import Heap
from marksweep.core.plan import plan_from
from marksweep.dialects import validate
from marksweep.graph.memory import KnowledgeGraph
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import GraphRules
from marksweep.model import Hold, Plan, Segment
from marksweep.segments import Segments
from marksweep.stores.base import Journal
from marksweep.stores.graph.nouns import Chunk, Entity, Memory, Mention
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.memory import MemoryStore
from marksweep.testing.builders import NOW, Clock
from tests.graph.graph_contract import everything
from tests.graph.graphs import file, note
from tests.laws.talking import Raws, another, conversation, raws, weigh


class World(Protocol):
    """A random heap, and what can be seen of it from outside."""

    def open(self) -> tuple[Heap, Journal]:
        """Reopen it, as another program would."""
        ...

    def plan(self, target: int, random: Random) -> Plan:
        """Plan down to a size, with some strategy of its face."""
        ...

    def content(self) -> object:
        """Return all that is live, for comparison."""
        ...

    def size(self) -> int:
        """Count the live content in the heap's unit."""
        ...

    def held(self) -> Mapping[str, object]:
        """Map the id of what must stay to its content."""
        ...

    def problems(self) -> Sequence[str]:
        """List what a provider or a reader would reject: invalid histories, split units."""
        ...


class SegmentsWorld:
    """A working set with pairs, pins and locks."""

    def __init__(self, segments: list[Segment]) -> None:
        self._store = MemoryStore()
        self._face = Segments(self._store, limit=10**9, clock=Clock(), count_tokens=len)
        self._face.add(*segments)

    def open(self) -> tuple[Heap, Journal]:
        self._face = Segments(self._store, limit=10**9, clock=Clock(), count_tokens=len)
        return self._face._heap, self._store.journal

    def plan(self, target: int, random: Random) -> Plan:
        strategy = random.choice([None, "garbage"])
        return self._face.plan(target_tokens=target, strategy=strategy)

    def content(self) -> object:
        return [(s.segment_id, s.text, s.tokens, s.references) for s in self._face.list()]

    def size(self) -> int:
        return sum(segment.tokens for segment in self._face.list())

    def held(self) -> Mapping[str, object]:
        return {
            segment.segment_id: (segment.text, segment.tokens)
            for segment in self._face.list()
            if segment.pinned or segment.policy == "LOCKED"
        }

    def problems(self) -> Sequence[str]:
        live = {segment.segment_id for segment in self._face.list()}
        stashed = {hit.found.segment.segment_id for hit in self._face.search_stash(limit=100)}
        return [
            f"{segment.segment_id} without its pair {reference.target}"
            for segment in self._face.list()
            for reference in segment.references
            if reference.hold is Hold.PAIRED
            and reference.target in stashed
            and reference.target not in live
        ]


class ConversationWorld:
    """A history in a provider's format, with a pin."""

    def __init__(self, messages: Raws, dialect: str) -> None:
        self._store = MemoryStore()
        self._dialect = dialect
        self.open()
        names = self._face.extend(messages)
        if len(names) > 2:
            self._face.pin(names[2])

    def open(self) -> tuple[Heap, Journal]:
        self._face = conversation(self._dialect, "coverage", store=self._store)
        return self._face._heap, self._store.journal

    def plan(self, target: int, random: Random) -> Plan:
        name = random.choice(["coverage", "superseded", "summarize", "truncate", "mask all"])
        return self._face.plan(target, strategy=another(self._face, name))

    def content(self) -> object:
        return raws(self._face)

    def size(self) -> int:
        return sum(map(weigh, self._face.history))

    def held(self) -> Mapping[str, object]:
        live = self._store.segments.changes("conversation").put
        return {segment.segment_id: segment.raw for segment in live if segment.pinned}

    def problems(self) -> Sequence[str]:
        return [str(problem) for problem in validate(raws(self._face), self._dialect)]


class GraphWorld:
    """A graph in a SQLite file: files and notes, some stale, some pinned, that share entities."""

    def __init__(self, folder: Path, random: Random) -> None:
        self._graph = SqliteGraphStore(folder / "graph.db")
        self._store = MemoryStore()
        names = [f"f{n}" for n in range(12)]
        files = [
            file("w", f"{n}.py", {f"f{n}": random.sample(names, random.randrange(4)), f"g{n}": []})
            for n in range(random.randrange(1, 10))
        ]
        notes = [note("w", f"note {n}", mentions=random.sample(names, 2)) for n in range(3)]
        self._graph.put("w", [*files, *notes])
        ids = [record.memory.memory_id for record in files]
        self._graph.mark_stale("w", random.sample(ids, random.randrange(len(ids) + 1)))
        self._graph.pin("w", random.sample(ids, random.randrange(min(3, len(ids) + 1))), "ann")
        self._backups = folder

    def close(self) -> None:
        self._graph.close()

    def open(self) -> tuple[Heap, Journal]:
        self._face = KnowledgeGraph(self._graph, self._store, backups=self._backups, clock=Clock())
        self._heap = self._face.heap("w")
        return self._heap, self._store.journal

    def plan(self, target: int, random: Random) -> Plan:
        strategy = random.choice([*PruneStrategy])
        context = self._heap.context(GraphRules(), NOW)
        context.target = target
        return plan_from(context, strategy, strategy.rank(context))

    def content(self) -> object:
        return [item for item in self._nodes() if item.deleted_at is None]

    def _nodes(self) -> list[Memory | Chunk | Entity]:
        items = everything(self._graph, "w")
        return [item for item in items if isinstance(item, Memory | Chunk | Entity)]

    def size(self) -> int:
        return sum(item.deleted_at is None for item in self._nodes())

    def held(self) -> Mapping[str, object]:
        return {
            item.memory_id: item
            for item in self._nodes()
            if isinstance(item, Memory) and item.pinned
        }

    def problems(self) -> Sequence[str]:
        items = everything(self._graph, "w")
        hidden = {_name(item) for item in self._nodes() if item.deleted_at is not None}
        return [
            f"{item.chunk_id} without its memory"
            for item in items
            if isinstance(item, Chunk) and (item.chunk_id in hidden) != (item.memory_id in hidden)
        ] + [
            f"{item.chunk_id} mentions the deleted {item.entity_id}"
            for item in items
            if isinstance(item, Mention)
            and item.chunk_id not in hidden
            and item.entity_id in hidden
        ]


def _name(item: Memory | Chunk | Entity) -> str:
    if isinstance(item, Memory):
        return item.memory_id
    return item.chunk_id if isinstance(item, Chunk) else item.entity_id


def collector_on(world: World) -> tuple[Heap, Collector]:
    """Open a world with a collector that has recovered interrupted operations."""
    heap, journal = world.open()
    collector = Collector(heap, journal)
    collector.recover(now=NOW)
    return heap, collector
