"""What pruning says to people and models."""

from __future__ import annotations

import msgspec

from marksweep.graph.outcomes import Limits, Preview, Purged, Swept
from marksweep.graph.refs import planned
from marksweep.heaps.graph import PruneStrategy
from marksweep.model import Plan
from marksweep.stores.graph.base import Nodes

NOT_CONFIRMED = (
    "Error: Deletion requires explicit confirmation. Set confirm=true to proceed. "
    "Run with dry_run=true first to preview."
)

ADJECTIVES: dict[str, str] = {
    PruneStrategy.STALE_CODE: "stale ",
    PruneStrategy.ORPHANED_CHUNKS: "orphaned ",
    PruneStrategy.ORPHANED_ENTITIES: "orphaned ",
    PruneStrategy.EXPIRED: "expired ",
    PruneStrategy.DUPLICATES: "duplicate ",
    PruneStrategy.ALL: "",
}


class PruneResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What `prune_memory` answers: words, and the same as data."""

    text: str
    is_error: bool = False
    plan: Plan | None = None
    planned: Nodes = Nodes()
    deleted: Nodes = Nodes()
    left_alone: Nodes = Nodes()

    @property
    def plan_id(self) -> str:
        """The plan that was made or applied."""
        return self.plan.plan_id if self.plan else ""

    def tool_result(self) -> dict[str, object]:
        """Give the answer as a tool's result."""
        return {"content": [{"type": "text", "text": self.text}], "isError": self.is_error}


def counted(nodes: Nodes, adjective: str = "") -> str:
    """Say how many nodes there are, leaving out kinds that there are none of."""
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


def previewed(preview: Preview, limits: Limits) -> PruneResponse:
    """Show a plan."""
    plan = preview.plan
    nodes = planned(plan)
    lines = ["Dry run complete. Preview of items to delete:", ""]
    if not plan.steps:
        lines.append(f"Nothing: strategy {plan.strategy} finds nothing in {plan.workspace!r}.")
        return PruneResponse(text="\n".join(lines), plan=plan)
    lines += [
        f"Workspace: {plan.workspace}",
        f"Strategy: {plan.strategy}",
        f"Memories: {len(nodes.memories)}",
        f"Chunks: {len(nodes.chunks)}",
        f"Entities: {len(nodes.entities)}",
        "",
    ]
    lines += [
        f"- {row.relative_path or row.memory_id} ({row.lines} lines, {row.chunk_count} chunks, "
        f"created {row.created_at:%Y-%m-%d %H:%M}): {row.reason}"
        for row in preview.rows
    ]
    if more := len(nodes.memories) - len(preview.rows):
        lines.append(f"- and {more} more")
    over = "" if limits.allows(plan) else f", limit={plan.freed}"
    if over:
        lines.append(
            f"This is more than the cap of {limits.cap_of(plan)} nodes for one run; deleting it "
            f"needs limit={plan.freed}."
        )
    lines += [
        "",
        f"Plan: {plan.plan_id}",
        f"To delete exactly this: prune_memory(workspace_id={plan.workspace!r}, "
        f"strategy={str(plan.strategy)!r}, dry_run=false, confirm=true, "
        f"plan_id={plan.plan_id!r}{over}).",
        f"Deleted items can be restored for {limits.grace.days} days.",
    ]
    return PruneResponse(text="\n".join(lines), plan=plan, planned=nodes)


def swept(result: Swept) -> PruneResponse:
    """Say what was deleted."""
    plan = result.plan
    adjective = ADJECTIVES.get(plan.strategy, "")
    lines = [f"Successfully deleted {counted(result.done, adjective)}."]
    if len(result.left_alone):
        lines.append(
            f"Left alone, because it changed since the preview: {counted(result.left_alone)}."
        )
    if len(result.done):
        lines.append(
            f"Restorable until {result.restorable_until:%Y-%m-%d %H:%M} UTC by plan {plan.plan_id}."
        )
    return PruneResponse(
        text="\n".join(lines), plan=plan, deleted=result.done, left_alone=result.left_alone
    )


def purged(result: Purged) -> str:
    """Say what was erased for good."""
    if result.backup is None:
        return "Nothing is past its grace period."
    return f"Purged {counted(result.gone)}. A backup is in {result.backup.path}."
