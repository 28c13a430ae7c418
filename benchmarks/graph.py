"""Collecting and searching a large graph, on SQLite and on FalkorDB.

    python -m benchmarks.graph [--memories 100000] [--store SQLite] [--store FalkorDB]
    python -m benchmarks.graph --build FOLDER     build the graphs, or continue; measure later
    python -m benchmarks.graph --built FOLDER     measure graphs that were built, and consume them

A graph of memories with five chunks each, 10 % of the memories stale and 5 % of the chunks
orphaned. It is planned, deleted and purged while a reader fetches; the original design's queries
run for comparison. Bars are judged by processor time, ours and the server's, so that other
processes do not count; the wait of a reader is judged by the clock.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from benchmarks.rows import Row, print_rows
from marksweep.graph.memory import KnowledgeGraph
from marksweep.graph.pruning import MemorySettings
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import Limits
from marksweep.stores.graph.base import GraphQuery, GraphStore, Item, Nodes
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.nouns import CODE_INDEXER, Chunk, Entity, Kind, Memory, Mention
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.memory import MemoryStore

Result = TypeVar("Result")

NOW = datetime(2026, 6, 1, tzinfo=UTC)
CHUNKS = 5
STALE, ORPHANED = 0.10, 0.05
VOCABULARY = 20_000
WORDS = 40
BATCH = 4000

ORIGINAL_PLAN = (
    """MATCH (m:Memory) WHERE m.source = $source AND m.workspace_id = $workspace_id
AND m.stale = true OPTIONAL MATCH (m)-[:HAS_CHUNK]->(c:Chunk)
RETURN count(DISTINCT m) AS memory_count, count(DISTINCT c) AS chunk_count""",
    """MATCH (c:Chunk) WHERE c.workspace_id = $workspace_id
AND NOT (:Memory)-[:HAS_CHUNK]->(c)
RETURN c.id AS chunk_id, c.workspace_id AS workspace_id, size(c.text) AS text_length""",
    """MATCH (e:Entity) WHERE e.workspace_id = $workspace_id
AND NOT (:Chunk)-[:MENTIONS]->(e) AND NOT (e)-[:RELATED_TO]-(:Entity)
RETURN e.id AS entity_id, e.name AS name, e.type AS type""",
)
"""The original design's queries for what it would prune: stale, orphaned chunks, entities."""


def words(rng: random.Random, count: int) -> str:
    """Return words, few of them common and most of them rare, as in real text."""
    return " ".join(f"word{int(VOCABULARY * rng.random() ** 3)}" for _ in range(count))


def graph(memories: int) -> Iterator[list[Item]]:
    """Make the graph in batches of items."""
    rng = random.Random(7)
    entities = memories // 2
    batch: list[Item] = []
    for number in range(entities + entities // 20):
        batch.append(entity(number))
        if len(batch) >= BATCH:
            yield batch
            batch = []
    for number in range(memories):
        batch.append(
            Memory(
                memory_id=f"m{number}",
                workspace_id="bench",
                source=CODE_INDEXER,
                created_at=NOW - timedelta(minutes=number),
                repository="/repo",
                file_path=f"/repo/src/file{number}.py",
                relative_path=f"src/file{number}.py",
                language="python",
                lines=60,
                content_hash=f"{number:032x}",
                run="run-1",
                stale=number < memories * STALE,
                last_seen_at=NOW,
            )
        )
        for position in range(CHUNKS):
            batch += chunk(rng, f"c{number}-{position}", f"m{number}", position, entities)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    for number in range(int(memories * CHUNKS * ORPHANED)):
        batch += chunk(rng, f"o{number}", f"gone{number}", 0, entities)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    yield batch


def entity(number: int) -> Entity:
    return Entity(
        entity_id=f"e{number}", workspace_id="bench", name=f"symbol{number}", kind="function"
    )


def chunk(
    rng: random.Random, chunk_id: str, memory_id: str, position: int, entities: int
) -> list[Item]:
    made: list[Item] = [
        Chunk(
            chunk_id=chunk_id,
            workspace_id="bench",
            memory_id=memory_id,
            text=words(rng, WORDS),
            kind="function",
            symbol=f"symbol{position}",
            start_line=position * 12,
            end_line=position * 12 + 11,
            position=position,
        )
    ]
    return [*made, *(Mention(chunk_id, f"e{rng.randrange(entities)}") for _ in range(2))]


class Meter:
    """Processor time of this process and, if there is one, of the server."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store

    def read(self) -> float:
        """Read seconds of processor time."""
        ours = time.process_time()
        if not isinstance(self._store, FalkorGraphStore):
            return ours
        used = self._store.db.command("INFO", "cpu")
        assert isinstance(used, dict)
        return ours + float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def time(self, work: Callable[[], Result]) -> tuple[Result, float]:
        """Run work and return the processor time it took."""
        started = self.read()
        result = work()
        return result, self.read() - started


def bench(name: str, store: GraphStore, folder: Path) -> Iterator[Row]:
    """Measure a filled store."""
    meter = Meter(store)
    counts = store.counts("bench")
    chunks = f"{counts.chunks:,} chunks"
    p50, p95 = searches(store, meter)
    bar = "p50 ≤ 50 ms" if name == "SQLite" else "shown"
    measured = f"p50 {p50:.0f} ms, p95 {p95:.0f} ms"
    yield Row(f"{name}: search over {chunks}", bar, measured, name != "SQLite" or p50 <= 50)
    memory = KnowledgeGraph(
        store,
        MemoryStore(),
        backups=folder / "backups",
        settings=MemorySettings(limits=Limits(cap_percent=100)),
        clock=lambda: NOW,
    )
    preview, ours = meter.time(lambda: memory.plan("bench", PruneStrategy.ALL))
    plan = preview.plan
    what = f"{name}: plan `all`, {counts.memories:,} memories, {chunks}"
    if isinstance(store, FalkorGraphStore):
        _, theirs = meter.time(lambda: original(store))
        measured = f"{ours:.2f} s against {theirs:.2f} s, {theirs / ours:.1f}×"
        yield Row(what, "≥ 3× the original's queries", measured, theirs >= 3 * ours)
    else:
        yield Row(what, "≤ 3 s", f"{ours:.2f} s", ours <= 3)
    swept, took = meter.time(lambda: memory.collect(plan))
    rate = len(swept.deleted) / took
    yield Row(f"{name}: soft-delete of that plan", "shown", f"{rate:,.0f} nodes/s", ok=True)
    yield from purging(name, store, swept.deleted, meter)


def purging(name: str, store: GraphStore, nodes: Nodes, meter: Meter) -> Iterator[Row]:
    """Purge in two halves: one alone for the rate, one with a reader for its wait."""
    later = NOW + timedelta(days=8)
    halves = [Nodes(*(nodes.of(kind)[half::2] for kind in Kind)) for half in (0, 1)]
    gone, took = meter.time(lambda: store.purge("bench", halves[0], before=later))
    rate = len(gone) / took
    what = f"{name}: purge, {len(gone):,} nodes"
    yield Row(what, "≥ 20,000 nodes/s", f"{rate:,.0f} nodes/s", rate >= 20_000)
    waits: list[float] = []
    memories = store.counts("bench").memories
    stop = threading.Event()
    reader = threading.Thread(target=reading, args=(store, memories, waits, stop))
    reader.start()
    try:
        store.purge("bench", halves[1], before=later)
    finally:
        stop.set()
        reader.join()
    p99 = sorted(waits)[int(0.99 * len(waits))] * 1000
    what = f"{name}: {len(waits)} reads during a purge"
    yield Row(what, "p99 ≤ 250 ms", f"p99 {p99:.0f} ms", p99 <= 250)


def searches(store: GraphStore, meter: Meter) -> tuple[float, float]:
    """Search for three words many times; return the median and the slow end in milliseconds."""
    rng = random.Random(11)
    times = []
    for _ in range(60):
        _, took = meter.time(lambda: store.search("bench", GraphQuery(words=words(rng, 3))))
        times.append(took * 1000)
    return statistics.median(times), sorted(times)[int(0.95 * len(times))]


def reading(store: GraphStore, memories: int, waits: list[float], stop: threading.Event) -> None:
    """Read single memories, noting how long each took, until stopped."""
    rng = random.Random(13)
    while not stop.wait(0.005):
        started = time.perf_counter()
        store.fetch("bench", [f"m{rng.randrange(memories)}"])
        waits.append(time.perf_counter() - started)


def original(store: FalkorGraphStore) -> None:
    """Run the original design's queries on the same graph."""
    for statement in ORIGINAL_PLAN:
        store.query("bench", statement, {"workspace_id": "bench", "source": CODE_INDEXER})


OPENING: dict[str, Callable[[Path], GraphStore]] = {
    "SQLite": lambda folder: SqliteGraphStore(folder / "graph.db"),
    "FalkorDB": lambda folder: FalkorGraphStore.embedded(folder / "falkor"),
}


def build(memories: int, stores: Sequence[str], folder: Path) -> None:
    """Fill each store, or continue where the last attempt was interrupted."""
    for name in stores:
        store = OPENING[name](folder)
        mark = folder / f"{name}.batches"
        done = int(mark.read_text()) if mark.exists() else 0
        for number, batch in enumerate(graph(memories)):
            if number >= done:
                store.load("bench", batch)
                mark.write_text(str(number + 1))
        store.close()


def measure(stores: Sequence[str], folder: Path) -> list[Row]:
    """Measure each store in turn."""
    found = []
    for name in stores:
        store = OPENING[name](folder)
        for row in bench(name, store, folder):
            print_rows([row], sys.stderr)
            found.append(row)
        store.close()
    return found


def rows(memories: int = 100_000, stores: Sequence[str] = tuple(OPENING)) -> list[Row]:
    """Build and measure everything."""
    with tempfile.TemporaryDirectory(prefix="marksweep-bench-") as name:
        build(memories, stores, Path(name))
        return measure(stores, Path(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--store", action="append", choices=list(OPENING), default=[])
    parser.add_argument("--build", type=Path, metavar="FOLDER")
    parser.add_argument("--built", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    stores = given.store or list(OPENING)
    if given.build:
        build(given.memories, stores, given.build)
        return 0
    found = measure(stores, given.built) if given.built else rows(given.memories, stores)
    print_rows(found)
    return 0 if all(row.ok for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
