"""Trees of files and their graphs, for the tests of the indexer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from marksweep.indexing.indexer import index_codebase
from marksweep.indexing.readers import Inline
from marksweep.indexing.report import IndexReport
from marksweep.stores.graph.base import GraphStore, Item
from marksweep.stores.graph.nouns import Chunk, Entity, Memory, Mention, Relation
from marksweep.stores.graph.sqlite import SqliteGraphStore

WORKSPACE = "test"
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

OpenStore = Callable[[], GraphStore]


def write(root: Path, path: str, text: str | bytes = "x = 1\n") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def index(open_store: OpenStore, root: Path, **options: Any) -> IndexReport:
    """Index a tree in this process, without waiting for a lock."""
    store = open_store()
    given = {
        "store": store,
        "workspace_id": WORKSPACE,
        "reader": Inline(),
        "wait_seconds": 0.0,
        **options,
    }
    try:
        return asyncio.run(index_codebase(root, **given))
    finally:
        store.close()


class Graph(msgspec.Struct, frozen=True):
    """What a workspace holds, without times, runs and stale rows."""

    memories: frozenset[str]
    chunks: frozenset[Chunk]
    entities: frozenset[Entity]
    mentions: frozenset[Mention]
    relations: frozenset[Relation]

    @property
    def paths(self) -> list[str]:
        return sorted(msgspec.json.decode(memory)["relative_path"] for memory in self.memories)


def timeless(memory: Memory) -> str:
    plain = msgspec.structs.replace(
        memory, created_at=EPOCH, last_seen_at=None, run="", mtime_ns=0, read_at=None
    )
    return msgspec.json.encode(plain).decode()


def live(items: Collection[Item], takes: Callable[[str], bool] = lambda _: True) -> Graph:
    """Keep the memories that are not stale and whose path is selected, with their content."""
    memories = [
        item
        for item in items
        if isinstance(item, Memory)
        and not item.stale
        and item.deleted_at is None
        and takes(item.relative_path)
    ]
    owners = {memory.memory_id for memory in memories}
    chunks = [item for item in items if isinstance(item, Chunk) and item.memory_id in owners]
    chunk_ids = {chunk.chunk_id for chunk in chunks}
    mentions = [item for item in items if isinstance(item, Mention) and item.chunk_id in chunk_ids]
    mentioned = {mention.entity_id for mention in mentions}
    return Graph(
        frozenset(map(timeless, memories)),
        frozenset(chunks),
        frozenset(
            item for item in items if isinstance(item, Entity) and item.entity_id in mentioned
        ),
        frozenset(mentions),
        frozenset(
            item for item in items if isinstance(item, Relation) and item.memory_id in owners
        ),
    )


def items_of(open_store: OpenStore, workspace_id: str = WORKSPACE) -> list[Item]:
    store = open_store()
    try:
        return list(store.export(workspace_id))
    finally:
        store.close()


def stale_paths(open_store: OpenStore, workspace_id: str = WORKSPACE) -> list[str]:
    items = items_of(open_store, workspace_id)
    return sorted(item.relative_path for item in items if isinstance(item, Memory) and item.stale)


def live_paths(open_store: OpenStore, workspace_id: str = WORKSPACE) -> list[str]:
    return live(items_of(open_store, workspace_id)).paths


def sqlite_at(path: Path) -> OpenStore:
    return lambda: SqliteGraphStore(path)
