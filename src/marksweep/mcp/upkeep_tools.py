"""Tools that maintain the long-term memory: restore, history, pins, roots, duplicate entities."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from pydantic import Field

from marksweep.errors import BadInput, NotFound
from marksweep.graph.roots import Root
from marksweep.mcp.context_tools import MOST_AT_ONCE, Name, Names
from marksweep.mcp.memory_tools import CurrentMemory, WorkspaceName
from marksweep.mcp.tool import ADDS, READS, SETS, SWEEPS, Answer, StrictTool
from marksweep.model import Entry, Event
from marksweep.stores.graph.base import Nodes


class MemoryRestored(msgspec.Struct, frozen=True):
    """What is live again."""

    workspace_id: str
    restored: Nodes


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
) -> Answer[MemoryRestored]:
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
    words = (
        f"Restored {len(restored.memories)} memories, {len(restored.chunks)} chunks and "
        f"{len(restored.entities)} entities in workspace {workspace!r}."
    )
    return Answer(words, MemoryRestored(workspace, restored))


class MemoryEvent(msgspec.Struct, frozen=True):
    """One entry of the audit log."""

    seq: int
    at: datetime
    event: Event
    plan_id: str
    actor: str
    strategy: str
    """Of a plan; empty for other events."""
    memories: int
    chunks: int
    entities: int


def _event(entry: Entry) -> MemoryEvent:
    from marksweep.heaps.graph import nodes_of, planned

    names = entry.report.swept if entry.report else entry.segments
    nodes = planned(entry.plan) if entry.plan else nodes_of(names)
    strategy = entry.plan.strategy if entry.plan else ""
    counts = map(len, (nodes.memories, nodes.chunks, nodes.entities))
    done = (entry.seq, entry.at, entry.event, entry.plan_id, entry.actor)
    return MemoryEvent(*done, strategy, *counts)


class MemoryHistory(msgspec.Struct, frozen=True):
    """What was previewed, deleted, restored and purged, newest first."""

    workspace_id: str
    events: list[MemoryEvent]


async def memory_history(
    memory: CurrentMemory,
    *,
    limit: Annotated[int, Field(ge=1, le=1_000)] = 20,
    events: Annotated[list[Event], Field(max_length=20, description="Only these.")] = [],  # noqa: B006
    plan_id: Annotated[str, Field(max_length=200, description="Only of this plan.")] = "",
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> Answer[MemoryHistory]:
    """List what was planned, deleted, restored and purged in the long-term memory, when, by whom
    and how much, newest first. Call to find the plan to restore, or what became of a memory."""
    graph, workspace = memory
    entries = await graph.history(
        workspace_id=workspace, events=events, plan_id=plan_id or None, limit=limit
    )
    found = MemoryHistory(workspace, [_event(entry) for entry in entries])
    if not entries:
        return Answer(f"Nothing was done to the memory of workspace {workspace!r} yet.", found)
    return Answer(f"{len(entries)} events in workspace {workspace!r}, newest first.", found)


class MemoryPinned(msgspec.Struct, frozen=True):
    """Memories whose pin was set or removed, and how many of them there are."""

    memory_ids: list[str]
    pinned: bool
    found: int


async def memory_pin(
    memory: CurrentMemory,
    *,
    memory_ids: Names,
    reason: Annotated[str, Field(max_length=500, description="Why it must stay.")] = "",
    remove: Annotated[bool, Field(description="Remove the pins instead.")] = False,
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> Answer[MemoryPinned]:
    """Protect memories from every prune, or remove that protection. Call for what the user wants to
    keep permanently; what is in use is kept anyway."""
    graph, workspace = memory
    if remove:
        found = await graph.unpin(memory_ids, workspace_id=workspace)
    else:
        found = await graph.pin(memory_ids, by=reason or "agent", workspace_id=workspace)
    words = f"{'No longer pinned' if remove else 'Pinned'}: {found} of {len(memory_ids)}."
    return Answer(words, MemoryPinned(memory_ids, not remove, found))


class IndexedRoots(msgspec.Struct, frozen=True):
    """What was indexed, by root."""

    roots: tuple[Root, ...]


async def memory_roots(
    memory: CurrentMemory,
    *,
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> Answer[IndexedRoots]:
    """List what was indexed: from where, when, how large, and whether it is still there. Call
    before you rely on recall for code. What is gone is stale after a while, for prune_memory."""
    roots = await memory.graph.roots(workspace_id=memory.workspace)
    words = f"Roots: {len(roots)}; gone: {sum(not each.there for each in roots)}."
    return Answer(words if roots else "Nothing has been indexed yet.", IndexedRoots(roots))


class RootDropped(msgspec.Struct, frozen=True):
    """What was deleted of a root."""

    root: str
    plan_id: str
    """For restore_memory."""
    memories: int
    kept: tuple[str, ...]
    """What was not deleted, and why."""


async def memory_drop_root(
    memory: CurrentMemory,
    *,
    root: Annotated[
        str, Field(min_length=1, max_length=4_096, description="As memory_roots lists it.")
    ],
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> Answer[RootDropped]:
    """Delete all that was indexed from one folder, restorable for the grace period. Call when asked
    to forget a project; other roots stay, even if they have the same files."""
    done = await memory.graph.drop_root(root, workspace_id=memory.workspace)
    number = len(done.gone.memories)
    undo = f"To undo that: restore_memory(plan_id={done.plan_id!r})."
    words = f"Deleted {number} files of {root}. {undo}"
    nothing = f"Deleted nothing of {root}; see kept."
    dropped = RootDropped(root, done.plan_id, number, done.unreached)
    return Answer(words if number else nothing, dropped)


class Merged(msgspec.Struct, frozen=True):
    """Entities that are one thing under several spellings."""

    plan_id: str
    groups: list[str]
    """What would be merged, or was, with the reason."""
    gone: tuple[str, ...]
    """Entities that were merged into others."""


async def memory_merge(
    memory: CurrentMemory,
    *,
    plan_id: Annotated[str, Field(description="Merge what this preview showed.")] = "",
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> Answer[Merged]:
    """Show entities that are one thing under several spellings; with the plan's id, merge them.
    Call when asked to clean up: a merge cannot be undone."""
    graph, workspace = memory
    gone: tuple[str, ...] = ()
    if plan_id:
        plan = await graph.find_plan(workspace, plan_id)
        gone = (await graph.merge_entities(plan_id, workspace_id=workspace)).swept
    else:
        plan = await graph.plan_merge_entities(workspace_id=workspace)
    words = f"To merge exactly this, for good: memory_merge(plan_id={plan.plan_id!r})."
    if gone:
        words = f"Merged, for good. Entities that are gone: {len(gone)}."
    elif not plan.steps:
        words = "Nothing to merge: no entity has several spellings."
    return Answer(words, Merged(plan.plan_id, [step.reason for step in plan.steps], gone))


TOOLS = (
    StrictTool.of(restore_memory, "Restore memory", ADDS),
    StrictTool.of(memory_history, "History of the memory", READS),
    StrictTool.of(memory_pin, "Pin memories", SETS),
    StrictTool.of(memory_roots, "Indexed roots", READS),
    StrictTool.of(memory_drop_root, "Drop an indexed root", SWEEPS),
    StrictTool.of(memory_merge, "Merge entities", SWEEPS),
)
