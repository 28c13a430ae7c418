"""What a memory and its pruning are allowed, and what pruning says it did."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from marksweep.graph.backup_file import Backup
from marksweep.heaps.graph import CAP_PERCENT, GRACE, RECENTLY_READ
from marksweep.model import Plan
from marksweep.settings import Settings
from marksweep.stores.graph.base import Nodes

CAP_FLOOR = 100
"""Nodes that a plan may always take: in a small workspace one file may be more than the cap."""

WAIT_SECONDS = 10.0
"""How long to wait for another process that works on the workspace."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a collection from going too far."""

    grace: timedelta = GRACE
    cap_percent: float = CAP_PERCENT
    cap_floor: int = CAP_FLOOR
    wait_seconds: float = WAIT_SECONDS

    def allows(self, plan: Plan) -> bool:
        """Tell whether a plan stays within the cap."""
        return plan.freed <= self.cap_of(plan)

    def cap_of(self, plan: Plan) -> int:
        """Count the nodes that a plan may take."""
        return max(self.cap_floor, int(plan.size_before * self.cap_percent / 100))


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long memories live and what protects them."""

    limits: Limits = Limits()
    recently_read: timedelta = RECENTLY_READ
    ttl: Mapping[str, timedelta] = {}
    """Life of memories by source. A source that is not named lives for ever."""
    keeps_segments: bool = False
    """Whether segments and memories that refer to each other by id keep each other."""

    @classmethod
    def of(cls, settings: Settings) -> MemorySettings:
        """Take what the settings of a project say."""
        said = settings.memory
        return cls(
            limits=Limits(grace=timedelta(days=said.grace_days), cap_percent=said.cap_percent),
            recently_read=timedelta(hours=said.recently_read_hours),
            ttl={source: timedelta(days=days) for source, days in said.life_days.items()},
            keeps_segments=said.keeps_segments,
        )


class PreviewRow(msgspec.Struct, frozen=True, gc=False):
    """A memory that a plan takes, for people to look at."""

    memory_id: str
    file_path: str
    relative_path: str
    created_at: datetime
    lines: int
    chunk_count: int
    reason: str


class Preview(msgspec.Struct, frozen=True):
    """A plan, and its first memories."""

    plan: Plan
    rows: tuple[PreviewRow, ...] = ()


class Swept(msgspec.Struct, frozen=True):
    """What applying a plan did."""

    plan: Plan
    done: Nodes
    left_alone: Nodes
    """Rows that changed since the plan was made, or that something holds again."""
    restorable_until: datetime


class Purged(msgspec.Struct, frozen=True):
    """What a purge erased, and the backup that was written before."""

    gone: Nodes = Nodes()
    backup: Backup | None = None
