"""Collecting and searching a large graph, on SQLite and on FalkorDB.

    python -m benchmarks.graph [--memories 100000] [--store sqlite] [--store falkordb]

A graph of memories with five chunks each, 10 % of the memories stale and 5 % of the chunks
orphaned. Planned, deleted, purged while a reader fetches; beside it the original design's queries.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from marksweep.graph.prune import Limits, Pruner
from marksweep.heaps.graph import GraphRules, PruneStrategy
from marksweep.stores.graph.base import GraphQuery, GraphStore, Item
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.nouns import CODE_INDEXER, Chunk, Entity, Memory, Mention
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.memory import MemoryStore

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
"""What the original design asks to know what it would prune: stale, orphaned chunks, entities."""


def words(rng: random.Random, count: int) -> str:
    """Write words, few of them common and most of them rare, as in real text."""
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


def show(what: str, value: str, bar: str = "") -> None:
    print(f"| {what} | {value} | {bar} |", flush=True)


async def bench(name: str, store: GraphStore, memories: int, folder: Path) -> None:
    start = time.perf_counter()
    for batch in graph(memories):
        await store.load("bench", batch)
    counts = await store.counts("bench")
    nodes = counts.memories + counts.chunks + counts.entities
    took = time.perf_counter() - start
    show(f"{name}: load {nodes:,} nodes, {counts.mentions:,} mentions", f"{took:.0f} s")
    await searches(name, store)
    pruner = Pruner(
        store, MemoryStore().journal, backups=folder / "backups", limits=Limits(cap_percent=100)
    )
    start = time.perf_counter()
    plan = (await pruner.plan("bench", PruneStrategy.ALL, GraphRules(), NOW)).plan
    ours = time.perf_counter() - start
    show(f"{name}: plan `all`, {plan.tokens_freed:,} nodes to go", f"{ours:.2f} s", "SQLite ≤ 3 s")
    if isinstance(store, FalkorGraphStore):
        await original(store, ours)
    start = time.perf_counter()
    swept = await pruner.apply("bench", plan, NOW)
    took = time.perf_counter() - start
    show(f"{name}: soft-delete", f"{len(swept.done) / took:,.0f} nodes/s")
    later = NOW + timedelta(days=8)
    latencies: list[float] = []
    reader = asyncio.create_task(reading(store, latencies))
    start = time.perf_counter()
    gone = await store.purge("bench", swept.done, before=later)
    took = time.perf_counter() - start
    reader.cancel()
    with suppress(asyncio.CancelledError):
        await reader
    show(f"{name}: purge", f"{len(gone) / took:,.0f} nodes/s", "≥ 20,000 nodes/s")
    p99 = sorted(latencies)[int(0.99 * len(latencies))] if latencies else float("nan")
    show(f"{name}: a reader meanwhile, p99 of {len(latencies)}", f"{p99 * 1000:.0f} ms", "≤ 250 ms")


async def searches(name: str, store: GraphStore) -> None:
    rng = random.Random(11)
    times = []
    for _ in range(60):
        query = GraphQuery(words=words(rng, 3))
        start = time.perf_counter()
        await store.search("bench", query)
        times.append(time.perf_counter() - start)
    p50 = statistics.median(times) * 1000
    p95 = sorted(times)[int(0.95 * len(times))] * 1000
    show(
        f"{name}: search, three words", f"p50 {p50:.0f} ms, p95 {p95:.0f} ms", "SQLite p50 ≤ 50 ms"
    )


async def reading(store: GraphStore, latencies: list[float]) -> None:
    rng = random.Random(13)
    while True:
        start = time.perf_counter()
        await store.fetch("bench", [f"m{rng.randrange(10_000, 100_000)}"])
        latencies.append(time.perf_counter() - start)
        await asyncio.sleep(0.005)


async def original(store: FalkorGraphStore, ours: float) -> None:
    """Time the original design's queries on the same graph."""
    start = time.perf_counter()
    for statement in ORIGINAL_PLAN:
        await store.query("bench", statement, {"workspace_id": "bench", "source": CODE_INDEXER})
    theirs = time.perf_counter() - start
    show(
        "FalkorDB: the original design's queries, same graph",
        f"{theirs:.2f} s, {theirs / ours:.1f}× ours",
        "≥ 3×",
    )


async def run(memories: int, stores: list[str]) -> None:
    print("| what | measured | bar |\n|---|---|---|")
    opening: dict[str, Callable[[Path], GraphStore]] = {
        "sqlite": lambda folder: SqliteGraphStore(folder / "graph.db"),
        "falkordb": lambda folder: FalkorGraphStore.embedded(folder / "falkor"),
    }
    names = {"sqlite": "SQLite", "falkordb": "FalkorDB"}
    for each in stores or list(opening):
        with tempfile.TemporaryDirectory(prefix="marksweep-bench-") as folder:
            store = opening[each](Path(folder))
            try:
                await bench(names[each], store, memories, Path(folder))
            finally:
                await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--store", action="append", choices=["sqlite", "falkordb"], default=[])
    given = parser.parse_args()
    asyncio.run(run(given.memories, given.store))


if __name__ == "__main__":
    main()
