"""Tools that collect: prune, undo, history."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio.to_thread
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from pydantic import Field

from marksweep.errors import BadInput, NotConfirmed, NotFound, PlanOutdated, Refused
from marksweep.mcp.analyze_tool import Strategy
from marksweep.mcp.asking import Consent, CurrentWorkspace, can_confirm
from marksweep.mcp.context_tools import MOST_AT_ONCE, Name, usage
from marksweep.mcp.gc_results import Event, History, Pruned, Undone
from marksweep.mcp.server_state import Workspace
from marksweep.mcp.tool import ADDS, READS, SWEEPS, Ctx, StrictTool
from marksweep.model import Action, Plan, Report
from marksweep.segments import Segments
from marksweep.strategies.scored import Disposal

ATTEMPTS = 5
"""Retries of a plan for named segments when others change the heap at the same time."""

NAMED_IN_QUESTION = 10
"""Segments named in a question; the rest are counted."""


async def plan_to_show(
    here: CurrentWorkspace, segment_ids: list[str], plan_id: str, strategy: Disposal
) -> Plan | None:
    """Make or fetch the plan of a prune that may delete, to ask first; None if it only stashes."""
    if bool(segment_ids) == bool(plan_id):
        raise BadInput("expected either segment_ids or plan_id. Pass one of them.")
    if not plan_id and strategy is Disposal.STASH:
        return None
    return await anyio.to_thread.run_sync(_plan, here, segment_ids, plan_id, strategy)


def _plan(here: Workspace, segment_ids: list[str], plan_id: str, strategy: Disposal) -> Plan:
    with here.segments() as context:
        if not plan_id:
            return context.plan_for(segment_ids, strategy)
        plan = context.saved(plan_id)
        if strategy is Disposal.DELETE and not plan.deletes:
            raise BadInput(
                f"{plan_id} stashes, and strategy is {strategy.value!r}. Leave strategy out, "
                f"or call context_gc_analyze with strategy {strategy.value!r} for a new plan."
            )
        return plan


async def consent(
    ctx: Ctx, plan: Annotated[Plan | None, Resolve(plan_to_show)], confirm: str
) -> Elicit[Consent] | Consent:
    """Ask before anything is deleted, if that was not confirmed and the client can ask."""
    if plan is None or not plan.deletes:
        return Consent(delete=False)
    if confirm or not can_confirm(ctx):
        return Consent(delete=confirm == plan.plan_id)
    deleted = _deletions(plan)
    names = [name for step in plan.steps for name in step.segments if name in deleted]
    tokens = sum(step.size for step in plan.steps if step.action is Action.DELETE)
    rest = len(names) - NAMED_IN_QUESTION
    more = f" and {rest} more" if rest > 0 else ""
    return Elicit(
        f"Delete {len(names)} segments ({tokens:,} tokens): "
        f"{', '.join(names[:NAMED_IN_QUESTION])}{more}?",
        Consent,
    )


async def context_gc_prune(
    ctx: Ctx,
    here: CurrentWorkspace,
    *,
    shown: Annotated[Plan | None, Resolve(plan_to_show)],
    answer: Annotated[ElicitationResult[Consent], Resolve(consent)],
    segment_ids: Annotated[list[Name], Field(max_length=MOST_AT_ONCE)] = [],  # noqa: B006
    plan_id: Annotated[  # noqa: ARG001 - like `confirm`, it is read by `plan_to_show` and `consent`
        str, Field(max_length=200, description="Of context_gc_analyze.")
    ] = "",
    strategy: Strategy = Disposal.STASH,
    confirm: Annotated[  # noqa: ARG001
        str, Field(max_length=200, description="The plan's id again: confirms its deletions.")
    ] = "",
) -> Pruned:
    """Sweep the segments you name, unless they are pinned or locked, or exactly what a plan of
    context_gc_analyze says. Call when a limit is near, or when you are done with what you name. The
    default is the stash, from which everything can be restored. Deleting
    needs a confirmation: by the user if the client can ask, else by the plan's id in confirm."""
    total = len(shown.steps) if shown else len(segment_ids)
    await ctx.report_progress(0, total, "sweeping")
    prune = partial(_prune, here, shown, answer, segment_ids, strategy)
    pruned = await anyio.to_thread.run_sync(prune)
    await ctx.report_progress(total, total, "swept")
    return pruned


def _prune(
    here: Workspace,
    shown: Plan | None,
    answer: ElicitationResult[Consent],
    segment_ids: list[str],
    strategy: Disposal,
) -> Pruned:
    """Collect the plan that was shown; if there was nothing to ask, a new one."""
    with here.segments() as context:
        plan = shown or context.plan_for(segment_ids, strategy)
        if plan.deletes:
            _check(context, plan, answer)
        plan, report = _carry_out(context, plan, segment_ids, strategy)
        gone = {name for step in plan.steps for name in step.segments}
        kept = context.kept_because([name for name in segment_ids if name not in gone])
        return Pruned.of(plan, report, kept)


def _carry_out(
    context: Segments, plan: Plan, segment_ids: list[str], strategy: Disposal
) -> tuple[Plan, Report]:
    """Collect a plan. One for named segments is made again if others changed the heap meanwhile.

    It never deletes more than what was agreed to.
    """
    agreed = _deletions(plan)
    for _ in range(ATTEMPTS):
        try:
            return plan, context.collect(plan, confirm=plan.plan_id)
        except PlanOutdated:
            if not segment_ids:
                raise
            plan = context.plan_for(segment_ids, strategy)
            if not _deletions(plan) <= agreed:
                raise
    return plan, context.collect(plan, confirm=plan.plan_id)


def _deletions(plan: Plan) -> set[str]:
    return {name for step in plan.steps if step.action is Action.DELETE for name in step.segments}


def _check(context: Segments, plan: Plan, answer: ElicitationResult[Consent]) -> None:
    """Refuse a deletion that nobody agreed to."""
    if not isinstance(answer, AcceptedElicitation):
        raise Refused("the user did not agree to the deletion. Nothing was changed.")
    if not answer.data.delete:
        context.save(plan)
        raise NotConfirmed(
            f"{plan.plan_id} deletes segments and was not confirmed; nothing was changed. To "
            f"delete, call context_gc_prune with plan_id and confirm both {plan.plan_id!r}; or "
            "leave strategy out, and they go to the stash."
        )


def context_gc_undo(
    here: CurrentWorkspace,
    plan_id: Annotated[str, Field(max_length=200, description="The latest if left out.")] = "",
) -> Undone:
    """Reverse a whole sweep: everything it took comes back to where it was. Call when it took what
    you need; single segments: context_recall."""
    with here.segments() as context:
        wanted = plan_id or context.latest()
        if not wanted:
            raise NotFound("nothing was swept from this workspace, so there is nothing to undo.")
        restored = context.undo(wanted)
        return Undone(plan_id=wanted, restored=list(restored), usage=usage(context))


def context_gc_history(
    here: CurrentWorkspace, limit: Annotated[int, Field(ge=1, le=1_000)] = 20
) -> History:
    """List what was planned, swept, restored and undone, newest first. Call to find the plan to
    undo."""
    with here.segments() as context:
        return History(events=[Event.of(entry) for entry in context.history(limit)])


TOOLS = (
    StrictTool.of(context_gc_prune, "Prune context", SWEEPS),
    StrictTool.of(context_gc_undo, "Undo a sweep", ADDS),
    StrictTool.of(context_gc_history, "History of collections", READS),
)
