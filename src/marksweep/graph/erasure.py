"""Forgetting on request: hidden for the grace period, or erased everywhere we can reach."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from marksweep.collector import Collector
from marksweep.core.plan import plan_from
from marksweep.core.strategy import Proposal
from marksweep.errors import MarksweepError
from marksweep.graph.backup import Note, backups_in, erase_from_backup, halves_in
from marksweep.graph.pruning import counted
from marksweep.heaps.graph import GraphHeap, NamedUnits, journal_name, nodes_of, ref, refs_of
from marksweep.model import Action, Event, Segment
from marksweep.stores.base import Store, remove_all
from marksweep.stores.files import KEPT
from marksweep.stores.graph.base import GraphStore, Nodes
from marksweep.stores.graph.nouns import Kind, Memory

OUT_OF_REACH = (
    "copies of backups that were taken elsewhere",
    "what a model or a log was already shown",
)
"""What erasing can never reach."""

FORGET = "forget"

WRITTEN_WITHIN = timedelta(hours=1)
"""Age at which an unfinished backup counts as abandoned."""


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What forgetting did, and what it could not reach."""

    gone: Nodes
    plan_id: str = ""
    """The plan that restores them, if they were only hidden."""
    stash: int = 0
    """Stash entries erased: segments that refer to a forgotten memory."""
    backups: int = 0
    """Nodes and edges erased from backups."""
    unreached: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write it for people."""
        lines = [f"Forgotten: {counted(self.gone)}"]
        if self.stash or self.backups:
            lines.append(f"From the stash {self.stash:,}, from backups {self.backups:,} items")
        if self.plan_id and len(self.gone):
            lines.append(f"To restore it: marksweep prune --restore {self.plan_id}")
        return "\n".join([*lines, *(f"Not reached: {each}" for each in self.unreached)])


def hide(
    graph: GraphStore,
    heap: GraphHeap,
    collector: Collector,
    memory_ids: Sequence[str],
    now: datetime,
) -> Forgotten:
    """Soft-delete memories by a separate plan. Pinned ones stay."""
    snapshot = heap.snapshot()
    found = graph.fetch(heap.workspace, memory_ids)
    memories = [record for record in found if record.memory.deleted_at is None]
    units = NamedUnits(
        [
            (
                ref(Kind.MEMORY, record.memory.memory_id),
                *(ref(Kind.CHUNK, chunk.chunk_id) for chunk in record.chunks),
            )
            for record in memories
        ],
        now,
        snapshot=snapshot,
        roots={i: "pinned" for i, record in enumerate(memories) if record.memory.pinned},
    )
    forgotten = "forgotten on request"
    plan = plan_from(
        units, FORGET, (Proposal((i,), Action.DELETE, forgotten) for i in range(len(memories)))
    )
    collector.save(plan, now=now)
    gone = nodes_of(collector.collect(plan, now=now, confirm=plan.plan_id).swept)
    left = [record.memory for record in found if record.memory.memory_id not in gone.memories]
    return Forgotten(gone=gone, plan_id=plan.plan_id, unreached=tuple(map(_why_left, left)))


def _why_left(memory: Memory) -> str:
    if memory.deleted_at is not None:
        return f"memory {memory.memory_id} is forgotten already"
    return f"memory {memory.memory_id} is pinned or changed meanwhile; unpin it first"


class Eraser:
    """Erases memories from the graph, the stash and our backups, at once and for good."""

    def __init__(
        self, graph: GraphStore, store: Store, backups: Path, collector: Collector
    ) -> None:
        self._graph = graph
        self._store = store
        self._backups = backups
        self._collector = collector

    def erase(self, workspace_id: str, memory_ids: Sequence[str], now: datetime) -> Forgotten:
        """Erase memories wherever they are, and say what could not be reached.

        The journal names what will be erased before it is erased. The next run finishes an
        interrupted one, so the graph, which says what to look for in the copies, comes after them.
        """
        collector = self._collector
        with collector.holding(now):
            records = self._graph.fetch(workspace_id, memory_ids)
            found = tuple(record.memory.memory_id for record in records)
            chunks = tuple(chunk.chunk_id for record in records for chunk in record.chunks)
            if found:
                collector.record(Event.PURGED, now=now, segments=refs_of(Nodes(found, chunks)))
            stashed = self._erase_stash(workspace_id, memory_ids)
            notes = {(r.memory.source, r.memory.text) for r in records if r.memory.text}
            erased, damaged = self._erase_backups(memory_ids, chunks, notes)
            gone = self._graph.remove(workspace_id, memory_ids)
            self._redact(workspace_id, memory_ids, stashed, refs_of(gone))
            elsewhere = set(memory_ids).difference(found) if stashed or erased else ()
            along = Nodes(memories=tuple(sorted(elsewhere)), entities=gone.entities)
            if len(along):
                collector.record(Event.PURGED, now=now, segments=refs_of(along))
            left = (
                *damaged,
                *self._clear_halves(now),
                *self._tell_of(workspace_id, memory_ids),
                *self._graph.scrub(),
                *self._store.scrub(),
            )
        return Forgotten(
            gone=gone, stash=len(stashed), backups=erased, unreached=(*left, *OUT_OF_REACH)
        )

    def _erase_stash(self, workspace_id: str, memory_ids: Sequence[str]) -> list[str]:
        """Erase stashed segments that are a forgotten memory or refer to one; name them."""
        stash = self._store.stash
        entries = stash.entries(workspace_id)
        about = [entry for entry in entries if _is_about(entry.segment, memory_ids)]
        remove_all(stash, workspace_id, about)
        return [entry.segment.segment_id for entry in about]

    def _redact(
        self,
        workspace_id: str,
        memory_ids: Sequence[str],
        segment_ids: Sequence[str],
        nodes: Sequence[str],
    ) -> None:
        """Remove the text about these from the plans in the journals; ids and sizes stay."""
        named = [ref(Kind.MEMORY, each) for each in memory_ids]
        self._store.journal.redact(journal_name(workspace_id), [*named, *nodes])
        self._store.journal.redact(workspace_id, [*memory_ids, *segment_ids])

    def _erase_backups(
        self, memory_ids: Sequence[str], chunk_ids: Sequence[str], notes: Collection[Note]
    ) -> tuple[int, list[str]]:
        erased = 0
        unreadable = []
        for path in backups_in(self._backups):
            try:
                erased += erase_from_backup(path, memory_ids, chunk_ids, notes)
            except (OSError, MarksweepError) as error:
                unreadable.append(f"the backup {path}: {error}")
        return erased, unreadable

    def _clear_halves(self, now: datetime) -> Iterator[str]:
        """Delete abandoned backups; name those that another process may be writing."""
        for path in halves_in(self._backups):
            if datetime.fromtimestamp(path.stat().st_mtime, UTC) < now - WRITTEN_WITHIN:
                path.unlink()
            else:
                yield f"the backup {path}, perhaps being written; forget again when it is done"

    def _tell_of(self, workspace_id: str, memory_ids: Sequence[str]) -> Iterator[str]:
        """Name our files that may contain the memories but are not deleted without asking."""
        for folder in sorted(self._backups.parent.glob(f"*{KEPT}*")):
            yield f"{folder}, what was there before a repair; delete it if nobody needs it"
        for segment in self._store.segments.changes(workspace_id).put:
            if _is_about(segment, memory_ids):
                yield f"segment {segment.segment_id} of the working set, which refers to it"


def _is_about(segment: Segment, memory_ids: Collection[str]) -> bool:
    return segment.segment_id in memory_ids or any(
        each.target in memory_ids for each in segment.all_references
    )
