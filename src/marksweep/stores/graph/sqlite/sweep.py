"""Collection: the survey, soft deletion, restoring, purging."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Sequence
from datetime import datetime

from marksweep.stores.codec import microseconds
from marksweep.stores.graph.base import Counts, Nodes, Survey
from marksweep.stores.graph.nouns import Kind
from marksweep.stores.graph.rows import packed_numbers, plain, survey_row
from marksweep.stores.graph.sqlite import statements as sql
from marksweep.stores.graph.sqlite.connection import Change, as_json, number
from marksweep.stores.graph.sqlite.writing import drop_chunks, drop_entities, drop_memories


def survey(db: sqlite3.Connection, workspace_id: str) -> Survey:
    """Read ids, edges and small columns at one version."""
    light = survey_memories(db, workspace_id)
    ws = number(db, workspace_id)
    chunks, owners = _columns(db, sql.SURVEY_CHUNKS, ws)
    (deleted_chunks,) = _columns(db, sql.SURVEY_DELETED_CHUNKS, ws)
    (entities,) = _columns(db, sql.SURVEY_ENTITIES, ws)
    (deleted_entities,) = _columns(db, sql.SURVEY_DELETED_ENTITIES, ws)
    mention_chunks, mention_entities = _columns(db, sql.SURVEY_MENTIONS, ws)
    return Survey(
        version=light.version,
        memories=light.memories,
        chunks=chunks,
        chunk_owners=owners,
        deleted_chunks=frozenset(deleted_chunks),
        entities=entities,
        deleted_entities=frozenset(deleted_entities),
        mention_chunks=mention_chunks,
        mention_entities=mention_entities,
    )


def survey_memories(db: sqlite3.Connection, workspace_id: str) -> Survey:
    """Read the memories' small columns."""
    ws, version = db.execute(sql.WORKSPACE, (plain(workspace_id),)).fetchone() or (0, 0)
    return Survey(version, tuple(map(survey_row, db.execute(sql.SURVEY_MEMORIES, (ws,)))))


def _columns(db: sqlite3.Connection, statement: str, ws: int) -> tuple[array[int], ...]:
    return tuple(map(packed_numbers, db.execute(statement, (ws,)).fetchone()))


def ids(
    db: sqlite3.Connection, workspace_id: str, kind: Kind, keys: Sequence[int]
) -> tuple[str, ...]:
    """Convert keys to ids."""
    given = {"ws": number(db, workspace_id), "keys": as_json(keys)}
    found = dict(db.execute(sql.IDS[kind], given).fetchall())
    return tuple(found.get(each, "") for each in keys)


def soft_delete(
    db: sqlite3.Connection,
    workspace_id: str,
    nodes: Nodes,
    *,
    version: int,
    plan_id: str,
    at: datetime,
) -> Nodes:
    """Hide nodes that have not changed since a version: memories, then chunks, then entities."""
    change = Change(db, workspace_id)
    done = []
    for kind in Kind:
        ids = nodes.of(kind)
        change.run(sql.HIDE[kind], ids=ids, seen=version, plan_id=plan_id, at=microseconds(at))
        done.append(_ids(change.run(sql.HIDDEN_BY[kind], ids=ids, plan_id=plan_id)))
    return Nodes(*done)


def restore(db: sqlite3.Connection, workspace_id: str, nodes: Nodes) -> Nodes:
    """Restore nodes with what they hold."""
    return revive(Change(db, workspace_id), nodes)


def revive(change: Change, nodes: Nodes) -> Nodes:
    """Undo a soft deletion, top-down: memories, their chunks, the entities those mention."""
    memories = _ids(change.run(sql.RESTORE_MEMORIES, ids=nodes.memories))
    chunks = _ids(change.run(sql.RESTORE_CHUNKS, ids=nodes.chunks + nodes.memories))
    held = nodes.entities + nodes.chunks + chunks
    return Nodes(memories, chunks, _ids(change.run(sql.RESTORE_ENTITIES, ids=held)))


def _ids(found: sqlite3.Cursor) -> tuple[str, ...]:
    return tuple(sorted(row[0] for row in found))


def purge(
    db: sqlite3.Connection, workspace_id: str, kind: Kind, ids: Sequence[str], before: datetime
) -> Nodes:
    """Erase soft-deleted nodes of one kind: memories with their chunks, chunks that no memory has,
    entities that no memory's chunk mentions."""
    change = Change(db, workspace_id)
    rows = change.run(sql.PURGEABLE[kind], ids=ids, before=microseconds(before)).fetchall()
    keys, gone = [each for each, _ in rows], tuple(node_id for _, node_id in rows)
    match kind:
        case Kind.MEMORY:
            return Nodes(gone, drop_memories(change, dict(zip(gone, keys, strict=True)))[0])
        case Kind.CHUNK:
            drop_chunks(change, keys)
            return Nodes(chunks=gone)
        case Kind.ENTITY:
            drop_entities(change, keys)
            return Nodes(entities=gone)


def counts(db: sqlite3.Connection, workspace_id: str) -> Counts:
    """Count a workspace's contents."""
    row = db.execute(sql.COUNTS, {"ws": number(db, workspace_id)}).fetchone()
    return Counts(**dict(zip(Counts.__struct_fields__, row, strict=True)))
