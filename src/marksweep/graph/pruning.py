"""Pruning a memory: its settings, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from marksweep.graph.backup import Backup
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import RECENTLY_READ, Limits
from marksweep.model import Plan
from marksweep.settings import Settings
from marksweep.stores.graph.base import MemoryRow, Nodes


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long memories live and what protects them."""

    limits: Limits = Limits()
    recently_read: timedelta = RECENTLY_READ
    ttl: Mapping[str, timedelta] = {}
    """Time to live of memories by source. Memories of other sources never expire."""
    keeps_segments: bool = False
    """Whether references by id between segments and memories keep their targets."""

    @classmethod
    def of(cls, settings: Settings) -> MemorySettings:
        """Read them from the settings of a project."""
        said = settings.memory
        return cls(
            limits=Limits(grace=timedelta(days=said.grace_days), cap_percent=said.cap_percent),
            recently_read=timedelta(hours=said.recently_read_hours),
            ttl={source: timedelta(days=days) for source, days in said.life_days.items()},
            keeps_segments=said.keeps_segments,
        )


class PreviewRow(msgspec.Struct, frozen=True, gc=False):
    """A memory that a plan deletes, as shown to people."""

    memory_id: str
    file_path: str
    relative_path: str
    created_at: datetime
    lines: int
    chunk_count: int
    reason: str

    @classmethod
    def of(cls, row: MemoryRow, chunk_count: int, reason: str) -> PreviewRow:
        """Show a memory of a survey."""
        return cls(
            row.memory_id,
            row.file_path,
            row.relative_path,
            row.created_at,
            row.lines,
            chunk_count,
            reason,
        )


class Preview(msgspec.Struct, frozen=True):
    """A plan, and its first memories."""

    plan: Plan
    rows: tuple[PreviewRow, ...] = ()


class PruneResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `prune_memory` shows, or what applying a plan did."""

    plan: Plan
    rows: tuple[PreviewRow, ...] = ()
    """The first memories of the plan, in a dry run."""
    planned: Nodes = Nodes()
    """What a deletion would delete; empty once it is done."""
    deleted: Nodes = Nodes()
    left_alone: Nodes = Nodes()
    """What the plan names but was not deleted: it changed since, or something holds it again."""
    restorable_until: datetime | None = None
    """Until when what was deleted can be restored; None in a dry run."""

    @property
    def plan_id(self) -> str:
        """The plan that was made or applied."""
        return self.plan.plan_id


class Purged(msgspec.Struct, frozen=True):
    """What a purge erased, and the backup written before it."""

    gone: Nodes = Nodes()
    backup: Backup | None = None

    @property
    def text(self) -> str:
        """The result as a sentence."""
        if self.backup is None:
            return "Nothing is past its grace period."
        return f"Purged {counted(self.gone)}. A backup is in {self.backup.path}."


ADJECTIVES: dict[str, str] = {
    PruneStrategy.STALE_CODE: "stale ",
    PruneStrategy.ORPHANED_CHUNKS: "orphaned ",
    PruneStrategy.ORPHANED_ENTITIES: "orphaned ",
    PruneStrategy.EXPIRED: "expired ",
    PruneStrategy.DUPLICATES: "duplicate ",
}
"""The adjective for what a strategy deletes."""


def counted(nodes: Nodes, adjective: str = "") -> str:
    """Write how many nodes there are, without kinds that have none."""
    parts: list[str] = []
    for number, one, many in (
        (len(nodes.memories), "memory node", "memory nodes"),
        (len(nodes.chunks), "chunk", "chunks"),
        (len(nodes.entities), "entity", "entities"),
    ):
        if number:
            parts.append(f"{number} {'' if parts else adjective}{one if number == 1 else many}")
    if not parts:
        return "nothing"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def deletion_text(done: PruneResult) -> str:
    """Write what was deleted, what was left alone, and what is left for the next run."""
    plan = done.plan
    lines = [f"Successfully deleted {counted(done.deleted, ADJECTIVES.get(plan.strategy, ''))}."]
    if len(done.left_alone):
        lines.append(
            f"Left alone, because it changed since the preview: {counted(done.left_alone)}."
        )
    lines += blockers_text(plan)
    if len(done.deleted) and done.restorable_until is not None:
        lines.append(
            f"Restorable until {done.restorable_until:%Y-%m-%d %H:%M} UTC by plan {plan.plan_id}."
        )
    return "\n".join(lines)


def blockers_text(plan: Plan) -> list[str]:
    """Write what a strategy proposes but its plan does not delete, one line per reason."""
    return [f"Not taken: {each.size:,} nodes, {each.reason}." for each in plan.blockers]
