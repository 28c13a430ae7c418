"""Tools on the long-term memory: index a codebase, search, prune, count."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

import anyio
import anyio.to_thread
import msgspec
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from pydantic import Field

from marksweep.errors import BadInput, NotConfirmed, Refused
from marksweep.graph.pruning import (
    PreviewRow,
    PruneResult,
    blockers_text,
    counted,
    deletion_text,
)
from marksweep.graph.strategies import PruneStrategy, in_days
from marksweep.mcp.asking import Consent, CurrentWorkspace, can_confirm, state_of
from marksweep.mcp.tool import READS, SETS, SWEEPS, Answer, Ctx, StrictTool, VerbatimError
from marksweep.model import Plan
from marksweep.stores.base import DEFAULT_WORKSPACE
from marksweep.stores.graph.base import Counts, GraphHit, GraphQuery, Nodes

if TYPE_CHECKING:
    from marksweep.graph.memory import GraphMemory
    from marksweep.heaps.graph import Limits

T = TypeVar("T")

PROGRESS_SECONDS = 0.1
"""Minimum time between two progress reports. Shorter costs more than it is worth."""

WorkspaceName = Annotated[
    str, Field(max_length=500, description="Whose memory; the current workspace if left out.")
]


class _ProgressReporter:
    """Forwards progress to the client, not too often and without blocking the indexer.

    Made in the event loop; called from the indexer's thread.
    """

    def __init__(self, ctx: Ctx) -> None:
        self._ctx = ctx
        self._loop = asyncio.get_running_loop()
        self._last_reported = 0.0
        self._under_way: set[asyncio.Task[None]] = set()

    def __call__(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if done < total and now - self._last_reported < PROGRESS_SECONDS:
            return
        self._last_reported = now
        self._loop.call_soon_threadsafe(self._report, done, total, what)

    def _report(self, done: int, total: int, what: str) -> None:
        task = asyncio.create_task(self._ctx.report_progress(done, total, what))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def finish(self) -> None:
        """Wait until everything was reported."""
        await asyncio.gather(*self._under_way, return_exceptions=True)


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Run work that releases its resources even when the call is cancelled.

    A cancelled call is cancelled at every await, including those that clean up. So the work runs
    in a separate task, which is cancelled once and awaited.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise


class Memory(NamedTuple):
    """The long-term memory, and the workspace of it that a call is about."""

    graph: GraphMemory
    workspace: str


async def memory_here(ctx: Ctx, here: CurrentWorkspace, workspace_id: str) -> Memory:
    """Open the memory of a call; Refused if the workspace is not the caller's."""
    state = state_of(ctx)
    workspace = state.workspace(workspace_id or here.name)
    return Memory(await anyio.to_thread.run_sync(state.memory), workspace)


CurrentMemory = Annotated[Memory, Resolve(memory_here)]
"""The memory of a call, opened before the tool runs."""


class Indexed(msgspec.Struct, frozen=True):
    """What a run of the indexer did."""

    path: str
    workspace_id: str
    files: int
    """New or changed."""
    unchanged: int
    renamed: int
    functions: int
    classes: int
    languages: dict[str, int]
    lines: int
    seconds: float
    newly_stale: int
    stale: int
    """Memories of this repository that are stale now."""
    skipped: list[str]
    left_out: dict[str, int]
    """Secrets, build output and the like, by reason."""


async def index_codebase(
    ctx: Ctx,
    memory: CurrentMemory,
    *,
    path: Annotated[
        str, Field(max_length=4_096, description="A folder inside the allowed ones.")
    ] = ".",
    languages: Annotated[
        list[str], Field(max_length=50, description="Only these; all if left out.")
    ] = [],  # noqa: B006
    include_tests: bool = True,
    max_shrink: Annotated[
        float, Field(ge=0, le=1, description="Share of the files known so far that may be gone.")
    ] = 0.5,
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> Answer[Indexed]:
    """Read a folder's code into memory, so that recall and who_calls know it. Call once per project
    and after large changes; only what changed is read again. Not for a single file: read that
    yourself."""
    folder = state_of(ctx).allowed(path)
    try:
        from marksweep.indexing.indexer import index_codebase as index
    except ModuleNotFoundError as error:
        raise Refused(str(error)) from error
    reporter = _ProgressReporter(ctx)
    report = await _to_its_end(
        index(
            folder,
            store=memory.graph.graph,
            workspace_id=memory.workspace,
            languages=languages,
            include_tests=include_tests,
            max_shrink=max_shrink,
            include=state_of(ctx).settings.index.include,
            progress=lambda at: reporter(at.done, at.total, at.path),
        )
    )
    await reporter.finish()
    shown = {name: getattr(report, name) for name in Indexed.__struct_fields__}
    shown["seconds"] = round(report.seconds, 3)
    shown["skipped"] = [f"{each.path}: {each.reason}" for each in report.skipped]
    shown["left_out"] = dict(Counter(each.reason for each in report.left_out))
    return Answer(str(report), Indexed(**shown))


class MemoryHit(msgspec.Struct, frozen=True):
    """A piece of memory that matches."""

    memory_id: str
    source: str
    file: str
    lines: list[int]
    """First and last; empty for notes."""
    symbol: str
    text: str
    score: float
    mentions: list[str]
    stale: bool


def _hit(hit: GraphHit) -> MemoryHit:
    memory, chunk = hit.memory, hit.chunk
    return MemoryHit(
        memory.memory_id,
        memory.source,
        memory.relative_path,
        [chunk.start_line, chunk.end_line] if chunk.end_line else [],
        chunk.symbol,
        chunk.text,
        round(hit.score, 4),
        [entity.name for entity in hit.entities],
        memory.stale,
    )


class SearchResult(msgspec.Struct, frozen=True):
    """What a search found, best first."""

    hits: list[MemoryHit]


async def search_memory(
    memory: CurrentMemory,
    *,
    query: Annotated[str, Field(min_length=1, max_length=1_000, description="Words to look for.")],
    limit: Annotated[int, Field(ge=1, le=100)] = 10,
    languages: Annotated[list[str], Field(max_length=50)] = [],  # noqa: B006
    path: Annotated[
        str, Field(max_length=4_096, description="A file, or the folder it is in.")
    ] = "",
    tags: Annotated[list[str], Field(max_length=50, description="All of these.")] = [],  # noqa: B006
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> Answer[SearchResult]:
    """Search the long-term memory: indexed code and notes, best first, with what they mention.
    Call before you read many files to find one. Live and swept context too: recall."""
    wanted = GraphQuery(
        languages=tuple(languages), path=path or None, tags=tuple(tags), limit=limit
    )
    found = await memory.graph.search_memory(query, workspace_id=memory.workspace, query=wanted)
    words = f"{len(found.hits)} found, best first."
    nothing = "Nothing found. Try other words, or index the codebase first."
    return Answer(words if found.hits else nothing, SearchResult([*map(_hit, found.hits)]))


PruneChoice = Literal[
    "stale_code", "orphaned_chunks", "orphaned_entities", "expired", "duplicates", "all"
]


async def plan_to_delete(
    ctx: Ctx,
    memory: CurrentMemory,
    *,
    dry_run: bool,
    strategy: str,
    limit: int | None,
    plan_id: str,
) -> Plan | None:
    """Return the plan that a deletion carries out: the named one, the one shown last, or a new one.

    NotFound if the workspace has no such plan.
    """
    if dry_run and plan_id:
        raise BadInput(
            f"a dry run makes a new plan, but plan_id is {plan_id!r}. To delete what that plan "
            "shows, pass dry_run=false and confirm=true."
        )
    if dry_run:
        return None
    graph, workspace = memory
    named = plan_id or state_of(ctx).shown_plans.get((workspace, strategy))
    if named:
        return await graph.find_plan(workspace, named)
    plan = (await graph.plan(workspace, PruneStrategy.named(strategy), limit=limit)).plan
    await graph.save(plan)
    return plan


async def consent(
    ctx: Ctx, plan: Annotated[Plan | None, Resolve(plan_to_delete)], confirm: bool
) -> Elicit[Consent] | Consent:
    """Ask before anything is deleted, if that was not confirmed and the client can ask."""
    if plan is None or not plan.steps or confirm or not can_confirm(ctx):
        return Consent(delete=confirm)
    from marksweep.heaps.graph import planned

    return Elicit(f"Delete {counted(planned(plan))} from workspace {plan.workspace!r}?", Consent)


class MemoryPruned(msgspec.Struct, frozen=True):
    """What a prune would delete, or has deleted."""

    workspace_id: str
    strategy: str
    plan_id: str
    planned: Nodes
    """What a deletion would take (dry run)."""
    deleted: Nodes
    left_alone: Nodes
    """Changed since the preview, so not deleted."""
    not_taken: list[str]
    """How many nodes are kept, and why."""
    preview: tuple[PreviewRow, ...]
    """The first of what a deletion would take."""


async def prune_memory(
    ctx: Ctx,
    memory: CurrentMemory,
    *,
    plan: Annotated[Plan | None, Resolve(plan_to_delete)],
    answer: Annotated[ElicitationResult[Consent], Resolve(consent)],
    workspace_id: Annotated[
        str, Field(description="Whose memory; empty: the current workspace.")
    ] = "",
    dry_run: Annotated[  # noqa: ARG001 - `plan_to_delete` reads it: a dry run has no plan yet
        bool, Field(description="Only show what would go. false: delete it, if confirmed.")
    ] = True,
    confirm: Annotated[bool, Field(description="Must be true for a deletion.")] = False,
    strategy: Annotated[
        PruneChoice,
        Field(
            description="stale_code: files that are gone; orphaned_chunks: chunks that no memory "
            "has; orphaned_entities: entities that nothing mentions; expired: past their time to "
            "live; duplicates: notes that repeat another."
        ),
    ] = "stale_code",
    limit: Annotated[
        int | None,
        Field(ge=1, description="Delete at most this many nodes; default: the cap."),
    ] = None,
    plan_id: Annotated[  # noqa: ARG001 - `plan_to_delete` reads it
        str, Field(description="Of the dry run to carry out; default: the last.")
    ] = "",
) -> Answer[MemoryPruned]:
    """Show what in long-term memory is garbage: files and roots that are gone, duplicates, what is
    expired or orphaned. Call when asked to clean up. To delete what was shown, once the user
    agrees: its plan_id, dry_run false, confirm true; restorable for a week."""
    state = state_of(ctx)
    graph, workspace = memory
    limits = graph.settings.limits
    if plan is None:
        response = await graph.prune_memory(workspace, strategy=strategy, limit=limit)
        state.shown_plans[workspace, strategy] = response.plan_id
        return _pruned(response, limits)
    if not isinstance(answer, AcceptedElicitation):
        raise VerbatimError("Error: The user did not agree to the deletion. Nothing was deleted.")
    asked = answer.data.delete and not confirm
    try:
        response = await graph.prune_memory(
            workspace if asked or workspace != DEFAULT_WORKSPACE else workspace_id,
            dry_run=False,
            confirm=answer.data.delete,
            strategy=strategy,
            plan_id=plan.plan_id,
            limit=plan.freed if asked else limit,
        )
    except (NotConfirmed, Refused) as refusal:
        raise VerbatimError(f"Error: {refusal}") from refusal
    shown = (workspace, plan.strategy)
    if state.shown_plans.get(shown) == plan.plan_id:
        del state.shown_plans[shown]
    return _pruned(response, limits)


def _pruned(done: PruneResult, limits: Limits) -> Answer[MemoryPruned]:
    plan = done.plan
    named = (plan.workspace, plan.strategy, plan.plan_id)
    nodes = (done.planned, done.deleted, done.left_alone)
    found = MemoryPruned(*named, *nodes, blockers_text(plan), done.rows)
    return Answer(prune_text(done, limits), found)


def prune_text(response: PruneResult, limits: Limits) -> str:
    """Write what would be deleted and how to do so, or what was deleted."""
    plan = response.plan
    if response.restorable_until is not None:
        return deletion_text(response)
    lines = ["Dry run complete. Preview of items to delete:", ""]
    if not plan.steps:
        lines.append(f"Nothing: strategy {plan.strategy} finds nothing in {plan.workspace!r}.")
        return "\n".join([*lines, *blockers_text(plan)])
    nodes = response.planned
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
        for row in response.rows
    ]
    if more := len(nodes.memories) - len(response.rows):
        lines.append(f"- and {more} more")
    limit = f", limit={plan.freed}" if plan.freed > limits.cap(plan.size_before) else ""
    lines += [
        *blockers_text(plan),
        "",
        f"To delete exactly this: prune_memory(workspace_id={plan.workspace!r}, "
        f"plan_id={plan.plan_id!r}, dry_run=false, confirm=true{limit}).",
        f"Deleted items can be restored for {in_days(limits.grace)}.",
    ]
    return "\n".join(lines)


class MemoryStats(Counts, frozen=True, kw_only=True):
    """What a workspace's memory holds."""

    workspace_id: str


async def memory_stats(
    memory: CurrentMemory,
    *,
    workspace_id: WorkspaceName = "",  # noqa: ARG001 - `memory_here` reads it
) -> Answer[MemoryStats]:
    """Count what the long-term memory of a workspace holds, and what is stale or deleted in it.
    Call to see whether a clean-up is worth it."""
    counts = msgspec.structs.asdict(await memory.graph.stats(workspace_id=memory.workspace))
    hint = " Clean up: prune_memory." if counts["stale"] else ""
    rows = ", ".join(f"{value:,} {name}" for name, value in counts.items())
    words = f"Workspace {memory.workspace!r}: {rows}.{hint}"
    return Answer(words, MemoryStats(workspace_id=memory.workspace, **counts))


TOOLS = (
    StrictTool.of(index_codebase, "Index a codebase", SETS),
    StrictTool.of(search_memory, "Search memory", READS),
    StrictTool.of(prune_memory, "Prune memory", SWEEPS),
    StrictTool.of(memory_stats, "Memory statistics", READS),
)
