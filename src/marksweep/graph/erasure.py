"""Forgetting on request: hidden for the grace period, or gone from everywhere we can reach."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from marksweep.errors import MarksweepError
from marksweep.graph.backup import backups_in, erase_from_backup, halves_in
from marksweep.graph.prune import Pruner
from marksweep.graph.refs import ref
from marksweep.model import Action, Event, Segment, Step
from marksweep.stores.base import Query, Stash, Store
from marksweep.stores.files import KEPT
from marksweep.stores.graph.base import Nodes
from marksweep.stores.graph.nouns import Kind

OUT_OF_REACH = (
    "copies of backups that were taken elsewhere",
    "what a model or a log was already shown",
    "free space and logs of the store's files, until they are overwritten",
)
"""What erasing cannot reach, whatever it does."""

FORGET = "forget"

WRITTEN_WITHIN = timedelta(hours=1)
"""Time after which half a backup is one that nobody will finish."""


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What forgetting did, and what it could not reach."""

    gone: Nodes
    plan_id: str = ""
    """The plan to restore by, if it was only hidden."""
    stash: int = 0
    """Stash entries erased: segments that refer to a forgotten memory."""
    backups: int = 0
    """Nodes and edges erased from backups."""
    unreached: tuple[str, ...] = ()


def hide(
    pruner: Pruner,
    store: Store,  # noqa: ARG001
    workspace_id: str,
    memory_ids: Sequence[str],
    now: datetime,
) -> Forgotten:
    """Soft-delete memories by a plan of their own. Pinned ones stay."""
    version = pruner.store.version(workspace_id)
    records = pruner.store.fetch(workspace_id, memory_ids)
    steps = tuple(
        Step(
            (
                ref(Kind.MEMORY, record.memory.memory_id),
                *(ref(Kind.CHUNK, chunk.chunk_id) for chunk in record.chunks),
            ),
            Action.DELETE,
            1 + len(record.chunks),
            "forgotten on request",
        )
        for record in records
    )
    counts = pruner.store.counts(workspace_id)
    live = counts.memories + counts.chunks + counts.entities
    plan = pruner.keep_plan(workspace_id, FORGET, steps, version=version, live=live, now=now)
    swept = pruner.apply(workspace_id, plan, now, most=plan.freed)
    left = tuple(
        f"memory {memory_id} is pinned or changed meanwhile; unpin it first"
        for memory_id in swept.left_alone.memories
    )
    return Forgotten(gone=swept.done, plan_id=plan.plan_id, unreached=left)


def erase_everywhere(
    pruner: Pruner, store: Store, workspace_id: str, memory_ids: Sequence[str], now: datetime
) -> Forgotten:
    """Erase memories from the graph, the stash and our backups, at once and for good.

    What is to go is in the journal before it goes; a run that was cut off is finished by the next.
    """
    with pruner.alone(workspace_id):
        records = pruner.store.fetch(workspace_id, memory_ids)
        found = tuple(record.memory.memory_id for record in records)
        chunks = tuple(chunk.chunk_id for record in records for chunk in record.chunks)
        if found:
            pruner.record(workspace_id, Event.PURGED, now, nodes=Nodes(found, chunks))
        gone = pruner.store.remove(workspace_id, memory_ids)
        stashed = _erase_stash(store.stash, workspace_id, memory_ids)
        erased, damaged = _erase_backups(pruner, memory_ids, chunks)
        elsewhere = set(memory_ids).difference(found) if stashed or erased else ()
        along = Nodes(memories=tuple(sorted(elsewhere)), entities=gone.entities)
        if len(along):
            pruner.record(workspace_id, Event.PURGED, now, nodes=along)
        halves = _clear_halves(pruner, now)
        telling = _still_telling(pruner, store, workspace_id, memory_ids)
    unreached = (*damaged, *halves, *telling, *OUT_OF_REACH)
    return Forgotten(gone=gone, stash=stashed, backups=erased, unreached=unreached)


def _erase_stash(stash: Stash, workspace_id: str, memory_ids: Sequence[str]) -> int:
    """Erase stashed segments that are a forgotten memory or refer to one."""
    erased = 0
    for hit in stash.search(workspace_id, Query(limit=max(1, stash.count(workspace_id)))):
        segment = hit.found.segment
        if _is_about(segment, memory_ids):
            stash.remove(workspace_id, hit.found.plan_id, [segment.segment_id])
            erased += 1
    return erased


def _is_about(segment: Segment, memory_ids: Collection[str]) -> bool:
    return segment.segment_id in memory_ids or any(
        each.target in memory_ids for each in segment.all_references
    )


def _erase_backups(
    pruner: Pruner, memory_ids: Sequence[str], chunk_ids: Sequence[str]
) -> tuple[int, tuple[str, ...]]:
    erased = 0
    unreadable = []
    for path in backups_in(pruner.backups):
        try:
            erased += erase_from_backup(path, memory_ids, chunk_ids)
        except (OSError, MarksweepError) as error:
            unreadable.append(f"the backup {path}: {error}")
    return erased, tuple(unreadable)


def _clear_halves(pruner: Pruner, now: datetime) -> list[str]:
    """Delete backups that nobody finished; name those that may be being written."""
    left = []
    for path in halves_in(pruner.backups):
        if datetime.fromtimestamp(path.stat().st_mtime, UTC) < now - WRITTEN_WITHIN:
            path.unlink()
        else:
            left.append(f"the backup {path}, perhaps being written; forget again when it is done")
    return left


def _still_telling(
    pruner: Pruner, store: Store, workspace_id: str, memory_ids: Sequence[str]
) -> list[str]:
    """Name what is ours, may tell of the memories, and is not ours to delete unasked."""
    folders = [
        f"{folder}, what was there before a mend; delete it if nobody needs it"
        for folder in sorted(pruner.backups.parent.glob(f"*{KEPT}*"))
    ]
    segments = [
        f"segment {segment.segment_id} of the working set, which refers to it"
        for segment in store.segments.changes(workspace_id).put
        if _is_about(segment, memory_ids)
    ]
    return [*folders, *segments]
