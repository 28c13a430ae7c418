"""What pruning is allowed, and what it says it did."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from marksweep.graph.backup import Backup
from marksweep.model import Plan
from marksweep.stores.graph.base import Nodes

GRACE = timedelta(days=7)
"""How long what was deleted can be restored. Longer keeps more in the store."""

CAP_PERCENT = 20.0
"""Share of a workspace's nodes that one plan may take. Higher lets a mistake take more at once."""

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
        return plan.tokens_freed <= self.cap_of(plan)

    def cap_of(self, plan: Plan) -> int:
        """Count the nodes that a plan may take."""
        return max(self.cap_floor, int(plan.tokens_before * self.cap_percent / 100))


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
