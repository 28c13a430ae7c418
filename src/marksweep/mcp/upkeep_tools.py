"""Tools that maintain the long-term memory: pins, roots, and duplicate entities."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from marksweep.mcp.context_tools import Names
from marksweep.mcp.memory_tools import CurrentMemory, WorkspaceName
from marksweep.mcp.results import Part
from marksweep.mcp.tool import READS, SETS, SWEEPS, Result, StrictTool


class MemoryPinned(Result):
    """Memories whose pin was set or removed."""

    memory_ids: list[str]
    pinned: bool
    found: int = Field(description="How many of them there are.")

    def words(self) -> str:
        """Render it in a line."""
        state = "Pinned" if self.pinned else "No longer pinned"
        return f"{state}: {self.found} of {len(self.memory_ids)}."


async def memory_pin(
    memory: CurrentMemory,
    *,
    memory_ids: Names,
    reason: Annotated[str, Field(max_length=500, description="Why it must stay.")] = "",
    remove: Annotated[bool, Field(description="Remove the pins instead.")] = False,
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> MemoryPinned:
    """Protect memories from every prune, or remove that protection. Call for what the user wants to
    keep permanently; what is in use is kept anyway."""
    graph, workspace = memory
    if remove:
        found = await graph.unpin(memory_ids, workspace_id=workspace)
    else:
        found = await graph.pin(memory_ids, by=reason or "agent", workspace_id=workspace)
    return MemoryPinned(memory_ids=memory_ids, pinned=not remove, found=found)


class IndexedRoot(Part):
    """A folder that was indexed."""

    repository: str
    path: str
    files: int
    lines: int
    stale: int
    last_seen_at: str
    there: bool
    gone_since: str = Field(description="When it was first found missing.")


class IndexedRoots(Result):
    """What was indexed, by root."""

    roots: list[IndexedRoot]

    def words(self) -> str:
        """Count them."""
        if not self.roots:
            return "Nothing has been indexed yet."
        gone = sum(not each.there for each in self.roots)
        return f"Roots: {len(self.roots)}; gone: {gone}."


async def memory_roots(memory: CurrentMemory, *, workspace_id: WorkspaceName = "") -> IndexedRoots:  # noqa: ARG001
    """List what was indexed: from where, when, how large, and whether it is still there. Call
    before you rely on recall for code. What is gone is stale after a while, for prune_memory."""
    found = await memory.graph.roots(workspace_id=memory.workspace)
    return IndexedRoots(
        roots=[
            IndexedRoot(
                repository=root.repository,
                path=root.path,
                files=root.files,
                lines=root.lines,
                stale=root.stale,
                last_seen_at=f"{root.last_seen_at:%Y-%m-%d %H:%M}",
                there=root.there,
                gone_since=f"{root.gone_since:%Y-%m-%d %H:%M}" if root.gone_since else "",
            )
            for root in found
        ]
    )


class RootDropped(Result):
    """What was deleted of a root."""

    root: str
    plan_id: str = Field(description="For restore_memory.")
    memories: int
    kept: list[str] = Field(description="What was not deleted, and why.")

    def words(self) -> str:
        """Say how much, and how to undo it."""
        if not self.memories:
            return f"Deleted nothing of {self.root}; see kept."
        return (
            f"Deleted {self.memories} files of {self.root}. To undo that: "
            f"restore_memory(plan_id={self.plan_id!r})."
        )


async def memory_drop_root(
    memory: CurrentMemory,
    *,
    root: Annotated[
        str, Field(min_length=1, max_length=4_096, description="As memory_roots says.")
    ],
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> RootDropped:
    """Delete all that was indexed from one folder, restorable for the grace period. Call when asked
    to forget a project; other roots stay, even if they have the same files."""
    done = await memory.graph.drop_root(root, workspace_id=memory.workspace)
    return RootDropped(
        root=root,
        plan_id=done.plan_id,
        memories=len(done.gone.memories),
        kept=list(done.unreached),
    )


class Merged(Result):
    """Entities that are one thing under several spellings."""

    plan_id: str
    groups: list[str] = Field(description="What would be merged, or was, with the reason.")
    gone: list[str] = Field(description="Entities that were merged into others.")

    def words(self) -> str:
        """Say what was merged, or how to do it."""
        if not self.groups:
            return "Nothing to merge: no entity has several spellings."
        if self.gone:
            return f"Merged, for good. Entities that are gone: {len(self.gone)}."
        return f"To merge exactly this, for good: memory_merge(plan_id={self.plan_id!r})."


async def memory_merge(
    memory: CurrentMemory,
    *,
    plan_id: Annotated[str, Field(description="Merge what this preview showed.")] = "",
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> Merged:
    """Show entities that are one thing under several spellings; with the plan's id, merge them.
    Call when asked to clean up: a merge cannot be undone."""
    graph, workspace = memory
    if not plan_id:
        plan = await graph.plan_merge_entities(workspace_id=workspace)
        return Merged(plan_id=plan.plan_id, groups=[step.reason for step in plan.steps], gone=[])
    plan = await graph.find_plan(workspace, plan_id)
    done = await graph.merge_entities(plan_id, workspace_id=workspace)
    return Merged(
        plan_id=plan_id, groups=[step.reason for step in plan.steps], gone=list(done.swept)
    )


TOOLS = (
    StrictTool.of(memory_pin, "Pin memories", SETS),
    StrictTool.of(memory_roots, "Indexed roots", READS),
    StrictTool.of(memory_drop_root, "Drop an indexed root", SWEEPS),
    StrictTool.of(memory_merge, "Merge entities", SWEEPS),
)
