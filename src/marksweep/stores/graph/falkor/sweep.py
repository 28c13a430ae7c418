"""Collection: the survey, soft deletion, restoring, purging."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime

from marksweep.stores.codec import microseconds
from marksweep.stores.graph.base import Counts, Nodes, Survey
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection, Step
from marksweep.stores.graph.nouns import Kind
from marksweep.stores.graph.reading import version
from marksweep.stores.graph.rows import Row, packed_numbers, plain, survey_row

BATCH_NODES = 1000
"""Nodes per transaction, during which the server answers no other client.

Larger is a little faster overall; a thousand take about 30 ms.
"""

PURGE_BATCH = 1500
"""Nodes erased per transaction, during which readers wait.

A deletion takes time proportional to the graph's size, so small transactions are slow overall; in
a graph of half a million chunks, 1500 nodes take about 35 ms.
"""

CHUNKS_EXPECTED = 5
"""Assumed chunks per memory. With more, a transaction takes longer."""

BREATH_SECONDS = 0.02
"""Pause between two transactions of a purge: without it, readers queued behind one would wait for
the next too."""


def survey(db: Connection, workspace_id: str) -> Survey:
    """Read ids, edges and small columns.

    The statements run one after another, so that writers need not wait. The version is read first:
    whatever is written meanwhile is newer than the survey, and a sweep leaves it alone.
    """
    light = survey_memories(db, workspace_id)
    (chunks,) = _columns(db, workspace_id, cypher.SURVEY_CHUNKS, 1)
    owned, owners = _columns(db, workspace_id, cypher.SURVEY_OWNERS, 2)
    (deleted_chunks,) = _columns(db, workspace_id, cypher.SURVEY_DELETED_CHUNKS, 1)
    (entities,) = _columns(db, workspace_id, cypher.SURVEY_ENTITIES, 1)
    (deleted_entities,) = _columns(db, workspace_id, cypher.SURVEY_DELETED_ENTITIES, 1)
    mention_chunks, mention_entities = _columns(db, workspace_id, cypher.SURVEY_MENTIONS, 2)
    owner = dict(zip(owned, owners, strict=True))
    return Survey(
        version=light.version,
        memories=light.memories,
        chunks=chunks,
        chunk_owners=array("q", (owner.get(chunk, -1) for chunk in chunks)),
        deleted_chunks=frozenset(deleted_chunks),
        entities=entities,
        deleted_entities=frozenset(deleted_entities),
        mention_chunks=mention_chunks,
        mention_entities=mention_entities,
    )


def survey_memories(db: Connection, workspace_id: str) -> Survey:
    """Read the version, then the memories' small columns."""
    read = version(db, workspace_id)
    return Survey(read, tuple(map(survey_row, db.read(workspace_id, cypher.SURVEY_MEMORIES))))


def _columns(db: Connection, workspace_id: str, statement: str, count: int) -> list[array[int]]:
    """Fetch columns of numbers, each as one list: far cheaper to send than rows."""
    rows = db.read(workspace_id, statement)
    cells: Row = rows[0] if rows else ("[]",) * count
    return [packed_numbers(cell) for cell in cells]


def ids(db: Connection, workspace_id: str, kind: Kind, keys: Sequence[int]) -> tuple[str, ...]:
    """Convert keys to ids."""
    found: dict[int, str] = {}
    for start in range(0, len(keys), 10 * BATCH_NODES):
        batch = list(keys[start : start + 10 * BATCH_NODES])
        for key, node_id in db.read(workspace_id, cypher.IDS[kind], keys=batch):
            found[int(key or 0)] = str(node_id)
    return tuple(found.get(key, "") for key in keys)


def soft_delete(
    db: Connection, workspace_id: str, nodes: Nodes, *, version: int, plan_id: str, at: datetime
) -> Nodes:
    """Hide nodes that have not changed since a version: memories, then chunks, then entities."""
    done: dict[Kind, list[str]] = {kind: [] for kind in Kind}
    for kind in Kind:
        for batch in _batches(nodes.of(kind), BATCH_NODES):
            given = {"ids": batch, "seen": version, "plan_id": plan_id, "at": microseconds(at)}
            check: Step = (cypher.HIDDEN_BY[kind], {"ids": batch, "plan_id": plan_id})
            _, hidden = db.write(workspace_id, (cypher.HIDE[kind], given), check)
            done[kind] += [str(row[0]) for row in hidden]
    return Nodes(*(tuple(sorted(done[kind])) for kind in Kind))


def restore(db: Connection, workspace_id: str, nodes: Nodes) -> Nodes:
    """Undo a soft deletion, bottom-up, so that visible nodes are always complete."""
    back: dict[Kind, set[str]] = {kind: set() for kind in Kind}
    for kind in (Kind.ENTITY, Kind.MEMORY, Kind.CHUNK):
        for batch in _batches(nodes.of(kind), BATCH_NODES):
            steps = [(statement, {"ids": batch}) for _, statement in cypher.SHOW[kind]]
            shown = db.write(workspace_id, *steps)
            for (of_kind, _), rows in zip(cypher.SHOW[kind], shown, strict=True):
                back[Kind(of_kind)].update(_ids(rows))
    return Nodes(*(tuple(sorted(back[kind])) for kind in Kind))


def purge(db: Connection, workspace_id: str, nodes: Nodes, *, before: datetime) -> Nodes:
    """Erase soft-deleted nodes, batch by batch."""
    gone = Nodes()
    for batch in _batches(nodes.memories, PURGE_BATCH // (1 + CHUNKS_EXPECTED)):
        given = {"ids": batch, "before": microseconds(before)}
        _, rows = db.write(
            workspace_id, (cypher.PURGE_RELATIONS_OF, given), (cypher.PURGE_MEMORIES, given)
        )
        memories = tuple(dict.fromkeys(_ids(rows)))
        gone += Nodes(memories, tuple(str(row[1]) for row in rows if row[1] is not None))
        time.sleep(BREATH_SECONDS)
    purged = set(gone.chunks)
    left = [each for each in nodes.chunks if each not in purged]
    for batch in _batches(left, PURGE_BATCH):
        given = {"ids": batch, "before": microseconds(before)}
        (orphans,) = db.write(workspace_id, (cypher.PURGE_ORPHANS, given))
        gone += Nodes(chunks=_ids(orphans))
        time.sleep(BREATH_SECONDS)
    for batch in _batches(nodes.entities, PURGE_BATCH):
        given = {"ids": batch, "before": microseconds(before)}
        (entities,) = db.write(workspace_id, (cypher.PURGE_ENTITIES, given))
        gone += Nodes(entities=_ids(entities))
        time.sleep(BREATH_SECONDS)
    return gone


def counts(db: Connection, workspace_id: str) -> Counts:
    """Count a workspace's contents."""
    found = []
    for statement in cypher.COUNTS:
        rows = db.read(workspace_id, statement)
        found.append(int(rows[0][0] or 0) if rows else 0)
    fields = Counts.__struct_fields__
    return Counts(**dict(zip(fields, (*found[:7], sum(found[7:])), strict=True)))


def _batches(every: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(every), size):
        yield [plain(each) for each in every[start : start + size]]


def _ids(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(str(row[0]) for row in rows)
