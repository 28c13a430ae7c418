"""Tools that undo a deletion of long-term memory, and show its history."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from marksweep.errors import BadInput, NotFound
from marksweep.mcp.context_tools import MOST_AT_ONCE, Name
from marksweep.mcp.memory_results import NodeIds
from marksweep.mcp.memory_tools import CurrentMemory, WorkspaceName
from marksweep.mcp.results import Part
from marksweep.mcp.tool import ADDS, READS, Result, StrictTool
from marksweep.model import Event

if TYPE_CHECKING:
    from marksweep.model import Entry


class MemoryRestored(Result):
    """What is live again."""

    workspace_id: str
    restored: NodeIds

    def words(self) -> str:
        """Render it in a line."""
        nodes = self.restored
        return (
            f"Restored {len(nodes.memories)} memories, {len(nodes.chunks)} chunks and "
            f"{len(nodes.entities)} entities in workspace {self.workspace_id!r}."
        )


class MemoryEvent(Part):
    """One entry of the audit log."""

    seq: int
    at: datetime
    event: Event
    plan_id: str
    actor: str
    strategy: str = Field(description="Of a plan; empty for other events.")
    memories: int
    chunks: int
    entities: int

    @classmethod
    def of(cls, entry: Entry) -> MemoryEvent:
        """Render what an entry says."""
        from marksweep.heaps.graph import nodes_of, planned

        names = entry.report.swept if entry.report else entry.segments
        nodes = planned(entry.plan) if entry.plan else nodes_of(names)
        return cls(
            seq=entry.seq,
            at=entry.at,
            event=entry.event,
            plan_id=entry.plan_id,
            actor=entry.actor,
            strategy=entry.plan.strategy if entry.plan else "",
            memories=len(nodes.memories),
            chunks=len(nodes.chunks),
            entities=len(nodes.entities),
        )


class MemoryHistory(Result):
    """What was previewed, deleted, restored and purged, newest first."""

    workspace_id: str
    events: list[MemoryEvent]

    def words(self) -> str:
        """Count them."""
        if not self.events:
            return f"Nothing was done to the memory of workspace {self.workspace_id!r} yet."
        return f"{len(self.events)} events in workspace {self.workspace_id!r}, newest first."


async def restore_memory(
    memory: CurrentMemory,
    *,
    plan_id: Annotated[
        str, Field(max_length=200, description="Of prune_memory: all that it deleted.")
    ] = "",
    memory_ids: Annotated[
        list[Name], Field(max_length=MOST_AT_ONCE, description="Or only these memories.")
    ] = [],  # noqa: B006
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> MemoryRestored:
    """Restore what prune_memory deleted, by its plan or single memories with all they hold, as
    long as their grace period lasts. Call when it deleted what is needed; memory_history lists the
    plans."""
    if bool(plan_id) == bool(memory_ids):
        raise BadInput("expected either plan_id or memory_ids. Pass one of them.")
    graph, workspace = memory
    restored = await graph.restore(plan_id=plan_id, memory_ids=memory_ids, workspace_id=workspace)
    if not len(restored):
        raise NotFound(
            f"none of these is deleted in workspace {workspace!r}: {', '.join(memory_ids)}. They "
            "are live, were purged, or never existed. memory_history lists what was done."
        )
    return MemoryRestored(workspace_id=workspace, restored=NodeIds.model_validate(restored))


async def memory_history(
    memory: CurrentMemory,
    *,
    limit: Annotated[int, Field(ge=1, le=1_000)] = 20,
    events: Annotated[list[Event], Field(max_length=20, description="Only these.")] = [],  # noqa: B006
    plan_id: Annotated[str, Field(max_length=200, description="Only of this plan.")] = "",
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> MemoryHistory:
    """List what was planned, deleted, restored and purged in the long-term memory, when, by whom
    and how much, newest first. Call to find the plan to restore, or what became of a memory."""
    graph, workspace = memory
    entries = await graph.history(
        workspace_id=workspace, events=events, plan_id=plan_id or None, limit=limit
    )
    found = [MemoryEvent.of(entry) for entry in entries]
    return MemoryHistory(workspace_id=workspace, events=found)


TOOLS = (
    StrictTool.of(restore_memory, "Restore memory", ADDS),
    StrictTool.of(memory_history, "History of the memory", READS),
)
