"""Read a graph in the layout of the original design, to load it into any store.

That layout keeps all workspaces in one graph. Memories may lack `stale` and `last_seen_at`: they
start as live. Entities have no workspace: they belong to every workspace whose chunks mention
them, else to that of the entities they are related to, else to the default one. The old graph is
only read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from marksweep.errors import StoreError
from marksweep.stores.base import DEFAULT_WORKSPACE
from marksweep.stores.graph.base import GraphStore, Item
from marksweep.stores.graph.falkor.connection import client_at, redis_errors
from marksweep.stores.graph.nouns import (
    Chunk,
    Entity,
    Memory,
    Mention,
    Relation,
    Scalar,
    entity_id,
    hash_content,
)

PAGE_ITEMS = 5000
"""Nodes or edges read or loaded at a time."""

NODES = "MATCH (n:{label}) WHERE id(n) > $after RETURN id(n), n ORDER BY id(n) LIMIT $limit"
EDGES = """
MATCH (s:{source})-[r:{relation}]->(t:{target}) WHERE id(r) > $after
RETURN id(r), r, id(s), id(t) ORDER BY id(r) LIMIT $limit"""
STATEMENTS = (
    *(NODES.format(label=label) for label in ("Memory", "Chunk", "Entity")),
    EDGES.format(source="Memory", relation="HAS_CHUNK", target="Chunk"),
    EDGES.format(source="Chunk", relation="MENTIONS", target="Entity"),
    EDGES.format(source="Entity", relation="RELATED_TO", target="Entity"),
)
"""What is read, in the order of `OldGraph`."""


class Found(msgspec.Struct, frozen=True):
    """A node or edge of the old graph."""

    number: int
    properties: Mapping[str, object]
    source: int = -1
    target: int = -1

    def text(self, *names: str) -> str:
        """Return the first of the named properties that exists, as text."""
        for name in names:
            if self.properties.get(name) is not None:
                return str(self.properties[name])
        return ""


class OldGraph(msgspec.Struct, frozen=True):
    """A whole old graph; nodes by their numbers."""

    memories: dict[int, Found]
    chunks: dict[int, Found]
    entities: dict[int, Found]
    owners: tuple[Found, ...] = ()
    mentions: tuple[Found, ...] = ()
    relations: tuple[Found, ...] = ()


def migrate(url: str, graph: str, store: GraphStore, now: datetime) -> dict[str, int]:
    """Copy an old graph into a store; return item counts by workspace. Idempotent."""
    old = read_old(url, graph)
    counts = {}
    for workspace_id, items in sorted(by_workspace(old, now).items()):
        for start in range(0, len(items), PAGE_ITEMS):
            store.load(workspace_id, items[start : start + PAGE_ITEMS])
        counts[workspace_id] = len(items)
    return counts


def read_old(url: str, graph: str) -> OldGraph:
    """Read a whole old graph."""
    try:
        server = client_at(url, socket_timeout=None)
        try:
            rows = [_all(server.select_graph(graph), statement) for statement in STATEMENTS]
        finally:
            server.connection.connection_pool.disconnect()
    except redis_errors.RedisError as error:
        raise StoreError(
            f"the graph {graph!r} at {url} cannot be read: {error}. Name a FalkorDB server and "
            "one of its graphs."
        ) from error
    memories, chunks, entities = ({each.number: each for each in found} for found in rows[:3])
    return OldGraph(memories, chunks, entities, *(tuple(found) for found in rows[3:]))


def _all(graph: object, statement: str) -> list[Found]:
    found: list[Found] = []
    while True:
        after = found[-1].number if found else -1
        answer = graph.ro_query(  # type: ignore[attr-defined]
            statement, {"after": after, "limit": PAGE_ITEMS}
        )
        page = [Found(row[0], row[1].properties, *row[2:]) for row in answer.result_set]
        found += page
        if len(page) < PAGE_ITEMS:
            return found


def by_workspace(old: OldGraph, now: datetime) -> dict[str, list[Item]]:
    """Convert an old graph to items, nodes before edges, workspace by workspace."""
    owner = {edge.target: edge.source for edge in old.owners}
    homes = {number: _home(memory) for number, memory in old.memories.items()}
    chunk_homes = {
        number: homes[owner[number]] if number in owner else _home(chunk)
        for number, chunk in old.chunks.items()
    }
    entity_homes = _entity_homes(old, chunk_homes)
    names = {number: _entity_id(entity) for number, entity in old.entities.items()}
    items: defaultdict[str, list[Item]] = defaultdict(list)
    for number, memory in old.memories.items():
        items[homes[number]].append(_memory(memory, homes[number], now))
    for position, (number, chunk) in enumerate(old.chunks.items()):
        parent = old.memories[owner[number]] if number in owner else None
        items[chunk_homes[number]].append(_chunk(chunk, parent, chunk_homes[number], position))
    for number, entity in old.entities.items():
        for home in sorted(entity_homes[number]):
            items[home].append(_entity(entity, names[number], home))
    for edge in old.mentions:
        chunk_id = _id(old.chunks[edge.source])
        items[chunk_homes[edge.source]].append(Mention(chunk_id, names[edge.target]))
    for edge in old.relations:
        for home in sorted(entity_homes[edge.source] & entity_homes[edge.target]):
            items[home].append(_relation(edge, names))
    return dict(items)


def _entity_homes(old: OldGraph, chunk_homes: Mapping[int, str]) -> dict[int, set[str]]:
    """Find the workspaces of each entity: its own, its chunks', its neighbours', or the default."""
    homes: dict[int, set[str]] = {number: set() for number in old.entities}
    for number, entity in old.entities.items():
        if own := entity.text("workspace_id"):
            homes[number].add(own)
    for edge in old.mentions:
        homes[edge.target].add(chunk_homes[edge.source])
    spreading = True
    while spreading:
        spreading = False
        for edge in old.relations:
            for here, there in ((edge.source, edge.target), (edge.target, edge.source)):
                if not homes[here] and homes[there]:
                    homes[here] |= homes[there]
                    spreading = True
    for found in homes.values():
        if not found:
            found.add(DEFAULT_WORKSPACE)
    return homes


def _home(node: Found) -> str:
    return node.text("workspace_id") or DEFAULT_WORKSPACE


def _id(node: Found) -> str:
    return node.text("id") or f"old-{node.number}"


def _entity_id(node: Found) -> str:
    return node.text("id") or entity_id("", node.text("type"), node.text("name"))


def _memory(node: Found, home: str, now: datetime) -> Memory:
    text = node.text("text")
    created = _moment(node.properties.get("created_at") or node.properties.get("timestamp")) or now
    path = node.text("file_path")
    return Memory(
        memory_id=_id(node),
        workspace_id=home,
        source=node.text("source") or "user",
        created_at=created,
        text=text,
        file_path=path,
        relative_path=node.text("relative_path") or path,
        lines=_number(node.properties.get("lines")),
        content_hash=hash_content(" ".join(text.casefold().split()).encode()),
        tags=_tags(node.properties.get("tags")),
        metadata=_metadata(node.properties.get("metadata")),
        stale=node.properties.get("stale") is True,
        last_seen_at=_moment(node.properties.get("last_seen_at")) or created,
    )


def _chunk(node: Found, parent: Found | None, home: str, position: int) -> Chunk:
    return Chunk(
        chunk_id=_id(node),
        workspace_id=home,
        memory_id=_id(parent) if parent else node.text("memory_id"),
        text=node.text("text"),
        start_line=_number(node.properties.get("start_line")),
        end_line=_number(node.properties.get("end_line")),
        position=_number(node.properties.get("index"), position),
    )


def _entity(node: Found, name: str, home: str) -> Entity:
    return Entity(
        entity_id=name,
        workspace_id=home,
        name=node.text("name"),
        kind=node.text("type") or "name",
    )


def _relation(edge: Found, names: Mapping[int, str]) -> Relation:
    return Relation(
        names[edge.source],
        names[edge.target],
        edge.text("relation", "type") or "related",
        edge.text("memory_id"),
    )


def _moment(value: object) -> datetime | None:
    """Parse a time: ISO text, or seconds or milliseconds since 1970."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        seconds = value / 1000 if value > 1e11 else float(value)
        return datetime.fromtimestamp(seconds, UTC)
    try:
        read = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _number(value: object, otherwise: int = 0) -> int:
    return value if isinstance(value, int) else otherwise


def _tags(value: object) -> tuple[str, ...]:
    """Parse tags: a list, a JSON list, or one word."""
    if isinstance(value, list):
        return tuple(map(str, value))
    if not value:
        return ()
    try:
        return msgspec.json.decode(str(value), type=tuple[str, ...])
    except msgspec.MsgspecError:
        return (str(value),)


def _metadata(value: object) -> dict[str, Scalar]:
    """Parse metadata: a map, or one as JSON; nested values become JSON text."""
    if isinstance(value, str):
        text = value
        try:
            value = msgspec.json.decode(text)
        except msgspec.MsgspecError:
            return {"metadata": text}
    if not isinstance(value, dict):
        return {}
    return dict(_scalars(value))


def _scalars(values: Mapping[object, object]) -> Iterator[tuple[str, Scalar]]:
    for key, value in values.items():
        if isinstance(value, str | int | float | bool | None):
            yield str(key), value
        else:
            yield str(key), msgspec.json.encode(value).decode()
